"""The engine: a low-level face for programs that drive an agent step by step. `open_engine` gives one."""

from aar.engine.engine import Driven, Engine, EngineState
from aar.engine.events import EVENT_KINDS, Content, EngineEvent, EngineMessage, EventKind
from aar.engine.options import Options, QueueMode, Said, ToolExecutionMode, TurnDone
from aar.engine.subscribers import FAILURES_ALLOWED, Subscriber, Subscribers
from aar.engine.view import EngineEvents, View

__all__ = [
    "EVENT_KINDS",
    "FAILURES_ALLOWED",
    "Content",
    "Driven",
    "Engine",
    "EngineEvent",
    "EngineMessage",
    "EngineState",
    "EventKind",
    "Options",
    "QueueMode",
    "Said",
    "Subscriber",
    "Subscribers",
    "ToolExecutionMode",
    "TurnDone",
    "View",
    "EngineEvents",
]
