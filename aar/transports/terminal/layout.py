"""Which parts of an interface are shown: the setting `tui.layout`."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["SECTIONS", "Layout", "layout_of"]

SECTIONS = ("welcome", "status_bar", "reasoning", "assistant", "tool_call", "tool_result", "token_usage")


class Layout(NamedTuple):
    """`hidden` are names of sections, `hidden_panels` of panels that extensions draw; `problems` are for people."""

    hidden: frozenset[str] = frozenset()
    hidden_panels: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def shows(self, section: str) -> bool:
        return section not in self.hidden

    def shows_panel(self, name: str) -> bool:
        return name.lower() not in self.hidden_panels


def layout_of(setting: dict[str, Any]) -> Layout:
    """What the setting says. A mistake in it hides nothing and is told."""
    problems: list[str] = []
    sections = {name: value for name, value in setting.items() if name != "extensions" and not name.startswith("_")}
    for name in sections.keys() - set(SECTIONS):
        problems.append(f"tui.layout.{name}: there is no such section. There are: {', '.join(SECTIONS)}, extensions.")
    hidden = _hidden({name: value for name, value in sections.items() if name in SECTIONS}, "tui.layout", problems)
    panels = setting.get("extensions", {})
    if not isinstance(panels, dict):
        problems.append('tui.layout.extensions: must be an object, such as {"NAME": {"visible": false}}.')
        panels = {}
    return Layout(hidden, _hidden(panels, "tui.layout.extensions", problems), tuple(sorted(problems)))


def _hidden(entries: dict[str, Any], place: str, problems: list[str]) -> frozenset[str]:
    hidden = set()
    for name, entry in entries.items():
        visible = entry.get("visible", True) if isinstance(entry, dict) else None
        if not isinstance(visible, bool):
            problems.append(f'{place}.{name}: must be an object such as {{"visible": false}}.')
        elif not visible:
            hidden.add(name.lower())
    return frozenset(hidden)
