"""The user's commands around tool calls: they look at a call, stop it, or tell the model what they found.

They run as the user, outside the sandbox, with a time limit, and leave nothing behind: whatever they started ends with
them. What a command says by its exit code: 0 is fine, 2 stops a call that has not run, anything else is told.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from aar.config.shell_hooks import ShellHook, in_force, parse_shell_hooks
from aar.hooks import Block, Hooks
from aar.messages.events import ToolCall
from aar.messages.settings import AgentConfig
from aar.messages.tools import ToolOutcome
from aar.processes.command import Finished, run_command
from aar.processes.environment import child_environment
from aar.safety.arguments import paths_of

__all__ = ["hooks_of_shell"]

OUTPUT_LIMIT = 20_000  # characters of what a hook writes
BLOCKS = 2  # the exit code that stops a call
MOST_TOLD = 64  # calls for which something is kept to be told; those that were cancelled never ask for it
MARGIN = 2.0  # seconds that a hook has beside its own limit, to be started and ended


def hooks_of_shell(said: dict[str, Any], config: Callable[[], AgentConfig], *, session_id: str, cwd: str) -> Hooks:
    """The commands of `shell_hooks` as hooks. `config` gives what is in force. Raises `InvalidSetting`."""
    hooks = parse_shell_hooks(said)
    if not hooks:
        return Hooks()
    running = _Around(hooks, config, session_id, cwd)
    limit = sum(hook.timeout + MARGIN for hook in hooks)  # of all that may run one after the other
    return Hooks(before_tool_call=(running.before,), after_tool_call=(running.after,), time_limit=limit)


class _Said(NamedTuple):
    """What a hook has to say: `refusal` is why the call must not be, or must not count."""

    message: str = ""
    refusal: str | None = None


class _Around:
    """The hooks of one session."""

    def __init__(
        self, hooks: Sequence[ShellHook], config: Callable[[], AgentConfig], session_id: str, cwd: str
    ) -> None:
        self._hooks = hooks
        self._config = config
        self._session_id = session_id
        self._cwd = cwd
        self._shell = shutil.which("bash") or "/bin/sh"
        self._told: dict[str, list[str]] = {}  # by calls that run: what was said before

    async def before(self, call: ToolCall) -> Block | None:
        for hook, files in self._wanted("pre", call):
            said = await self._run(hook, call, files, {})
            if said.refusal is not None:
                self._told.pop(call.tool_call_id, None)
                return Block(said.refusal)
            if said.message:
                self._told.setdefault(call.tool_call_id, []).append(said.message)
                if len(self._told) > MOST_TOLD:
                    del self._told[next(iter(self._told))]
        return None

    async def after(self, call: ToolCall, outcome: ToolOutcome) -> ToolOutcome:
        told = self._told.pop(call.tool_call_id, [])
        has_run = outcome.duration_ms > 0 or not outcome.is_error
        for hook, files in self._wanted("post", call) if has_run else ():
            said = await self._run(hook, call, files, {"output": outcome.output, "is_error": outcome.is_error})
            told += [text for text in (said.message, said.refusal) if text]
            if said.refusal is not None:
                outcome = outcome._replace(is_error=True)
        return outcome._replace(output="\n".join([outcome.output, *told])) if told else outcome

    def _wanted(self, event: str, call: ToolCall) -> list[tuple[ShellHook, list[str]]]:
        """The hooks for this call in order, each with the files that it is about."""
        config = self._config()
        wanted: list[tuple[ShellHook, list[str]]] = []
        files: list[str] | None = None
        for hook in in_force(self._hooks, config.agent, config.mode):
            if hook.event != event or not hook.fits(call.tool_name):
                continue
            files = [os.path.join(self._cwd, path) for path in paths_of(call.arguments)] if files is None else files
            fitting = [path for path in files if self._fits(path, hook.files)] if hook.files else files
            if fitting or not hook.files:
                wanted.append((hook, fitting))
        return wanted

    def _fits(self, path: str, patterns: Sequence[str]) -> bool:
        names = (os.path.basename(path), os.path.relpath(path, self._cwd))
        return any(fnmatchcase(names["/" in pattern], pattern) for pattern in patterns)

    async def _run(self, hook: ShellHook, call: ToolCall, files: Sequence[str], more: dict[str, Any]) -> _Said:
        told = {
            "event": hook.event,
            "tool": call.tool_name,
            "arguments": call.arguments,
            "files": list(files),
            "cwd": self._cwd,
            "session_id": self._session_id,
            **more,
        }
        finished = await run_command(
            [self._shell, "-c", hook.command],
            cwd=self._cwd,
            env=child_environment(keep=self._config().tools.env_keep, extra={"FILE": files[0]} if files else {}),
            timeout=hook.timeout,
            output_limit=OUTPUT_LIMIT,
            stdin=json.dumps(told, ensure_ascii=False, default=str).encode("utf-8", "surrogateescape"),
        )
        return _judged(hook, finished)


def _judged(hook: ShellHook, finished: Finished) -> _Said:
    is_guard = hook.event == "pre"
    if finished.timed_out:
        text = f"[{hook.name}] took longer than {hook.timeout:g} s"
        return _Said(refusal=text) if is_guard else _Said(_heard(hook, text))
    stderr = finished.stderr.strip()
    if finished.exit_code == BLOCKS and is_guard:
        return _Said(refusal=f"[{hook.name}] {stderr or 'not this call'}")
    if finished.exit_code:
        return _Said(_heard(hook, f"[{hook.name}] exit code {finished.exit_code}: {stderr}".removesuffix(": ")))
    return _spoken(hook, finished.stdout.strip())


def _heard(hook: ShellHook, text: str) -> str:
    return "" if hook.silent else text


def _spoken(hook: ShellHook, stdout: str) -> _Said:
    """Standard output counts where it is a JSON object: `message`, `deny`, `reason`."""
    try:
        said = json.loads(stdout) if stdout.startswith("{") else {}
    except ValueError:
        said = {}
    message = said.get("message")
    refusal = f"[{hook.name}] {said.get('reason') or 'not this call'}" if said.get("deny") is True else None
    return _Said(_heard(hook, f"[{hook.name}] {message}") if message else "", refusal)
