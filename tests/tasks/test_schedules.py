"""When something is due."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import InvalidSetting
from aar.tasks.schedules import parse_schedule

START = datetime(2026, 11, 20, 10, 30, 15)  # a Friday


def times(text: str, count: int = 3, start: datetime = START) -> list[str]:
    found: list[str] = []
    moment: datetime | None = start
    while len(found) < count and moment is not None:
        moment = parse_schedule(text).after(moment)
        found.append(f"{moment:%a %Y-%m-%d %H:%M}" if moment else "never")
    return found


@pytest.mark.covers("AURA-117")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 90m", ["Fri 2026-11-20 12:00", "Fri 2026-11-20 13:30", "Fri 2026-11-20 15:00"]),
        ("every 2 h", ["Fri 2026-11-20 12:30", "Fri 2026-11-20 14:30", "Fri 2026-11-20 16:30"]),
        ("daily 10:30", ["Sat 2026-11-21 10:30", "Sun 2026-11-22 10:30", "Mon 2026-11-23 10:30"]),
        ("Daily 10:31", ["Fri 2026-11-20 10:31", "Sat 2026-11-21 10:31", "Sun 2026-11-22 10:31"]),
        ("weekly mon,fri 09:00", ["Mon 2026-11-23 09:00", "Fri 2026-11-27 09:00", "Mon 2026-11-30 09:00"]),
        ("monthly 31 00:00", ["Thu 2026-12-31 00:00", "Sun 2027-01-31 00:00", "Wed 2027-03-31 00:00"]),
        ("once 2026-12-24 18:00", ["Thu 2026-12-24 18:00", "never"]),
        ("once 2026-11-20 10:30", ["never"]),
        ("cron */20 8-10 * * mon-fri", ["Fri 2026-11-20 10:40", "Mon 2026-11-23 08:00", "Mon 2026-11-23 08:20"]),
        ("cron 0 0 13 * fri", ["Fri 2026-11-27 00:00", "Fri 2026-12-04 00:00", "Fri 2026-12-11 00:00"]),
        ("cron 5 4 * * 0", ["Sun 2026-11-22 04:05", "Sun 2026-11-29 04:05", "Sun 2026-12-06 04:05"]),
        ("cron 0 12 29 feb *", ["Tue 2028-02-29 12:00", "Sun 2032-02-29 12:00", "Fri 2036-02-29 12:00"]),
        ("cron 30/15 * * jan-mar/2 *", ["Fri 2027-01-01 00:30", "Fri 2027-01-01 00:45", "Fri 2027-01-01 01:30"]),
    ],
)
def test_a_schedule_is_due_at_these_times(text: str, expected: list[str]) -> None:
    assert times(text, len(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "hourly",
            "every",
            "every 10s",
            "every -5m",
            "every 0m",
            "daily",
            "daily 25:00",
            "daily 9",
            "weekly 09:00",
        ),
        *("weekly foo 09:00", "monthly 0 09:00", "monthly 32 09:00", "once tomorrow", "once 2026-13-01 10:00"),
        *(
            "cron * * * *",
            "cron 60 * * * *",
            "cron 5-1 * * * *",
            "cron */0 * * * *",
            "cron 0 0 31 feb *",
            "cron x * * * *",
        ),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(InvalidSetting, match="There are: every 15m, daily 09:00"):
        parse_schedule(text)


MINUTES = st.sampled_from(["*", "*/7", "0", "59", "1,30", "10-20/3"])
HOURS = st.sampled_from(["*", "0", "23", "*/5", "8-17"])
WEEKDAYS = st.sampled_from(["*", "mon", "sat,sun", "0", "1-5"])


@given(MINUTES, HOURS, WEEKDAYS, st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)))
def test_nothing_between_a_moment_and_the_next_time_is_due(
    minutes: str, hours: str, weekdays: str, moment: datetime
) -> None:
    schedule = parse_schedule(f"cron {minutes} {hours} * * {weekdays}")
    due = schedule.after(moment)
    assert due is not None
    assert moment < due <= moment + timedelta(days=8)
    assert schedule.after(due - timedelta(seconds=1)) == due
    assert (due.second, due.microsecond) == (0, 0)
