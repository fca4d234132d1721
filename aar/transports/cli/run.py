"""`aar run`: one task, then the end. The answer goes to standard output, everything else to standard error."""

from __future__ import annotations

from typing import Annotated, Literal

import trio
from cyclopts import Parameter

from aar.attachments import attach, attached_kinds
from aar.client import PromptContent, SessionHandle
from aar.config import Loaded
from aar.errors import AarError, ClientGone
from aar.messages.settings import AgentConfig
from aar.runtime import reading_rule
from aar.transports.cli.approve import Approver
from aar.transports.cli.exits import USAGE, code_of_stop, complain, leaves, run_to_code
from aar.transports.cli.flags import LogFlags, ModelFlags, SafetyFlags, SessionFlags, WorkFlags, loaded_settings
from aar.transports.cli.lines import Lines
from aar.transports.cli.opening import Conversation, open_conversation
from aar.transports.cli.output import JsonReport, Report, StreamReport, TextReport
from aar.transports.cli.screen import Screen
from aar.transports.cli.signals import Interrupts, open_interrupts
from aar.transports.cli.turn import TurnView, take_turn

__all__ = ["run", "with_files"]

Output = Literal["text", "json", "stream-json"]


def run(
    *task: Annotated[str, Parameter(name="TASK", help="What to do; `-` reads it from standard input.")],
    model: ModelFlags = ModelFlags(),  # noqa: B008 - frozen
    work: WorkFlags = WorkFlags(),  # noqa: B008
    session: SessionFlags = SessionFlags(),  # noqa: B008
    output: Annotated[Output, Parameter(help="What to write to standard output.")] = "text",
    safety: SafetyFlags = SafetyFlags(),  # noqa: B008
    logs: LogFlags = LogFlags(),  # noqa: B008
) -> int:
    """Do one task and exit."""
    if not task:
        complain('Nothing to do: give a task, as in `aar run "say hello"`, or `-` to read it from standard input.')
        return USAGE
    if session.session is not None and session.resume:
        complain("--session and --continue name two sessions: give one of them.")
        return USAGE

    async def work_to_do() -> int:
        loaded = loaded_settings(model, work, safety, logs)
        job = _Job(loaded, session, output, is_verbose=work.verbose, says_yes=safety.says_yes)
        return await job.run(" ".join(task))

    return run_to_code(work_to_do)


async def with_files(text: str, config: AgentConfig, cwd: str) -> PromptContent:
    """The text with the files that its `@` words name."""
    if "@" not in text:
        return text
    rule = reading_rule(config, cwd)
    return await trio.to_thread.run_sync(attach, text, cwd, rule, abandon_on_cancel=True)


class _Job:
    def __init__(
        self, loaded: Loaded, flags: SessionFlags, output: Output, *, is_verbose: bool, says_yes: bool
    ) -> None:
        self._loaded = loaded
        self._flags = flags
        self._output = output
        self._is_verbose = is_verbose
        self._says_yes = says_yes
        self._screen = Screen()
        self._lines = Lines()

    async def run(self, task: str) -> int:
        code = 0
        async with open_interrupts() as interrupts:
            if task == "-":
                task = await self._lines.read_all()
            if not task.strip():
                complain("The task is empty.")
                return USAGE
            async with open_conversation(self._loaded, self._flags, self._screen) as conversation:
                code = await self._turn(conversation, task, interrupts)
        return code if interrupts.code is None else interrupts.code

    async def _turn(self, conversation: Conversation, task: str, interrupts: Interrupts) -> int:
        handle, config = conversation.handle, conversation.config
        prompt = await with_files(task, config, handle.cwd)
        if self._output == "text":
            await self._tell_first(conversation, prompt)
        approver = Approver(handle, self._screen, self._lines, says_yes=self._says_yes)
        report = self._report(handle)
        label = config.resolve_provider().label
        view = TurnView(self._screen, approver, interrupts, label, report.show)
        stop, failure = "error", None
        await report.begin()
        try:
            async with approver.attending():
                stop = str((await take_turn(handle, prompt, view)).stop)
        except* ClientGone:
            raise
        except* AarError as errors:
            failure = "\n".join(str(error) for error in leaves(errors))
        await report.end(stop, failure)
        return code_of_stop(stop)

    async def _tell_first(self, conversation: Conversation, prompt: PromptContent) -> None:
        """What to know before the answer comes: a session that goes on, files that go along."""
        kinds = attached_kinds(prompt)
        lines = [conversation.remark, *(f"  Attached: {kind}" for kind in kinds)]
        for line in lines:
            if line:
                await self._screen.tell(f"{line}\n")

    def _report(self, handle: SessionHandle) -> Report:
        if self._output == "json":
            return JsonReport(self._screen, handle)
        if self._output == "stream-json":
            return StreamReport(self._screen, handle)
        return TextReport(self._screen, handle, verbose=self._is_verbose)
