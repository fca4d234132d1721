"""Whatever was said, by whichever models: each adapter makes a request of it that its vendor takes, and the next
request begins with what the last one held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aar.journal.context import trim
from aar.journal.transcript import Transcript
from aar.messages.base import new_call_id
from aar.messages.content import (
    AudioBlock,
    ContentBlock,
    Document,
    DocumentBlock,
    ImageBlock,
    ImageURL,
    Media,
    TextBlock,
)
from aar.messages.events import (
    AssistantMessage,
    Compacted,
    Event,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from aar.messages.provider import History, ProviderRequest, ProviderResponse
from aar.messages.tools import ToolSchema
from aar.providers import open_provider
from aar.providers.ollama_form import encode_body
from aar.providers.ollama_wire import parse_answer
from tests.providers.wire.form import Answer, Findings, WireFormat, read_json
from tests.providers.wire.servers import NAMES, new_formats, thinking_config

TOOLS = (
    ToolSchema("write", "Write.", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSchema("list", "List.", {"type": "object", "properties": {}}),
)

# The bodies that adapters post, without the way to a server.
_BODIES: dict[str, Callable[[Any, ProviderRequest], bytes]] = {
    "anthropic": lambda provider, request: provider._body.encode(request, provider._shape),
    "openai": lambda provider, request: provider._api.body(request, provider._fields, streaming=True),
    "responses": lambda provider, request: provider._api.body(request, provider._fields, streaming=True),
    "gemini": lambda provider, request: provider._body(request, sets_thinking=True),
    "ollama": lambda provider, request: encode_body(
        provider.config, request, provider._form, window=8192, streaming=True
    ),
    "generic": lambda provider, request: provider._body(request, True, provider._fields),
}

_PARSED: dict[str, Callable[[Any, Any], ProviderResponse]] = {
    **{name: lambda provider, body: provider._parsed(body) for name in NAMES},
    "ollama": lambda provider, body: parse_answer(body, model=provider.config.model),
}


class Model:
    """One vendor's model: an adapter, and the format that it is held to."""

    def __init__(self, form: WireFormat) -> None:
        self.form = form
        base = "" if form.name == "gemini" else "http://127.0.0.1:9/v1"
        self.provider: Any = open_provider(thinking_config(form.name, base_url=base, api_key="key"))
        self.before: list[Any] = []

    def answers(self, answer: Answer) -> ProviderResponse:
        """What the adapter makes of an answer on the wire."""
        found: ProviderResponse = _PARSED[self.form.name](self.provider, self.form.whole(answer))
        return found

    def body_of(self, history: History) -> Any:
        request = ProviderRequest(history, "Be brief.", TOOLS)
        return read_json(_BODIES[self.form.name](self.provider, request))

    def findings(self, body: Any) -> list[str]:
        found = Findings()
        self.form.check(body, found)
        return [f"{self.form.name}: {text}" for text in found]

    def goes_on(self, body: Any) -> bool:
        """Whether this request begins with the messages of the one before."""
        before, self.before = self.before, [piece for message in self.form.messages(body) for piece in _pieces(message)]
        return self.before[: len(before)] == before


def _pieces(message: Any) -> list[Any]:
    """A message as what stands in it: where roles must alternate, the next message may be added to the last."""
    for name in ("parts", "content"):
        if isinstance(message.get(name), list):
            return [(message["role"], piece) for piece in message[name]]
    return [message]


class Conversation:
    """A session without its runtime: facts, and what all the models would be sent."""

    def __init__(self) -> None:
        self.models = {name: Model(form) for name, form in new_formats().items()}
        self.transcript = Transcript()
        self.problems: list[str] = []

    def add(self, *events: Event) -> None:
        for event in events:
            self.transcript.apply(event)

    def ask_all(self, *, is_stable: bool = True, window: int = 0) -> None:
        """Make everyone's request, trimmed to a window of so many tokens, and note what is wrong with it."""
        history, _ = trim(self.transcript, window, "compact" if window % 2 else "sliding_window")
        for name, model in self.models.items():
            try:
                body = model.body_of(history)
            except ValueError as error:
                self.problems.append(f"{name}: {error}")
                continue
            self.problems += model.findings(body)
            if is_stable and not model.goes_on(body):
                self.problems.append(f"{name}: does not begin with the request before")

    def answer(self, name: str, answer: Answer) -> list[ToolCall]:
        """An answer as a turn records it; the calls under the ids that they have in the session."""
        response = self.models[name].answers(answer)
        calls: list[ToolCall] = []
        known = set(self.transcript.known_call_ids)
        for call in response.tool_calls:
            named = call.model_copy(update={"tool_call_id": new_call_id()}) if call.tool_call_id in known else call
            known.add(named.tool_call_id)
            calls.append(named)
        self.add(*response.reasoning, *calls, AssistantMessage(content=response.content))
        return calls


# --- conversations as a session leads them ----------------------------------------------------

