"""`aar run`: one task, then the end. The answer goes to standard output, everything else to standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import trio

from aar.client import PromptContent, SessionHandle
from aar.config import Loaded
from aar.display import plain
from aar.errors import AarError, ClientGone
from aar.groups import leaves
from aar.transports.cli.approve import Approver
from aar.transports.cli.lines import Lines
from aar.transports.cli.output import JsonReport, Report, StreamReport, TextReport
from aar.transports.cli.signals import Interrupts, open_interrupts
from aar.transports.cli.turn import TurnView, take_turn
from aar.transports.program.exits import USAGE, code_of_stop, complain, run_to_code
from aar.transports.program.flags import Flags
from aar.transports.program.opening import Conversation, open_conversation, two_sessions
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import sentence
from aar.transports.program.settings import here, loaded_settings

__all__ = ["run"]

PROGRAM_PACE = 1000  # events a program that reads them may be behind before the turn waits for it

Output = Literal["text", "json", "stream-json"]


def run(task: Sequence[str], *, stdin: bool, output: Output, flags: Flags) -> int:
    """Do one task and exit. With `stdin` the task is read from there, and must not be given as well."""
    if not task and not stdin:
        complain('Nothing to do: give a task, as in `aar run "say hello"`, or `-` to read it from standard input.')
        return USAGE
    if task and stdin:
        complain("`-` reads the task from standard input: leave out the other words, or put all of them in quotes.")
        return USAGE
    if two_sessions(flags):
        return USAGE

    async def work_to_do() -> int:
        return await _Job(loaded_settings(flags), flags, output).run(None if stdin else " ".join(task))

    return run_to_code(work_to_do)


class _Job:
    def __init__(self, loaded: Loaded, flags: Flags, output: Output) -> None:
        self._loaded = loaded
        self._flags = flags
        self._output = output
        self._screen = Screen()
        self._lines = Lines()
        self._is_alone = self._lines.is_in_background  # `aar run ... &`
        self._is_typed = True

    async def run(self, task: str | None) -> int:
        """Without a task it is read from standard input."""
        code = 0
        async with open_interrupts() as interrupts:
            if task is None:
                self._is_typed = self._lines.is_terminal
                task = await self._lines.read_all()
            if not task.strip():
                complain("The task is empty.")
                return USAGE
            prompt = None if self._waits_for_session(task) else await self._prompt(task, here())
            async with open_conversation(self._loaded, self._flags, self._screen) as conversation:
                if prompt is None:
                    prompt = await self._prompt_in(conversation, task)
                code = await self._turn(conversation, prompt, interrupts)
        return code if interrupts.code is None else interrupts.code

    async def _prompt(self, task: str, cwd: str) -> PromptContent:
        if "@" not in task:
            return task
        from aar.transports.terminal.attaching import with_files

        return await with_files(task, self._loaded.config, cwd, is_typed=self._is_typed)

    def _waits_for_session(self, task: str) -> bool:
        """Whether only a session tells what goes along: from which folder files are named, what commands say."""
        if self._flags.session or self._flags.resume:
            return True
        return self._is_typed and "@" in task and _has_directives(task)

    async def _prompt_in(self, conversation: Conversation, task: str) -> PromptContent:
        handle = conversation.handle
        if not (self._is_typed and "@" in task and _has_directives(task)):
            return await self._prompt(task, handle.cwd)
        from aar.transports.cli.turn import questions_shown
        from aar.transports.terminal.expanding import typed_prompt

        approver = self._approver(handle)
        async with approver.attending(), questions_shown(handle, approver):
            return await typed_prompt(task, conversation.config, handle)

    def _approver(self, handle: SessionHandle) -> Approver:
        return Approver(handle, self._screen, self._lines, says_yes=self._flags.says_yes, alone=self._is_alone)

    async def _turn(self, conversation: Conversation, prompt: PromptContent, interrupts: Interrupts) -> int:
        handle, config = conversation.handle, conversation.config
        if self._output == "text":
            await self._tell_first(conversation, prompt)
        approver = self._approver(handle)
        report = self._report(handle)
        label = config.resolve_provider().label
        pace = PROGRAM_PACE if self._output == "stream-json" else 0
        view = TurnView(self._screen, approver, interrupts, label, report.show, pace)
        stop, failure = "error", None
        await report.begin()
        try:
            async with approver.attending():
                stop = str((await take_turn(handle, prompt, view)).stop)
        except* ClientGone:
            raise
        except* AarError as errors:
            failure = "\n".join(sentence(error) for error in leaves(errors))
        except* trio.Cancelled:  # asked to leave at once
            self._screen.tell_nowait(f"Session: {handle.session_id}\n" if self._output == "text" else "")
            raise
        is_unheard = conversation.is_unheard
        await report.end(stop, failure, is_kept=not is_unheard)
        if is_unheard:
            await conversation.forget()
        return code_of_stop(stop)

    async def _tell_first(self, conversation: Conversation, prompt: PromptContent) -> None:
        """What to know before the answer comes: a session that goes on, files that go along."""
        if conversation.remark:
            await self._screen.tell(f"{conversation.remark}\n")
        if not isinstance(prompt, str) or prompt.endswith("]"):  # nothing is loaded for a task without files
            from aar.transports.terminal.expanding import words_about

            for line in words_about(prompt, conversation.config):
                await self._screen.tell(f"{plain(line)}\n")

    def _report(self, handle: SessionHandle) -> Report:
        if self._output == "json":
            return JsonReport(self._screen, handle)
        if self._output == "stream-json":
            return StreamReport(self._screen, handle)
        return TextReport(self._screen, handle, verbose=self._flags.verbose)


def _has_directives(task: str) -> bool:
    from aar.transports.terminal.expanding import has_directives  # most tasks have no word with @

    return has_directives(task)
