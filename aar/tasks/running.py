"""Doing one task: its commands and prompts in a session, from the first to the last."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

import trio

from aar.client import SessionHandle, Sessions
from aar.directives import ended_well
from aar.errors import AarError, ToolError
from aar.groups import leaves
from aar.messages.events import ApprovalRequested, ErrorEvent
from aar.revising import rename
from aar.tasks.reading import Task

__all__ = ["Outcome", "run_task"]

LAST_WORDS = 60.0  # seconds that the commands in `finally` may take together


class Outcome(NamedTuple):
    """How a task went: the sessions it was done in, the last answer, and what went wrong, empty when nothing did."""

    task: str
    sessions: tuple[str, ...] = ()
    answer: str = ""
    problem: str = ""


class _Failed(AarError):
    """A step of a task did not end well."""


async def run_task(task: Task, sessions: Sessions, cwd: str, *, says_yes: bool = False) -> Outcome:
    """Do it, for each of its items, and say how it went; the first item that fails for good is the last one.

    Without `says_yes` nobody answers questions, so what needs an answer is not done.
    """
    outcome = Outcome(task.name)
    for item in task.foreach or ("",):
        one = _filled_in(task, item) if task.foreach else task
        for _ in range(task.retries + 1):
            done = await _attempt(one, sessions, _folder(cwd, task), says_yes=says_yes)
            outcome = done._replace(sessions=outcome.sessions + done.sessions)
            if not done.problem:
                break
        if outcome.problem:
            return outcome._replace(problem=f"{item}: {outcome.problem}") if item else outcome
    return outcome


def _folder(cwd: str, task: Task) -> str:
    return os.path.realpath(os.path.join(cwd, os.path.expanduser(task.folder)))


async def _attempt(task: Task, sessions: Sessions, folder: str, *, says_yes: bool) -> Outcome:
    handle: SessionHandle | None = None
    outcome = Outcome(task.name)
    try:
        if not await trio.Path(folder).is_dir():
            raise _Failed(f"there is no folder {folder}")
        handle = await _session_for(task, sessions, folder)
        outcome = outcome._replace(answer=await _done_in(handle, task, says_yes=says_yes))
    except* AarError as errors:
        outcome = outcome._replace(problem="; ".join(str(error) for error in leaves(errors)))
    finally:
        if handle is not None:
            outcome = outcome._replace(sessions=(handle.session_id,))
            with trio.CancelScope(shield=True), suppress(AarError):  # where everything ends, it is closed already
                await sessions.close(handle.session_id)  # bounded by the grace that a session has
    return outcome


def _filled_in(task: Task, item: str) -> Task:
    def filled(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text.replace("{item}", item) for text in texts)

    return replace(
        task,
        prompts=filled(task.prompts),
        pre=filled(task.pre),
        post=filled(task.post),
        finally_=filled(task.finally_),
    )


async def _session_for(task: Task, sessions: Sessions, folder: str) -> SessionHandle:
    """A new one, or the one of that name."""
    if not task.session:
        return await sessions.open(folder)
    cursor, is_first = "", True
    while is_first or cursor:
        page = await sessions.list(cwd=folder, cursor=cursor)
        for entry in page.sessions:
            if entry.name == task.session:
                return await sessions.load(entry.session_id)
        cursor, is_first = page.cursor, False
    handle = await sessions.open(folder)
    await rename(handle, task.session)
    return handle


async def _done_in(handle: SessionHandle, task: Task, *, says_yes: bool) -> str:
    """The last answer. Raises `AarError` when a step did not end well; the last commands run all the same."""
    async with AsyncExitStack() as stack:
        if says_yes:
            await stack.enter_async_context(_answered(handle))
        try:
            for command in task.pre:
                await _run(handle, command)
            for prompt in task.prompts:
                await _say(handle, prompt, task)
            for command in task.post:
                await _run(handle, command)
        finally:
            with trio.move_on_after(LAST_WORDS, shield=True):
                for command in task.finally_:
                    await _run(handle, command)
    return handle.snapshot().last_text()


async def _say(handle: SessionHandle, prompt: str, task: Task) -> None:
    if prompt.startswith("!"):
        await _run(handle, prompt[1:].strip())
        return
    before = handle.seq
    stop = (await handle.run(prompt)).stop  # a turn of ours: it ends when we are cancelled, before the last words
    if stop in ("end_turn", "max_tokens") or (stop == "max_steps" and task.on_max_steps == "continue"):
        return
    errors = [record.event.message for record in handle.records(after=before) if isinstance(record.event, ErrorEvent)]
    raise _Failed(": ".join((f"a turn ended with {stop}", *errors[-1:])))


async def _run(handle: SessionHandle, command: str) -> None:
    try:
        said = await handle.run_shell(command)
    except ToolError as error:
        allow = ": --yes allows it, or a rule in `safety.auto`" if "[denied]" in str(error) else ""
        raise _Failed(f"!{command}: {error}{allow}") from error
    if not ended_well(said):
        raise _Failed(f"!{command}: {said.strip()[-200:]}")


@asynccontextmanager
async def _answered(handle: SessionHandle) -> AsyncIterator[None]:
    """Inside this block every question is answered with yes."""
    async with handle.attend(), trio.open_nursery() as nursery:
        nursery.start_soon(_say_yes, handle, handle.seq)
        yield
        nursery.cancel_scope.cancel()


async def _say_yes(handle: SessionHandle, after: int) -> None:
    with handle.follow(after=after) as records:
        async for record in records:
            if isinstance(record.event, ApprovalRequested):
                await handle.decide(record.event.tool_call_id, "allow")
