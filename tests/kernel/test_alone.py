from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from aar.errors import RestartLimit
from aar.kernel.alone import OF_A_NURSERY, errors_alone


class Bug(Exception):
    """What goes wrong here."""


async def fail(error: BaseException) -> None:
    raise error


async def in_nurseries(*errors: BaseException) -> None:
    """Raise the errors side by side, two nurseries deep."""
    with errors_alone():
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            outer.start_soon(trio.sleep_forever)
            for error in errors:
                inner.start_soon(fail, error)


async def test_the_only_error_of_nested_groups_goes_on_alone() -> None:
    with pytest.raises(Bug, match="only one"):
        await in_nurseries(Bug("only one"))


async def test_several_errors_stay_a_group() -> None:
    with pytest.RaisesGroup(Bug, KeyError, flatten_subgroups=True):
        await in_nurseries(Bug("one"), KeyError("two"))


async def test_an_interrupt_goes_on_alone_too() -> None:
    with pytest.raises(KeyboardInterrupt):
        await in_nurseries(KeyboardInterrupt())


async def test_the_story_of_a_tree_that_gave_up_stays_a_group() -> None:
    with pytest.RaisesGroup(RestartLimit, flatten_subgroups=True):
        await in_nurseries(RestartLimit("failed 4 times"))


def test_what_is_no_group_passes_untouched() -> None:
    bug = Bug("plain")
    with pytest.raises(Bug) as caught, errors_alone():
        raise bug
    assert caught.value is bug


def test_an_error_keeps_its_own_cause_and_context() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise Bug("second")
    except Bug as error:
        bug = error
    with pytest.raises(Bug) as caught, errors_alone():
        raise ExceptionGroup(OF_A_NURSERY, [bug])
    assert caught.value is bug
    assert isinstance(bug.__context__, KeyError)
    assert bug.__cause__ is None
    assert not bug.__suppress_context__


async def test_a_bug_next_to_a_cancellation_is_what_is_left(autojump_clock: MockClock) -> None:
    async def spoilsport() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Bug("while cancelled")

    async def work() -> None:
        with trio.move_on_after(1), errors_alone():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(spoilsport)
                nursery.start_soon(trio.sleep_forever)

    with pytest.raises(Bug, match="while cancelled"):
        await work()


async def test_a_cancellation_alone_is_no_error(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1) as limit, errors_alone():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
    assert limit.cancelled_caught


def test_a_group_that_the_program_made_stays() -> None:
    with pytest.raises(ExceptionGroup) as caught, errors_alone():
        raise ExceptionGroup("mine", [Bug("one")])
    assert caught.value.message == "mine"
