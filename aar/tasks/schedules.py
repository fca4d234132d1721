"""When something is due, in local time: `every 15m`, `daily 09:00`, `weekly mon,fri 09:00`, `monthly 1 09:00`,
`once 2026-12-24 18:00`, `cron */5 8-17 * * mon-fri`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Protocol

from aar.errors import InvalidSetting

__all__ = ["FORMS", "Schedule", "parse_schedule"]

FORMS = "every 15m, daily 09:00, weekly mon,fri 09:00, monthly 1 09:00, once 2026-12-24 18:00, cron 0 9 * * mon-fri"

LEAST = timedelta(minutes=1)
_FAR = 366 * 8  # days that are looked at: the 29th of February may be as far as that
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAYS = {name: at for at, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), 1)}
_MONTHS = {
    name: at
    for at, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}


class Schedule(Protocol):
    def after(self, moment: datetime) -> datetime | None:
        """The first time after this one at which it is due; `None` when it never is again."""


@dataclass(frozen=True, slots=True)
class _Every:
    interval: timedelta

    def after(self, moment: datetime) -> datetime | None:
        return moment + self.interval


@dataclass(frozen=True, slots=True)
class _Once:
    at: datetime

    def after(self, moment: datetime) -> datetime | None:
        return self.at if moment < self.at else None


@dataclass(frozen=True, slots=True)
class _Calendar:
    """Minutes, hours, days of the month, months, and days of the week from 1 for Monday.

    As in cron, a day fits when either of its two conditions does, if both are there.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    def after(self, moment: datetime) -> datetime | None:
        first = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for ahead in range(_FAR):
            day = first.date() + timedelta(days=ahead)
            if not self._fits(day):
                continue
            times = (time(hour, minute) for hour in sorted(self.hours) for minute in sorted(self.minutes))
            found = next((at for at in times if ahead or at >= first.time()), None)
            if found is not None:
                return datetime.combine(day, found)
        return None

    def _fits(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        wanted = [day.day in self.days] if self.days is not None else []
        wanted += [day.isoweekday() in self.weekdays] if self.weekdays is not None else []
        return any(wanted) if wanted else True


def parse_schedule(text: str) -> Schedule:
    """Raises `InvalidSetting` for what is no schedule, with the forms that there are."""
    kind, _, rest = " ".join(text.lower().split()).partition(" ")
    parse = _PARSERS.get(kind)
    if parse is None:
        raise InvalidSetting(f"{text!r} is no schedule. There are: {FORMS}")
    try:
        return parse(rest)
    except (ValueError, KeyError, OverflowError) as error:
        raise InvalidSetting(f"{text!r} is no schedule ({error}). There are: {FORMS}") from error


def _every(rest: str) -> Schedule:
    found = re.fullmatch(r"(\d{1,6}) ?([smhdw])", rest)
    if found is None:
        raise ValueError("a number and m, h, d or w")
    interval = timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    if interval < LEAST:
        raise ValueError("a minute is the least")
    return _Every(interval)


def _daily(rest: str) -> Schedule:
    return _at(rest)


def _weekly(rest: str) -> Schedule:
    days, _, at = rest.partition(" ")
    return _at(at, weekdays=frozenset(_value(day, _DAYS, 1, 7) for day in days.split(",")))


def _monthly(rest: str) -> Schedule:
    days, _, at = rest.partition(" ")
    return _at(at, days=frozenset(_value(day, {}, 1, 31) for day in days.split(",")))


def _once(rest: str) -> Schedule:
    return _Once(datetime.strptime(rest, "%Y-%m-%d %H:%M"))


def _at(text: str, *, days: frozenset[int] | None = None, weekdays: frozenset[int] | None = None) -> Schedule:
    try:
        at = datetime.strptime(text, "%H:%M")
    except ValueError as error:
        raise ValueError(f"a time is written 09:00, not {text!r}") from error
    return _Calendar(frozenset([at.minute]), frozenset([at.hour]), days, frozenset(range(1, 13)), weekdays)


def _cron(rest: str) -> Schedule:
    fields = rest.split()
    if len(fields) != 5:
        raise ValueError("five fields: minute, hour, day, month, day of the week")
    minute, hour, day, month, weekday = fields
    weekdays = _set(weekday, _DAYS, 0, 7) or frozenset()
    made = _Calendar(
        _set(minute, {}, 0, 59) or frozenset(range(60)),
        _set(hour, {}, 0, 23) or frozenset(range(24)),
        _set(day, {}, 1, 31),
        _set(month, _MONTHS, 1, 12) or frozenset(range(1, 13)),
        frozenset(7 if one == 0 else one for one in weekdays) or None,  # Sunday is 0 or 7
    )
    if made.after(datetime(2024, 1, 1)) is None:
        raise ValueError("there is no such day")
    return made


def _set(field: str, names: Mapping[str, int], low: int, high: int) -> frozenset[int] | None:
    """The values of one field; `None` for all of them."""
    if field == "*":
        return None
    return frozenset(value for part in field.split(",") for value in _range(part, names, low, high))


def _range(part: str, names: Mapping[str, int], low: int, high: int) -> range:
    span, slash, step = part.partition("/")
    first, dash, last = span.partition("-")
    if span == "*":
        begin, end = low, high
    else:
        begin = _value(first, names, low, high)
        end = _value(last, names, low, high) if dash else (high if slash else begin)
    if end < begin or (slash and not 1 <= int(step) <= high):
        raise ValueError(f"{part!r}")
    return range(begin, end + 1, int(step) if slash else 1)


def _value(text: str, names: Mapping[str, int], low: int, high: int) -> int:
    if text not in names and not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is none of {', '.join(names)}" if names else f"{text!r} is no number")
    value = names[text] if text in names else int(text)
    if not low <= value <= high:
        raise ValueError(f"{text} is not between {low} and {high}")
    return value


_PARSERS: Mapping[str, Callable[[str], Schedule]] = {
    "every": _every,
    "daily": _daily,
    "weekly": _weekly,
    "monthly": _monthly,
    "once": _once,
    "cron": _cron,
}
