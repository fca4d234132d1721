"""Conditions: a line of text that is true or false of a session, as `context_above:80 and not todo_empty`.

    condition := part ("and" part)*        part := ["not"] atom

Parsing knows all atoms, so a mistake is told before anything runs. Two atoms look outside, at a file and at a command;
whoever evaluates a condition says how, or that it cannot be done.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from aar.errors import InvalidSetting

__all__ = ["ATOMS", "Condition", "Facts", "parse_condition"]

LONGEST = 2_000  # characters of a condition

Look = Callable[[str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a condition may ask of a session.

    `context_percent` is how full the model's window is, 0 where its size is not known; `auto` says that tools run
    without questions. `iteration` counts the steps of the running turn, or the rounds of an `/until`.
    """

    todos_open: int = 0
    todos_done: int = 0
    auto: bool = False
    context_percent: float = 0.0
    history: int = 0
    tool_errors: int = 0
    tool_calls: int = 0
    turns: int = 0
    compactions: int = 0
    iteration: int = 0
    tokens_total: int = 0
    model: str = ""
    model_context: int = 0
    model_abilities: frozenset[str] = field(default_factory=frozenset)


_FLAGS: dict[str, Callable[[Facts], bool]] = {
    "auto": lambda facts: facts.auto,
    "todo_empty": lambda facts: not (facts.todos_open or facts.todos_done),
    "todo_pending": lambda facts: facts.todos_open > 0,
    "todo_done": lambda facts: facts.todos_done > 0 and not facts.todos_open,
}


def _above(name: str) -> Callable[[Facts, float], bool]:
    return lambda facts, limit: getattr(facts, name) > limit


def _below(name: str) -> Callable[[Facts, float], bool]:
    return lambda facts, limit: getattr(facts, name) < limit


_COUNTS = (
    *("history", "tool_errors", "tool_calls", "turns", "compactions", "iteration", "tokens_total", "model_context"),
)
_NUMBERS: dict[str, Callable[[Facts, float], bool]] = {
    "context_above": _above("context_percent"),
    "context_below": _below("context_percent"),
    **{f"{count}_gt": _above(count) for count in _COUNTS},
    **{f"{count}_lt": _below(count) for count in _COUNTS},
}
_WORDS: dict[str, Callable[[Facts, str], bool]] = {
    "model_is": lambda facts, name: fnmatchcase(facts.model, name) or fnmatchcase(facts.model.partition("/")[2], name),
    "model_has": lambda facts, ability: ability.lower() in facts.model_abilities,
}
_OUTSIDE = ("exists", "bash")

ATOMS = (*_FLAGS, *_NUMBERS, *_WORDS, *_OUTSIDE)
"""The names of all atoms."""

_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d+)?)([kKmM%]?)")
_FACTORS = {"k": 1_000, "m": 1_000_000}


