"""What may cross: commands to a session with their answers, and errors, as plain data and back."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from aar import errors
from aar.config import without_keys
from aar.errors import AarError, InvalidMessage, SessionError, UnknownMessage
from aar.messages.approvals import Attend, Decide
from aar.messages.base import Command
from aar.messages.events import Compacted, TurnEnded
from aar.messages.mcp import ListPrompts, ListResources, McpPrompt, McpResource, McpStatus
from aar.messages.session import (
    AskMcp,
    AutoApprove,
    Cancel,
    ClearQueue,
    CommandInfo,
    CommandReply,
    Compact,
    Configure,
    FollowUp,
    GetStatus,
    ListCommands,
    ListMcp,
    ListQueue,
    ListTools,
    Prompt,
    Queue,
    Revoke,
    RunCommand,
    Status,
    Steer,
    ToolInfo,
)
from aar.messages.settings import AgentConfig

__all__ = ["ATTACHED", "Shareable", "answer_data", "answer_of", "command_of", "error_data", "error_of"]

ATTACHED = "attached"
"""Who decided, in the facts, when it was somebody in another process."""

_SESSION = (
    Prompt
    | Steer
    | FollowUp
    | Cancel
    | ListQueue
    | ClearQueue
    | Configure
    | Compact
    | GetStatus
    | ListTools
    | ListMcp
    | AskMcp
    | ListCommands
    | RunCommand
)
Shareable = _SESSION | AutoApprove | Revoke | Attend | Decide
"""All but `Adopt`, with which decisions could be made up that nobody has given."""

_ANSWERS: dict[type[Command], Any] = {
    Prompt: TurnEnded,
    ListQueue: Queue,
    ClearQueue: Queue,
    Configure: AgentConfig,
    Compact: Compacted,
    GetStatus: Status,
    ListTools: tuple[ToolInfo, ...],
    ListMcp: tuple[McpStatus, ...],
    ListCommands: tuple[CommandInfo, ...],
    RunCommand: CommandReply,
    Decide: bool,
}


@cache
def _commands() -> TypeAdapter[Shareable]:
    return TypeAdapter(Annotated[Shareable, Field(discriminator="type")])


def command_of(data: Any, session_id: str) -> Shareable:
    """A command as somebody who attaches has sent it, signed as theirs and for this session.

    Raises `UnknownMessage`, `InvalidMessage`.
    """
    try:
        command = _commands().validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "union_tag_invalid":
            kind = str(data["type"])[:50]
            raise UnknownMessage(f"{kind!r} cannot be asked for from another process: only the owner can") from error
        if not first["loc"]:
            raise UnknownMessage("a message is an object with a type, such as get_status") from error
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidMessage(f"{where}: {first['msg']}"[:500]) from error
    if isinstance(command, Attend | Decide):
        command = command.model_copy(update={"session_id": session_id})
    if isinstance(command, Decide | AutoApprove | Revoke):
        command = command.model_copy(update={"by": ATTACHED})
    return command


def answer_data(answer: Any) -> Any:
    """An answer as plain data. Settings go without their keys."""
    if isinstance(answer, AgentConfig):
        return without_keys(answer)
    return to_jsonable_python(answer)


def answer_of(command: Any, data: Any) -> Any:
    """The answer to this command. Raises `InvalidMessage`."""
    kind = _mcp_answer(command) if isinstance(command, AskMcp) else _ANSWERS.get(type(command))
    if kind is None:
        return None
    try:
        return _answers(kind).validate_python(data)
    except ValidationError as error:
        raise InvalidMessage(f"the owner answered {command.type} with something else") from error


@cache
def _answers(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _mcp_answer(command: AskMcp) -> Any:
    match command.request:
        case ListResources():
            return tuple[McpResource, ...]
        case ListPrompts():
            return tuple[McpPrompt, ...]
        case _:
            return str


def error_data(error: AarError) -> dict[str, str]:
    return {"error": type(error).__name__, "message": str(error)}


def error_of(fields: dict[str, Any]) -> AarError:
    """The same kind of error, as far as its text is all that it needs."""
    text = str(fields.get("message", ""))
    kind = getattr(errors, str(fields.get("error")), None)
    if isinstance(kind, type) and issubclass(kind, AarError) and kind is not errors.ToolError:
        return kind(text)
    return SessionError(text)
