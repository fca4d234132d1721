"""What several injectors decide together, and that no injection fits where it does not belong."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aar.injectors as public
from aar.injectors import (
    AnyInjection,
    BeforeChatInjection,
    CompactionChange,
    ErrorChange,
    Injection,
    Injectors,
    Preamble,
    RequestChange,
    ResponseChange,
    Timing,
    preamble,
)
from aar.injectors.combining import compaction_of, error_of, fitting, last, request_of, response_of

FLAGS = (False, True)


@pytest.mark.covers("AURA-90")
@pytest.mark.parametrize(("first", "second"), list(product(product(FLAGS, FLAGS), repeat=2)))
def test_flags_add_up_and_retry_is_stronger_than_skip(first: Any, second: Any) -> None:
    changes = [ErrorChange(retry=retry, skip=skip) for retry, skip in (first, second)]
    retry, skip = first[0] or second[0], first[1] or second[1]
    assert error_of(changes) == ErrorChange(retry=retry, skip=skip and not retry)
    skips = [RequestChange(skip=one[1]) for one in (first, second)]
    assert request_of(skips).skip is skip
    assert response_of([ResponseChange(skip_storing=one[1]) for one in (first, second)]).skip_storing is skip
    assert compaction_of([CompactionChange(skip=one[1]) for one in (first, second)]).skip is skip


@pytest.mark.covers("AURA-90")
@pytest.mark.parametrize(
    ("given", "expected"),
    [([], None), ([None], None), (["a", None], "a"), ([None, "b"], "b"), (["a", "b"], "b"), (["a", ""], "")],
)
def test_of_several_texts_the_last_one_counts(given: list[str | None], expected: str | None) -> None:
    assert last(given) == expected
    assert response_of([ResponseChange(content=one) for one in given]).content == expected


def test_what_is_added_to_the_system_prompt_is_there_in_order_and_once() -> None:
    changes = [RequestChange(append_system=text) for text in ("a", "", "b", "a")]
    assert request_of(changes) == RequestChange(append_system="a\n\nb")
    reasons = [RequestChange(skip=True, reason="x"), RequestChange(reason="no skip"), RequestChange(skip=True)]
    assert request_of(reasons) == RequestChange(skip=True, reason="x")


names = st.lists(st.sampled_from(["read", "write", "bash", "mcp_a", "mcp_b"]), unique=True)
patterns = st.lists(st.lists(st.sampled_from(["*", "read", "mcp_*", "w*"]), max_size=2), max_size=3)


@given(names, patterns)
def test_filters_only_narrow_in_whatever_order(known: list[str], filters: list[list[str]]) -> None:
    left = fitting(known, filters)
    assert set(left) <= set(known)
    assert all(fitting(known, order) == left for order in permutations(filters))
    for count in range(len(filters)):
        assert set(left) <= set(fitting(known, filters[:count]))


# --- types ------------------------------------------------------------------------------------

OWN = {
    "BeforeChat": "BeforeChatInjection",
    "AfterResponse": "AfterResponseInjection",
    "AfterToolExecution": "AfterToolInjection",
    "OnError": "OnErrorInjection",
    "BeforeCompaction": "BeforeCompactionInjection",
}


@pytest.mark.covers("AURA-88")
def test_each_timing_takes_the_plain_injection_and_its_own_and_none_of_the_others() -> None:
    kinds = {kind.__name__: kind for kind in AnyInjection.__subclasses__()}
    assert set(kinds) == {"Injection", *OWN.values()}
    assert all(not issubclass(one, other) for one, other in permutations(kinds.values(), 2))
    for protocol, timing in zip(_protocols(), Timing, strict=True):
        given = get_type_hints(getattr(protocol, timing.value))["return"]
        allowed = {one.__name__ for one in get_args(given) if isinstance(one, type) and issubclass(one, AnyInjection)}
        without = timing in (Timing.BEFORE_TOOL_EXECUTION, Timing.TRANSFORM_MESSAGES)
        own = {OWN[protocol.__name__]} if protocol.__name__ in OWN else set()
        assert allowed == (set() if without else {"Injection", *own}), protocol


def _protocols() -> list[type]:
    names = [timing.name.title().replace("_", "") for timing in Timing]
    return [getattr(public, name) for name in names]


@pytest.mark.covers("AURA-88")
@pytest.mark.parametrize(
    "wrong", [{"output": "x"}, {"response": ResponseChange()}, {"role": "assistant"}, {"tools": "x"}]
)
def test_a_wrong_combination_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        BeforeChatInjection(content="x", **wrong)


# --- the registry -----------------------------------------------------------------------------


def test_an_injector_is_asked_at_each_timing_that_it_has_a_method_for() -> None:
    @preamble("both")
    class Both:
        async def before_chat(self, at: Any) -> None: ...
        async def on_error(self, at: Any, error: Exception) -> None: ...

    class Other:
        async def before_chat(self, at: Any) -> None: ...

    injectors = Injectors([Both()]).and_then(Injectors([Other()]))
    assert {timing: injectors.names(timing) for timing in Timing if timing in injectors} == {
        Timing.BEFORE_CHAT: ["both", "Other"],
        Timing.ON_ERROR: ["both"],
    }
    assert len(injectors) == 3


@pytest.mark.parametrize("wrong", [object(), "before_chat", Injection(), type("Class", (), {"before_chat": print})])
def test_what_has_none_of_the_methods_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="is no injector: it has none of the methods before_chat, after_response"):
        Injectors([wrong])


def test_a_time_out_is_more_than_nothing() -> None:
    with pytest.raises(ValueError, match="more than 0 seconds"):
        preamble(timeout=0)
    assert Preamble().timeout == 10
