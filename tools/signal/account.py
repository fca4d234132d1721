"""What one Signal account can do over the REST API, without MCP around it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import trio

from tools.rest import Rest
from tools.signal.messages import readable
from tools.signal.settings import Settings

__all__ = ["Account"]

MAX_ATTACHMENT = 20_000_000  # bytes
KEPT = 500  # messages in the inbox; Signal hands out each message once


@dataclass
class Account:
    """`folder`: attachments come from below it, so that no message carries a key file away."""

    settings: Settings
    folder: Path
    inbox: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def number(self) -> str:
        return self.settings.account_number

    @property
    def api(self) -> Rest:
        return Rest("Signal", self.settings.api_base_url, self.settings.api_timeout)

    def _path(self, what: str) -> str:
        return f"/v1/{what}/{quote(self.number, safe='')}"

    async def send(self, recipients: Sequence[str], message: str, attachments: Sequence[str] = ()) -> str:
        if not recipients:
            raise ValueError("No recipients")
        if not message.strip() and not attachments:
            raise ValueError("Nothing to send: the message is empty")
        files = [await trio.to_thread.run_sync(self._attachment, name) for name in attachments]
        body: dict[str, Any] = {"number": self.number, "recipients": list(recipients), "message": message}
        body |= {"base64_attachments": files} if files else {}
        sent = await self.api.call("POST", "/v2/send", json=body)
        return f"Message sent to {', '.join(recipients)} (timestamp {(sent or {}).get('timestamp', '?')})"

    def _attachment(self, name: str) -> str:
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError(f"{name} is outside {self.folder}: only files below it can be attached")
        if not path.is_file():
            raise ValueError(f"{name} is no file")
        if path.stat().st_size > MAX_ATTACHMENT:
            raise ValueError(f"{name} is larger than {MAX_ATTACHMENT:,} bytes")
        return b64encode(path.read_bytes()).decode("ascii")

    async def react(self, recipient: str, emoji: str, author: str, timestamp: int, remove: bool) -> str:
        body = {"recipient": recipient, "reaction": emoji, "target_author": author, "timestamp": timestamp}
        await self.api.call("DELETE" if remove else "POST", self._path("reactions"), json=body)
        return f"Reaction {emoji} {'removed' if remove else 'sent'}"

    async def receive(self, timeout: int | None = None, limit: int = 0) -> list[dict[str, Any]]:
        """The messages that came since the last time, at most `limit` of them if that is not 0.

        All of them stay in the inbox, since nobody gets them a second time.
        """
        wait = self.settings.receive_timeout if timeout is None else timeout
        path, patience = self._path("receive"), wait + self.settings.api_timeout
        envelopes = await self.api.call("GET", path, params={"timeout": wait}, timeout=patience) or []
        messages = [message for envelope in envelopes if (message := readable(envelope)) is not None]
        self.inbox.extend(messages)
        return messages[:limit] if limit else messages

    async def receive_text(self, timeout: int | None, limit: int) -> str:
        messages = await self.receive(timeout, limit)
        return as_json(messages) if messages else "No new messages."

    async def groups(self) -> Any:
        return await self.api.call("GET", self._path("groups")) or []

    async def contacts(self) -> Any:
        return await self.api.call("GET", self._path("contacts")) or []

    async def accounts(self) -> Any:
        return await self.api.call("GET", "/v1/accounts") or []

    async def info(self) -> dict[str, Any]:
        known = await self.accounts()
        about = await self.api.call("GET", "/v1/about")
        return {"account_number": self.number, "registered": self.number in known, "api": about}

    async def create_group(self, name: str, members: Sequence[str], description: str) -> str:
        if not name.strip():
            raise ValueError("The group has no name")
        body = {"name": name, "members": list(members), "description": description}
        created = await self.api.call("POST", self._path("groups"), json=body)
        return f"Group created: {name} ({(created or {}).get('id', '?')})"

    async def update_contact(self, number: str, name: str, expiration_seconds: int) -> str:
        body = {"recipient": number, "name": name, "expiration_in_seconds": expiration_seconds}
        await self.api.call("PUT", self._path("contacts"), json=body)
        return f"Contact updated: {name} ({number})"

    async def set_profile(self, name: str, about: str, emoji: str) -> str:
        """The API has no field for the emoji, so it stands in front of the text, where apps show it too."""
        text = f"{emoji} {about}".strip()
        await self.api.call("PUT", self._path("profiles"), json={"name": name, "about": text})
        return f"Profile updated: {name}"


def as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