PIXEL = "iVBORw0KGgo="
WORDS = st.sampled_from(["hi", "é\ud800 and more", " led by a space", '"{"', "a\n\nb\x00"])
SILENCE = st.sampled_from(["", " ", "\n"])
ARGUMENTS = st.sampled_from([{}, {"path": "a"}, {"raw": '{"pa'}, {"n": [1, None, {"é": True}]}, {"n": float("inf")}])
CALLS = st.tuples(st.sampled_from(["write", "list", "no such tool!", "a.b:c", "9", "", "n" * 90]), ARGUMENTS)
ANSWERS = st.builds(
    Answer,
    thought=st.sampled_from(["", "hm", " a thought\n"]),
    text=st.one_of(WORDS, SILENCE),
    calls=st.lists(CALLS, max_size=3).map(tuple),
)
PARTS: st.SearchStrategy[ContentBlock] = st.one_of(
    st.builds(TextBlock, text=st.one_of(WORDS, SILENCE)),
    st.just(ImageBlock(image_url=ImageURL(url=f"data:image/png;base64,{PIXEL}", detail="low"))),
    st.just(ImageBlock(image_url=ImageURL(url="https://example.org/a.png"))),
    st.just(AudioBlock(audio=Media(url="data:audio/wav;base64,AA", format="wav"))),
    st.just(DocumentBlock(document=Document(url="data:application/pdf;base64,JVBERg==", name="a.pdf"))),
)
PROMPTS = st.one_of(
    st.builds(UserMessage, content=WORDS),
    st.builds(lambda first, parts: UserMessage.of([TextBlock(text=first), *parts]), WORDS, st.lists(PARTS, max_size=3)),
)


@dataclass(frozen=True)
class Step:
    """A model answers, its calls are run (`results` has what they say, and whether they failed), somebody steers."""

    name: str
    answer: Answer
    results: list[tuple[str, bool]]
    steering: UserMessage | None


STEPS = st.builds(
    Step,
    st.sampled_from(NAMES),
    ANSWERS,
    st.lists(st.tuples(st.one_of(WORDS, SILENCE), st.booleans()), min_size=3, max_size=3),
    st.one_of(st.none(), PROMPTS),
)
TURNS = st.lists(st.tuples(PROMPTS, st.lists(STEPS, max_size=3), st.booleans()), min_size=1, max_size=4)


def lead(conversation: Conversation, turns: list[tuple[UserMessage, list[Step], bool]]) -> None:
    for prompt, steps, is_cut in turns:
        conversation.add(prompt)
        conversation.ask_all()
        for step in steps:
            calls = conversation.answer(step.name, step.answer)
            if not calls or (is_cut and step is steps[-1]):
                break  # cut: no result comes for the calls
            for call, (output, failed) in zip(calls, step.results, strict=False):
                conversation.add(ToolResult(tool_call_id=call.tool_call_id, output=output, is_error=failed))
            if step.steering is not None:
                conversation.add(step.steering)
            conversation.ask_all()


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(TURNS)
def test_each_request_is_valid_everywhere_and_begins_with_the_one_before(
    turns: list[tuple[UserMessage, list[Step], bool]],
) -> None:
    conversation = Conversation()
    lead(conversation, turns)
    assert conversation.problems == []


# --- facts in any order -----------------------------------------------------------------------

IDS = st.sampled_from(["toolu_1", "call:2", "x" * 90, "", "é"])
FOREIGN = [
    {"provider": "gemini", "replay": True, "model": "another", "calls": [{"signature": "c2ln"}]},
    {"provider": "openai", "replay": True, "model": "another", "output": [{"type": "reasoning"}]},
    {"provider": "of tomorrow", "replay": True, "secret": [1]},
    {"replay": True},
]
FACTS: st.SearchStrategy[Event] = st.one_of(
    PROMPTS,
    st.builds(UserMessage, content=SILENCE),
    st.builds(AssistantMessage, content=st.one_of(WORDS, SILENCE)),
    st.builds(ToolCall, tool_name=st.sampled_from(["write", "a b"]), tool_call_id=IDS, arguments=ARGUMENTS),
    st.builds(ToolResult, tool_call_id=IDS, output=st.one_of(WORDS, SILENCE), is_error=st.booleans()),
    st.builds(ReasoningBlock, content=st.just("hm"), data=st.sampled_from(FOREIGN)),
    st.builds(Compacted, up_to_seq=st.integers(0, 12), summary=st.just("s")),
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FACTS, max_size=14), st.sampled_from([0, 10, 11, 30, 31]))
def test_whatever_facts_there_are_the_next_prompt_can_be_asked_of_everyone(facts: list[Event], window: int) -> None:
    conversation = Conversation()
    conversation.add(*facts, UserMessage(content="go"))
    conversation.ask_all(is_stable=False, window=window)
    assert conversation.problems == []


def test_a_number_that_json_cannot_hold_does_not_spoil_the_conversation() -> None:
    call = ToolCall(tool_name="write", tool_call_id="c1", arguments={"n": [float("inf")], "m": {"k": float("nan")}})
    conversation = Conversation()
    conversation.add(UserMessage(content="go"), call, AssistantMessage(), ToolResult(tool_call_id="c1", output="ok"))
    conversation.ask_all()
    assert conversation.problems == []
    history = conversation.transcript.history()
    seen = [
        model.form.outline(model.body_of(history))[1] for name, model in conversation.models.items() if name != "ollama"
    ]
    assert seen == [("call", "write", {"n": ["inf"], "m": {"k": "nan"}})] * 5
