"""What came from Signal, as a few plain fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["readable"]


def readable(received: Any) -> dict[str, Any] | None:
    """A message in eight fields, or None for what is none: receipts, typing, calls."""
    envelope = received.get("envelope") if isinstance(received, Mapping) else None
    data = envelope.get("dataMessage") if isinstance(envelope, Mapping) else None
    if not isinstance(envelope, Mapping) or not isinstance(data, Mapping):
        return None
    group = (data.get("groupInfo") or {}).get("groupId")
    attachments = data.get("attachments") or []
    if data.get("message") is None and not attachments:
        return None
    return {
        "sender": envelope.get("sourceNumber") or envelope.get("source") or envelope.get("sourceUuid"),
        "sender_name": envelope.get("sourceName"),
        "message": data.get("message") or "",
        "timestamp": data.get("timestamp") or envelope.get("timestamp"),
        "group_id": group,
        "is_group": group is not None,
        "attachments": [_attachment(attachment) for attachment in attachments],
        "has_quote": data.get("quote") is not None,
    }


def _attachment(attachment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": attachment.get("id"),
        "filename": attachment.get("filename"),
        "content_type": attachment.get("contentType"),
        "size": attachment.get("size"),
    }
