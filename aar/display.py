"""Untrusted text for people, for every way in: `visible` where they decide, `plain` where they only read."""

from __future__ import annotations

from aar.safety.display import plain, visible

__all__ = ["plain", "visible"]
