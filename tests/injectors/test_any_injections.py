"""Whatever injectors say, and whenever: requests are valid, turns end, and only what is to stay is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from aar.errors import ProviderUnavailable
from aar.hooks import Hooks
from aar.injectors import (
    AfterResponseInjection,
    AfterToolInjection,
    AnyInjection,
    BeforeChatInjection,
    ErrorChange,
    Injection,
    Injectors,
    OnErrorInjection,
    Preamble,
    RequestChange,
    ResponseChange,
    Timing,
)
from aar.journal.state import Session
from aar.messages.events import UserMessage
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolRegistry

FIELDS = {
    "content": st.sampled_from(["", "said"]),
    "role": st.sampled_from(["user", "system"]),
    "eject": st.booleans(),
    "display_only": st.booleans(),
    "tools": st.sampled_from([None, (), ("echo",), ("o*",)]),
}
plain = st.builds(Injection, **FIELDS)
own: dict[Timing, Any] = {
    Timing.BEFORE_CHAT: st.builds(BeforeChatInjection, **FIELDS, request=st.builds(RequestChange, skip=st.booleans())),
    Timing.AFTER_RESPONSE: st.builds(
        AfterResponseInjection,
        **FIELDS,
        response=st.builds(ResponseChange, skip_storing=st.booleans(), content=st.sampled_from([None, "", "other"])),
    ),
    Timing.AFTER_TOOL_EXECUTION: st.builds(AfterToolInjection, **FIELDS, output=st.sampled_from([None, "output"])),
    Timing.ON_ERROR: st.builds(
        OnErrorInjection, **FIELDS, error=st.builds(ErrorChange, retry=st.booleans(), skip=st.booleans())
    ),
}
speakers = st.lists(
    st.sampled_from(list(own)).flatmap(
        lambda timing: st.tuples(st.just(timing), st.lists(st.one_of(st.none(), plain, own[timing]), max_size=4))
    ),
    max_size=4,
)
answers = st.lists(st.sampled_from(["text", "empty", "call", "calls", "unknown", "error"]), min_size=1, max_size=6)


def saying(several: Any) -> Injectors:
    injectors = Injectors()
    for timing, given_ in several:
        left = list(given_)
        say: Callable[..., AnyInjection | None] = lambda *_, left=left: left.pop(0) if left else None  # noqa: E731
        injectors.add_function(timing, say, Preamble(name="one"))
    return injectors


def model(script: list[str]) -> ScriptedProvider:
    provider = ScriptedProvider()
    for answer in script:
        match answer:
            case "text":
                provider = provider.text("text")
            case "empty":
                provider = provider.text("")
            case "call":
                provider = provider.call("echo", text="x")
            case "calls":
                provider = provider.calls(("echo", {"text": "x"}), ("other", {}), text="both")
            case "unknown":
                provider = provider.call("nonsense")
            case "error":
                provider = provider.error(ProviderUnavailable("gone"))
    return provider.text("the end").forever()


async def prompted(provider: ScriptedProvider, injectors: Injectors) -> tuple[list[str], Session]:
    tools = ToolRegistry()
    tools.register("echo")(lambda text="": text)
    tools.register("other")(lambda: "other")
    config = AgentConfig(tools={"enabled_builtins": []}, max_steps=8, max_retries=1)
    hooks = Hooks(injectors=injectors)
    async with open_test_runtime(provider, config, tools=tools, hooks=hooks) as runtime:
        session = await runtime.sessions.open("/")
        stops = [(await session.prompt(text)).stop for text in ("one", "two")]
        assert [fact.data.get("kind") for fact in facts_of(session) if isinstance(fact, UserMessage)].count(
            "prompt"
        ) == 2
        return stops, session.snapshot()


@settings(max_examples=40)
@given(speakers, answers)
@example([(Timing.AFTER_RESPONSE, [Injection(role="system", content="said")])], ["text"])
@example([(Timing.ON_ERROR, [OnErrorInjection(role="system", content="x", error=ErrorChange(skip=True))])], ["error"])
def test_requests_stay_valid_and_turns_end(
    problems_of: Any, in_virtual_time: Any, several: Any, script: list[str]
) -> None:
    provider = model(script)
    stops, session = in_virtual_time(prompted, provider, saying(several))
    assert set(stops) <= {"end_turn", "error", "max_steps"}
    for request in provider.requests:
        messages = list(request.messages)
        assert problems_of(messages) == []
        assert messages[-1]["role"] == "user"  # many models refuse to go on with an answer of their own
        assert all(one["content"] for one in messages)
    stored = {fact.data.get("kind") for fact in session.events if isinstance(fact, UserMessage)}
    assert stored <= {"prompt", "injected"}
    assert problems_of(session.to_messages()) == []
