"""The companion as text: a face that moves, a bar, and the words beside them."""

from __future__ import annotations

from collections.abc import Iterable

from aar.companion.progress import LEVELS, Companion, Mood

__all__ = ["FACES", "bar", "drawn", "status_lines"]

BAR_CELLS = 8

FACES: dict[Mood, tuple[str, ...]] = {  # all of one width, so that nothing beside them moves
    "happy": ("(^_^)", "(^_^)", "(^_^)", "(-_-)"),
    "sleeping": ("(-_-)", "(-.-)", "(-o-)", "(-.-)"),
    "focused": ("(o_o)", "(o_o)", "(-_-)", "(o_o)"),
    "thinking": ("(._.)", "(._.)", "(-_-)", "('_')"),
    "excited": ("(^o^)", "(^O^)"),
    "stressed": ("(>_<)", "(@_@)"),
    "level_up": ("\\^o^/", "(^o^)"),
}


def bar(share: float, cells: int = BAR_CELLS) -> str:
    """`[■■■■░░░░]` for a half."""
    full = min(cells, max(0, int(share * cells)))
    return f"[{'■' * full}{'░' * (cells - full)}]"


def drawn(companion: Companion, parts: Iterable[str], *, name: str = "", frame: int = 0) -> str:
    """These parts of it, in their order: `kaomoji`, `xp_bar`, `level`, `mood`, `name`, `steps`."""
    return " ".join(text for part in parts if (text := _part(companion, part, name, frame)))


def status_lines(companion: Companion) -> str:
    return "\n".join(
        [
            f"mood: {companion.mood}",
            f"level: {companion.level} / {len(LEVELS)}",
            f"xp: {companion.xp:.0%}",
            f"steps: {companion.steps}",
            f"errors: {companion.errors}",
        ]
    )


def _part(companion: Companion, part: str, name: str, frame: int) -> str:
    match part:
        case "kaomoji":
            faces = FACES[companion.mood]
            return faces[frame % len(faces)]
        case "xp_bar":
            return bar(companion.xp)
        case "level":
            return f"lv.{companion.level}"
        case "mood":
            return companion.mood
        case "name":
            return name
        case "steps":
            return f"{companion.steps} steps"
    return ""
