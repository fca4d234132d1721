from __future__ import annotations

import pytest
import trio

from aar.kernel import Child, LocalRef, Mailbox, Registry, open_supervisor


def ref_named(name: str) -> LocalRef:
    return LocalRef(name, Mailbox(name, 1))


def test_a_name_finds_the_living_actor_and_nothing_else() -> None:
    registry, clock = Registry(), ref_named("clock")
    registry.add(clock)
    assert registry.find("clock") is clock
    assert registry.find("calendar") is None


def test_a_name_is_given_once() -> None:
    registry, clock = Registry(), ref_named("clock")
    registry.add(clock)
    with pytest.raises(ValueError, match="an actor named 'clock' is already running"):
        registry.add(ref_named("clock"))
    assert registry.find("clock") is clock


def test_forgetting_an_actor_leaves_its_namesake() -> None:
    registry, old, new = Registry(), ref_named("clock"), ref_named("clock")
    registry.add(old)
    registry.remove(old)
    registry.add(new)
    registry.remove(old)
    assert registry.find("clock") is new


def test_names_come_sorted() -> None:
    registry = Registry()
    for name in ("b", "c", "a"):
        registry.add(ref_named(name))
    assert registry.names() == ["a", "b", "c"]


async def test_supervisors_that_share_a_registry_share_its_names() -> None:
    async def idle(mailbox: Mailbox[str]) -> None:
        await trio.sleep_forever()

    registry = Registry()
    async with open_supervisor(registry=registry) as outer:
        first = outer.start(Child("clock", idle))
        async with open_supervisor(registry=registry) as inner:
            inner.start(Child("calendar", idle))
            with pytest.raises(ValueError, match="'clock' is already running"):
                inner.start(Child("clock", idle))
            assert registry.names() == ["calendar", "clock"]
            assert inner.names() == ["calendar"]
        assert registry.names() == ["clock"]
        assert registry.find("clock") is first
    assert registry.names() == []