class _Atom(NamedTuple):
    name: str
    argument: str
    wanted: bool  # what it has to be: False behind a `not`

    async def holds(self, facts: Facts, exists: Look | None, bash: Look | None) -> bool:
        look = {"exists": exists, "bash": bash}.get(self.name)
        return self.holds_now(facts) if look is None else await look(self.argument) is self.wanted

    def holds_now(self, facts: Facts) -> bool:
        name, argument = self.name, self.argument
        if name in _FLAGS:
            return _FLAGS[name](facts) is self.wanted
        if name in _NUMBERS:
            return _NUMBERS[name](facts, _number(argument)) is self.wanted
        if name in _WORDS:
            return _WORDS[name](facts, argument) is self.wanted
        raise InvalidSetting(f"`{name}:` cannot be asked here")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was understood. `text` is what was written."""

    text: str
    _atoms: tuple[_Atom, ...]

    @property
    def looks_outside(self) -> frozenset[str]:
        """Which of `exists` and `bash` it may ask."""
        return frozenset(atom.name for atom in self._atoms if atom.name in _OUTSIDE)

    async def holds(self, facts: Facts, *, exists: Look | None = None, bash: Look | None = None) -> bool:
        """Whether all parts are true, asked from left to right until one is not.

        `exists` gets a path and `bash` a command. Raises `InvalidSetting` when one is asked that was not given.
        """
        for atom in self._atoms:
            if not await atom.holds(facts, exists, bash):
                return False
        return True

    def holds_now(self, facts: Facts) -> bool:
        """As `holds`, for a condition that looks at nothing outside. Raises `InvalidSetting` for one that does."""
        return all(atom.holds_now(facts) for atom in self._atoms)


def parse_condition(text: str) -> Condition:
    """Raises `InvalidSetting` for text that is no condition, and says what is wrong with which part."""
    if len(text) > LONGEST:
        raise InvalidSetting(f"a condition has at most {LONGEST} characters")
    if not text.strip():
        raise InvalidSetting(f"a condition is empty: use for example `context_above:80`. {_known()}")
    return Condition(text.strip(), tuple(_part(part.strip()) for part in _parts(text)))


def _parts(text: str) -> Iterator[str]:
    """What stands between the words `and`, those within quotes left alone."""
    begun, quote = 0, ""
    for found in re.finditer(r"""["']|(?<!\S)and(?!\S)""", text):
        mark = found[0]
        if mark == "and":
            if not quote:
                yield text[begun : found.start()]
                begun = found.end()
        elif not quote and text[found.start() - 1 : found.start()] == ":":  # only a whole argument is quoted
            quote = mark
        elif mark == quote and text[found.end() : found.end() + 1] in ("", " ", "\t", "\n"):
            quote = ""
    if quote:
        raise InvalidSetting(f"a quote is not closed in the condition {text.strip()!r}")
    yield text[begun:]


def _part(text: str) -> _Atom:
    first, _, rest = text.partition(" ")
    wanted = True
    while first == "not":
        wanted, text = not wanted, rest.strip()
        first, _, rest = text.partition(" ")
    name, colon, argument = text.partition(":")
    if name not in ATOMS:
        raise InvalidSetting(f"{text or '(nothing)'!r} is no condition{_meant(name)} {_known()}")
    if name in _FLAGS:
        if colon:
            raise InvalidSetting(f"`{name}` takes nothing behind it, not {argument!r}")
        return _Atom(name, "", wanted)
    is_plain = name != "bash" and argument[:1] not in ("'", '"')
    joined = re.search(r"\sor\s+(?:not\s+)?([a-z_]+)", argument) if is_plain else None
    if joined is not None and joined[1] in ATOMS:
        raise InvalidSetting(f"there is no `or` in conditions, only `and` and `not`: {text!r}")
    argument = _unquoted(argument.strip())
    if not argument:
        raise InvalidSetting(f"`{name}` wants something behind a colon, as in `{name}:{_example(name)}`")
    if name in _NUMBERS:
        _number(argument, name)
    return _Atom(name, argument, wanted)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _number(text: str, name: str = "") -> float:
    found = _NUMBER.fullmatch(text)
    if found is None or (found[2] == "%" and not name.startswith("context_") and name):
        raise InvalidSetting(f"`{name}` wants a number, as in `{name}:{_example(name)}`, not {text!r}")
    return float(found[1].replace("_", "")) * _FACTORS.get(found[2].lower(), 1)


def _example(name: str) -> str:
    if name in _NUMBERS:
        return "80" if name.startswith("context_") else "10"
    return {"model_is": "claude-*", "model_has": "vision", "exists": "README.md", "bash": "make test"}[name]


def _meant(name: str) -> str:
    close = get_close_matches(name, ATOMS, 1)
    return f": do you mean `{close[0]}`?" if close else "."


def _known() -> str:
    return f"There are: {', '.join(ATOMS)}; with `not` before one and `and` between them"
