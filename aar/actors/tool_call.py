"""One tool call from the model's words to a result. Part of the tool executor."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from aar.actors.errand import Errand
from aar.actors.live_output import LiveOutput
from aar.actors.outbox import Outbox
from aar.actors.workbench import Progress, Workbench
from aar.errors import AarError, SessionClosed, StoreError, ToolError
from aar.hooks import Block
from aar.kernel.others import to_pass_on, words_of
from aar.messages.approvals import AskApproval, Decision
from aar.messages.base import new_call_id
from aar.messages.events import (
    ApprovalRequested,
    ApprovalResolved,
    Notice,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from aar.messages.settings import AgentConfig
from aar.messages.tools import SideEffect, ToolOutcome
from aar.safety.arguments import command_of
from aar.safety.commands import redact
from aar.safety.display import visible
from aar.safety.grants import Grants, approval_key
from aar.safety.policy import Verdict, decide
from aar.tools.registry import ToolContext, ToolSpec, invoke

if TYPE_CHECKING:
    from aar.safety.paths import PathGuard
    from aar.safety.sandbox import Sandbox

__all__ = ["outcome_of", "run_call"]

TRUNCATED = "\n... (truncated)"

logger = logging.getLogger(__name__)


async def run_call(bench: Workbench, call: ToolCall, outbox: Outbox, progress: Progress) -> ToolResult:
    """The result of one call; every failure but a cancel is a result, too."""
    outcome = await outcome_of(bench, call, outbox, progress)
    return ToolResult(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        output=outcome.output,
        is_error=outcome.is_error,
        duration_ms=outcome.duration_ms,
        data=bench.seen.taken(call.tool_call_id) if bench.config.safety.read_before_write else {},
    )


async def outcome_of(bench: Workbench, call: ToolCall, outbox: Outbox, progress: Progress) -> ToolOutcome:
    """What comes of a call, before it is put on record."""
    really = call
    try:
        spec = _known(bench, call)
        really = await _before(bench, spec, call, outbox)
        outcome = await _admit_and_run(bench, spec, really, outbox, progress, is_changed=really is not call)
    except ToolError as refusal:
        outcome = ToolOutcome(str(refusal), is_error=True)
    except (StoreError, SessionClosed):  # no result could be put on record either: the turn has to end
        raise
    except AarError as error:  # a sandbox that cannot be had, a question that could not be asked
        outcome = ToolOutcome(f"Error [exception]: {type(error).__name__}: {error}", is_error=True)
    outcome = await _after(bench, really, outcome, outbox)
    return outcome._replace(output=_truncated(outcome.output, bench.config.tools.max_output_chars))


def _known(bench: Workbench, call: ToolCall) -> ToolSpec:
    spec = bench.offered.get(call.tool_name)
    if spec is None:
        raise ToolError("unknown_tool", f"unknown tool '{call.tool_name}'")
    if spec.handler is None:
        raise ToolError("no_handler", f"tool '{call.tool_name}' has no handler")
    _check_arguments(spec, call)
    return spec


async def _admit_and_run(
    bench: Workbench, spec: ToolSpec, call: ToolCall, outbox: Outbox, progress: Progress, *, is_changed: bool
) -> ToolOutcome:
    rules = await _admit(bench, spec, call, outbox)
    _audit(bench, spec, call)
    effects = [str(effect) for effect in spec.side_effects]
    data = {"arguments": call.arguments} if is_changed else {}  # a hook changed what the model had asked for
    await outbox.put(ToolStarted(tool_call_id=call.tool_call_id, side_effects=effects, data=data))
    return await _run(bench, rules, spec, call, outbox, progress)


def _check_arguments(spec: ToolSpec, call: ToolCall) -> None:
    problem = _problem_with(spec, call)
    if problem is not None:
        raise ToolError("invalid_arguments", f"invalid arguments for '{call.tool_name}': {problem}")


def _problem_with(spec: ToolSpec, call: ToolCall) -> str | None:
    if set(call.arguments) == {"raw"} and "raw" not in spec.input_schema.get("properties", {}):
        return "the arguments are not a JSON object; send them again, complete and valid"
    return spec.problem_with(call.arguments)


# --- hooks ------------------------------------------------------------------------------------


async def _before(bench: Workbench, spec: ToolSpec, call: ToolCall, outbox: Outbox) -> ToolCall:
    if bench.injecting is not None:  # first: guards see what comes out of it
        if not bench.injecting.allows(spec.name):
            raise ToolError("blocked", f"tool '{spec.name}' was not offered in this step")
        call = await bench.injecting.before_tool(bench, call, partial(_problem_with, spec), outbox.put)
    for hook in bench.hooks.before_tool_call:
        try:
            with trio.fail_after(bench.hooks.time_limit):
                changed = await hook(call)
        except Exception as error:  # a guard that fails blocks: not knowing is not a yes
            logger.warning("a before_tool_call hook failed: %r", error, exc_info=error)
            raise ToolError("blocked", f"a check before this call failed ({_told(error)})") from error
        if isinstance(changed, Block):
            raise ToolError("blocked", changed.reason)
        if changed is not None:
            call = changed
            _check_arguments(spec, call)
    return call


def _told(error: Exception) -> str:
    return (isinstance(error, AarError) and str(error)) or words_of(error)


async def _after(bench: Workbench, call: ToolCall, outcome: ToolOutcome, outbox: Outbox) -> ToolOutcome:
    for hook in bench.hooks.after_tool_call:
        try:
            with trio.fail_after(bench.hooks.time_limit):
                outcome = await hook(call, outcome) or outcome
        except Exception as error:  # skipped: the call itself is done
            logger.warning("an after_tool_call hook failed: %r", error, exc_info=error)
            await outbox.put(Notice(kind="hook_failed", text=f"An after_tool_call hook failed: {error!r}"))
    if bench.injecting is not None:
        outcome = await bench.injecting.after_tool(bench, call, outcome, outbox.put)
    return outcome


# --- may it run? ------------------------------------------------------------------------------


class _Rules(NamedTuple):
    """What a call was judged by, and runs by, also when the settings change as it starts."""

    config: AgentConfig
    paths: PathGuard
    sandbox: Sandbox | None  # of a tool that runs commands


async def _admit(bench: Workbench, spec: ToolSpec, call: ToolCall, outbox: Outbox) -> _Rules:
    """What the call may run by; raises `ToolError` (blocked, denied) when it may not."""
    rules, verdict = _judged(bench, spec, call)
    if verdict.action == "allow" or _standing(bench, spec, call) == "allow":
        return rules
    if rules.config.safety.read_before_write:
        from aar.actors.reading_first import require_seen

        await require_seen(bench.seen, spec, call, outbox.shown_as, rules.paths)  # nobody is asked about it in vain
    await _settle(bench, spec, call, verdict, outbox)
    if bench.offered.get(spec.name) is None:
        raise ToolError("blocked", f"tool '{spec.name}' is not offered any more")
    return _judged(bench, spec, call)[0]  # settings may have become stricter while somebody thought about the answer


async def _settle(bench: Workbench, spec: ToolSpec, call: ToolCall, verdict: Verdict, outbox: Outbox) -> None:
    """Return when people let it run, now or once and for all; raise `ToolError` (denied) when they do not."""
    async with outbox.questions:
        answer = _standing(bench, spec, call)  # an earlier question of this step may have settled it
        if answer is None:
            answer = "allow" if await _ask(bench, spec, call, verdict, outbox) else "deny"
    if answer == "deny":
        raise ToolError("denied", "tool call denied by user")


_BLOCKED = "blocked by safety policy"


def _judged(bench: Workbench, spec: ToolSpec, call: ToolCall) -> tuple[_Rules, Verdict]:
    """Raises `ToolError` for what is denied."""
    sandbox = bench.sandbox if SideEffect.EXECUTE in spec.side_effects else None
    rules = _Rules(bench.config, bench.paths, sandbox)
    enforces = sandbox is not None and sandbox.enforces_paths
    safety = rules.config.safety
    verdict = decide(spec, call.arguments, safety, bench.cwd, sandbox_enforces=enforces, guard=rules.paths)
    if verdict.action == "deny":
        logger.info("policy denies %s: %s", spec.name, verdict.reason)
        raise ToolError("blocked", f"blocked by safety policy: {verdict.reason}" if verdict.reason else _BLOCKED)
    return rules, verdict


def _standing(bench: Workbench, spec: ToolSpec, call: ToolCall) -> str | None:
    standing = bench.journal.session.standing
    if not (standing.allowed or standing.denied or standing.entries):
        return None
    grants = Grants(frozenset(standing.allowed), frozenset(standing.denied), tuple(standing.entries))
    key = _key(bench, spec, call)
    return grants.verdict(spec.name, key, call.arguments)


def _key(bench: Workbench, spec: ToolSpec, call: ToolCall) -> str:
    return approval_key(spec, call.arguments, bench.config.safety, bench.cwd, guard=bench.paths)


async def _ask(bench: Workbench, spec: ToolSpec, call: ToolCall, verdict: Verdict, outbox: Outbox) -> bool:
    """Ask, announce, wait: in this order, so that no decision can come before the question is there."""
    question = AskApproval(
        session_id=bench.session_id,
        tool_call_id=call.tool_call_id,
        tool_name=spec.name,
        arguments=call.arguments,
        reason=verdict.reason,
        timeout=bench.config.safety.acp_approval_timeout,
    )
    await outbox.put()  # whoever looks after approvals may be busy; nobody else has to wait for what the model said
    async with bench.approvals.asking(question) as answer:
        await outbox.put(
            ApprovalRequested(
                tool_call_id=call.tool_call_id,
                tool_name=spec.name,
                arguments=call.arguments,
                reason=visible(verdict.reason),
            )
        )
        decision = await answer()
    await outbox.put(_resolved(bench, spec, call, decision))
    if decision.by == "nobody":
        raise ToolError("denied", "this call needs an approval and nobody is there to give it")
    if decision.by == "timeout":
        raise ToolError("denied", "this call needs an approval and nobody gave it in time")
    return decision.allowed


def _resolved(bench: Workbench, spec: ToolSpec, call: ToolCall, decision: Decision) -> ApprovalResolved:
    return ApprovalResolved(
        tool_call_id=call.tool_call_id,
        tool_name=spec.name,
        decision="allow" if decision.allowed else "deny",
        scope="session" if decision.is_standing else "once",
        by=decision.by,
        key=_key(bench, spec, call),
    )


def _audit(bench: Workbench, spec: ToolSpec, call: ToolCall) -> None:
    """Shell commands that are about to run, for the log of a user who wants one."""
    if bench.config.safety.log_all_commands and SideEffect.EXECUTE in spec.side_effects:
        command = command_of(call.arguments)
        if command:
            logger.info("Command audit: %s", redact(command))


# --- run --------------------------------------------------------------------------------------


async def _run(
    bench: Workbench, rules: _Rules, spec: ToolSpec, call: ToolCall, outbox: Outbox, progress: Progress
) -> ToolOutcome:
    limit = rules.config.tools.command_timeout if spec.time_limit is None else spec.time_limit
    started = trio.current_time()
    output, is_error = "", False
    scope = trio.CancelScope(deadline=started + limit if limit else float("inf"))
    try:
        with LiveOutput(call.tool_call_id, outbox, progress, rules.config.tools.max_output_chars) as live, scope:
            context = _tool_context(bench, rules, call, live, outbox)
            given = await _invoked(bench, rules, spec, call, context)
            output, is_error = (given[0], given[1]) if isinstance(given, ToolOutcome) else (str(given), False)
            if isinstance(given, ToolOutcome) and given.terminate:
                progress.is_last = True
    except ToolError as refusal:
        output, is_error = str(refusal), True
    except BaseException as error:  # a wall: a tool's failure is something to tell the model, also its sys.exit()
        passed_on = to_pass_on(error)
        if passed_on is not None:
            raise passed_on from None
        logger.debug("%s raised", spec.name, exc_info=error)
        output, is_error = f"Error [exception]: {words_of(error)}", True
    if scope.cancelled_caught:
        said = progress.said.get(call.tool_call_id, "")
        output = f"Error [timeout]: tool '{spec.name}' timed out after {limit}s" + (f"\n{said}" if said else "")
        is_error = True
    return ToolOutcome(output, is_error=is_error, duration_ms=(trio.current_time() - started) * 1000)


async def _invoked(bench: Workbench, rules: _Rules, spec: ToolSpec, call: ToolCall, context: ToolContext) -> Any:
    run = partial(invoke, spec, call.arguments, context, limiter=bench.threads)
    if not rules.config.safety.read_before_write:
        return await run()
    from aar.actors.reading_first import run_seeing  # few settings ask for it

    return await run_seeing(bench.seen, spec, call, context, run)


def _tool_context(bench: Workbench, rules: _Rules, call: ToolCall, live: LiveOutput, outbox: Outbox) -> ToolContext:
    tools = rules.config.tools

    async def run_command(command: str, timeout: float) -> Any:
        return await (rules.sandbox or bench.sandbox).execute(
            command, timeout=timeout, cwd=bench.cwd, report=live.report, output_limit=tools.max_output_chars
        )

    return ToolContext(
        cwd=bench.cwd,
        session_id=bench.session_id,
        tool_call_id=outbox.shown_as or call.tool_call_id,
        report=live.report,
        run_command=run_command,
        paths=rules.paths,
        config=tools,
        delegate=None if bench.delegate is None else partial(_delegate, bench, call, live, outbox),
        deferred=bench.deferred,
        home=str(bench.home),
        run_calls=None if outbox.run_inside is None else partial(outbox.run_inside, bench, call, outbox, live.report),
    )


async def _delegate(
    bench: Workbench, call: ToolCall, live: LiveOutput, outbox: Outbox, prompt: str, agent: str
) -> ToolOutcome:
    assert bench.delegate is not None

    async def may(tool: str, arguments: Mapping[str, Any], reason: str) -> bool:
        """Whether a call may run that this one leads to. Each question has a name of its own: an answer that comes
        late must not hit the next one, and nobody must take it for a question about this call."""
        inner = ToolCall(tool_call_id=new_call_id(), tool_name=tool, arguments=dict(arguments))
        spec = bench.toolbox.get(tool) or ToolSpec(tool)
        try:
            await _settle(bench, spec, inner, Verdict("ask", reason), outbox)
        except ToolError:
            return False
        return True

    tokens_left, dollars_left = bench.budget.left(bench.config)
    return await bench.delegate(
        Errand(
            prompt=prompt,
            agent=agent,
            cwd=bench.cwd,
            config=bench.config,
            trace_id=bench.journal.session.trace_id,
            report=live.report,
            may=may,
            spent=outbox.put,
            tokens_left=tokens_left,
            dollars_left=dollars_left,
        )
    )


def _truncated(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + TRUNCATED
