"""Injectors: code that looks into the loop of a session at nine timings, puts messages in, and changes its course.

class Reminder:
    async def before_chat(self, at):
        if at.step > 10:
            return Injection(content="Come to an end.", eject=True)

hooks = Hooks(injectors=Injectors([Reminder()]))
"""

from aar.injectors.injections import (
    AfterResponseInjection,
    AfterToolInjection,
    AnyInjection,
    BeforeChatInjection,
    BeforeCompactionInjection,
    CompactionChange,
    ErrorChange,
    Injection,
    OnErrorInjection,
    RequestChange,
    ResponseChange,
)
from aar.injectors.preamble import preamble
from aar.injectors.registry import Injectors, Ran
from aar.injectors.timings import (
    AfterCompaction,
    AfterResponse,
    AfterToolExecution,
    BeforeChat,
    BeforeCompaction,
    BeforeToolExecution,
    Moment,
    OnAgentSwitch,
    OnError,
    Preamble,
    Switch,
    Timing,
    TransformMessages,
)

__all__ = [
    "AfterCompaction",
    "AfterResponse",
    "AfterResponseInjection",
    "AfterToolExecution",
    "AfterToolInjection",
    "AnyInjection",
    "BeforeChat",
    "BeforeChatInjection",
    "BeforeCompaction",
    "BeforeCompactionInjection",
    "BeforeToolExecution",
    "CompactionChange",
    "ErrorChange",
    "Injection",
    "Injectors",
    "Moment",
    "OnAgentSwitch",
    "OnError",
    "OnErrorInjection",
    "Preamble",
    "Ran",
    "RequestChange",
    "ResponseChange",
    "Switch",
    "Timing",
    "TransformMessages",
    "preamble",
]
