"""Untrusted text for people: `visible` and `one_line` where they decide, `plain` where they only read.

`plain_json` is for programs whose output may end up on a terminal all the same.
"""

from __future__ import annotations

from aar.safety.display import one_line, plain, plain_json, visible

__all__ = ["one_line", "plain", "plain_json", "visible"]
