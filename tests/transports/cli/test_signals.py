from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import trio

from aar.transports.cli.signals import AGAIN_WITHIN, GRACE, Interrupts, open_interrupts
from aar.transports.program.exits import CANCELLED, TERMINATED, code_of_stop, run_to_code


class Turn:
    """Counts how often it was cancelled, and ends only when it wants to."""

    def __init__(self) -> None:
        self.cancels = 0

    async def cancel(self) -> None:
        self.cancels += 1


async def test_the_first_ctrl_c_cancels_the_turn_and_a_quick_second_one_leaves(autojump_clock):
    interrupts, turn = Interrupts(trio.CancelScope()), Turn()
    with interrupts.during_turn(turn.cancel):
        await interrupts.take(signal.SIGINT)
        assert (turn.cancels, interrupts.code, interrupts.scope.cancel_called) == (1, None, False)
        await trio.sleep(AGAIN_WITHIN - 0.1)
        await interrupts.take(signal.SIGINT)
    assert (turn.cancels, interrupts.code, interrupts.scope.cancel_called) == (1, CANCELLED, True)
    assert not interrupts.was_at_rest


async def test_a_late_second_ctrl_c_cancels_again(autojump_clock):
    interrupts, turn = Interrupts(trio.CancelScope()), Turn()
    with interrupts.during_turn(turn.cancel):
        await interrupts.take(signal.SIGINT)
        await trio.sleep(AGAIN_WITHIN + 0.1)
        await interrupts.take(signal.SIGINT)
    assert (turn.cancels, interrupts.code) == (2, None)


async def test_ctrl_c_without_a_turn_leaves_at_once_and_is_no_failure():
    async with open_interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()
    assert (interrupts.code, interrupts.was_at_rest) == (CANCELLED, True)


async def test_sigterm_gives_a_turn_time_to_end_and_then_leaves(autojump_clock):
    turn = Turn()
    async with open_interrupts() as interrupts:
        with interrupts.during_turn(turn.cancel):
            started = trio.current_time()
            await interrupts.take(signal.SIGTERM)
            await trio.sleep_forever()
    assert (interrupts.code, turn.cancels, trio.current_time() - started) == (TERMINATED, 1, GRACE)


async def test_a_second_signal_waits_for_no_turn_that_takes_its_time(autojump_clock):
    began = trio.current_time()
    async with open_interrupts() as interrupts:
        with interrupts.during_turn(trio.lowlevel.checkpoint):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                await trio.sleep(GRACE / 2)
    assert (interrupts.code, interrupts.left_a_turn) == (TERMINATED, True)
    assert trio.current_time() - began == pytest.approx(GRACE / 2)


async def test_signals_are_as_they_were_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    async with open_interrupts():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_ctrl_c_before_there_is_a_session_ends_quietly():
    """The program begins with Ctrl+C as the system has it: what has not begun needs no end."""
    code = """if True:
        import os, signal, sys, trio
        from aar.transports.program.exits import run_to_code
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        async def work():
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        sys.exit(run_to_code(work))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (CANCELLED, b"")


def test_ctrl_c_that_comes_while_a_class_is_made_is_no_bug(capsys):
    async def work() -> int:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    assert (run_to_code(work), capsys.readouterr().err) == (CANCELLED, "")


@pytest.mark.covers("CLI-07")
def test_every_way_a_turn_ends_has_its_exit_code():
    codes = {
        "end_turn": 0,
        "max_tokens": 0,
        "max_steps": 3,
        "timed_out": 4,
        "budget_exceeded": 5,
        "cancelled": 130,
        "refused": 1,
        "error": 1,
    }
    assert {stop: code_of_stop(stop) for stop in codes} == codes
