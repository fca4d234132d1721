"""The headers that every request of a provider carries: the key, and what the settings add."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aar.errors import InvalidSetting

__all__ = ["request_headers"]

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def request_headers(api_key: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """JSON as the content type, the key, and `extra.extra_headers`, which override. Names are in lower case.

    The key goes as `Authorization: Bearer KEY`, or alone into the header that `extra.auth_header` names. Raises
    `InvalidSetting` for what no header can carry.
    """
    headers = {"content-type": "application/json"}
    if api_key:
        name = str(extra.get("auth_header") or "").lower()
        headers[name or "authorization"] = api_key if name else f"Bearer {api_key}"
    more = extra.get("extra_headers") or {}
    if not isinstance(more, dict):
        raise InvalidSetting("provider.extra.extra_headers must be an object of names and values")
    headers |= {str(name).lower(): str(value) for name, value in more.items()}
    for name, value in headers.items():
        if _CONTROLS.search(value) or not _NAME.fullmatch(name):
            what = "provider.api_key" if api_key and api_key in value else "provider.extra.extra_headers"
            raise InvalidSetting(f"{what}: the header {name!r} would hold characters that no header can carry")
    return headers
