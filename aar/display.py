"""Untrusted text for people, for every way in: `visible` where they decide, `plain` where they only read.

`plain_json` is for programs whose output may end up on a terminal all the same.
"""

from __future__ import annotations

from aar.safety.display import plain, plain_json, visible

__all__ = ["plain", "plain_json", "visible"]
