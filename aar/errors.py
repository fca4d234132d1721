"""Every error that Aar raises, on one page.

AarError
|- ConfigError                UnknownSetting  InvalidSetting
|- MessageError               UnknownMessage  InvalidMessage
|- ActorError                 ActorStopped  ActorCrashed  MailboxFull  WouldDeadlock  RestartLimit
|- SessionError               SessionNotFound  SessionInUse  SessionClosed  QueueFull  NothingToContinue
|- ProviderError              provider, status, retryable, retry_after
|  |- ProviderUnauthorized  ProviderRateLimited  ProviderUnavailable  ProviderTimeout  AnswerCut
|  `- ContextTooLong  ContentRefused  BadProviderReply  MissingPackage  MissingKey
|- ToolError                  category
|- McpError                   McpUnavailable  McpCollision  MissingMcp
|- StoreError                 SequenceConflict  StoreUnavailable  CorruptJournal
|- ExtensionError
`- TransportError             ProtocolError  ClientGone

Names say what went wrong; messages say what to do next. Errors that a specification ties to a built-in
(`FileNotFoundError`, `ValueError`, ...) inherit from both.
"""

from __future__ import annotations

__all__ = [
    "AarError",
    "ActorCrashed",
    "ActorError",
    "ActorStopped",
    "AnswerCut",
    "BadProviderReply",
    "ClientGone",
    "ConfigError",
    "ContentRefused",
    "ContextTooLong",
    "CorruptJournal",
    "ExtensionError",
    "InvalidMessage",
    "InvalidSetting",
    "MailboxFull",
    "McpCollision",
    "McpError",
    "McpUnavailable",
    "MessageError",
    "MissingKey",
    "MissingMcp",
    "MissingPackage",
    "NothingToContinue",
    "ProtocolError",
    "ProviderError",
    "ProviderRateLimited",
    "ProviderTimeout",
    "ProviderUnauthorized",
    "ProviderUnavailable",
    "QueueFull",
    "RestartLimit",
    "SequenceConflict",
    "SessionClosed",
    "SessionError",
    "SessionInUse",
    "SessionNotFound",
    "StoreError",
    "StoreUnavailable",
    "ToolError",
    "TransportError",
    "UnknownMessage",
    "UnknownSetting",
    "WouldDeadlock",
]


class AarError(Exception):
    """The root of the tree: catch it to catch everything that Aar raises on purpose."""


# --- configuration ----------------------------------------------------------------------------


class ConfigError(AarError, ValueError):
    """A configuration cannot be used. The text names the file, the field and the fix."""


class UnknownSetting(ConfigError):
    """A name that no setting has."""


class InvalidSetting(ConfigError):
    """A setting has a value that it cannot have."""


# --- messages ---------------------------------------------------------------------------------


class MessageError(AarError, ValueError):
    """Bytes or data could not be read as a message."""


class UnknownMessage(MessageError):
    """The `type` tag is missing or names no message."""


class InvalidMessage(MessageError):
    """The tag is known and the fields do not fit it."""


# --- actors -----------------------------------------------------------------------------------


class ActorError(AarError):
    """An actor could not take or answer a message."""


class ActorStopped(ActorError):
    """The actor is gone and will not come back."""


class ActorCrashed(ActorError):
    """The actor failed while it still owed this answer. It may be running again by now."""


class MailboxFull(ActorError):
    """`tell_nowait` found no room. The actor is alive; try again later."""


class WouldDeadlock(ActorError):
    """Waiting for this answer would close a ring of askers. The text shows the ring."""


class RestartLimit(ActorError):
    """A child failed more often than its supervisor restarts it."""


# --- sessions ---------------------------------------------------------------------------------


class SessionError(AarError):
    """A session cannot do what was asked."""


class SessionNotFound(SessionError, FileNotFoundError):
    """No session has this id."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SessionInUse(SessionError):
    """Another process holds the session. The text names the holder."""


class SessionClosed(SessionError):
    """The session ended before the request could be served."""


class QueueFull(SessionError):
    """The session already has as many waiting prompts as it may have."""


class NothingToContinue(SessionError):
    """The conversation ends with an answer, or is empty, and nothing waits to be said."""


# --- providers --------------------------------------------------------------------------------


class ProviderError(AarError):
    """A model call failed.

    `retryable` says whether the same request may succeed later; `retry_after` is the least number of
    seconds the server wants us to wait; `status` is the HTTP status, when there was one. `advice` is a sentence for
    the person who waits, where the adapter knows one that is better than the usual one for this kind of error.
    """

    retryable = False
    advice = ""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        if retryable is not None:
            self.retryable = retryable


class ProviderUnauthorized(ProviderError, PermissionError):
    """The key is missing, wrong, or not allowed to use this model."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MissingKey(ProviderUnauthorized, ConfigError):
    """The provider needs a key and there is none. The text says where it is looked for."""


class ProviderRateLimited(ProviderError):
    """Too many requests or tokens in a short time."""

    retryable = True


class ProviderUnavailable(ProviderError):
    """The server cannot be reached, is loading, overloaded, or cut the connection."""

    retryable = True


class ProviderTimeout(ProviderUnavailable):
    """The server was silent for longer than its limit."""


class AnswerCut(ProviderUnavailable):
    """The connection ended in the middle of an answer."""


class ContextTooLong(ProviderError):
    """The conversation does not fit into the model's context window."""


class ContentRefused(ProviderError):
    """A filter of the provider refused the request or the answer."""


class BadProviderReply(ProviderError):
    """The server's answer is not what its API promises."""


class MissingPackage(ProviderError, ImportError):
    """The provider needs a package that is not installed. The text names the pip command."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


# --- tools ------------------------------------------------------------------------------------


class ToolError(AarError):
    """A tool call ended without a result.

    `category` is one of `unknown_tool`, `no_handler`, `invalid_arguments`, `blocked`, `denied`, `timeout`,
    `exception`; clients match it.
    """

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category

    def __str__(self) -> str:
        return f"Error [{self.category}]: {self.args[0]}"


# --- MCP servers ------------------------------------------------------------------------------


class McpError(AarError):
    """An MCP server refused a request, or answered with something that is no answer."""


class McpUnavailable(McpError):
    """The server cannot be reached now, or was lost during the request. It is tried again by itself."""


class McpCollision(McpError, ValueError):
    """A server has a tool with the name of another tool. The text names the server and the setting that helps."""


class MissingMcp(McpError, ImportError):
    """MCP servers need a package that is not installed. The text names the pip command."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


# --- stores -----------------------------------------------------------------------------------


class StoreError(AarError):
    """A journal could not be read or written."""


class SequenceConflict(StoreError):
    """Somebody else has written this journal since we last did: we are not its owner."""


class StoreUnavailable(StoreError, OSError):
    """The store refuses writes (full disk, read-only folder, silence). What was written stays readable."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CorruptJournal(StoreError, ValueError):
    """A journal holds a line that is no event. The text names file and line."""


# --- the outside ------------------------------------------------------------------------------


class ExtensionError(AarError):
    """An extension could not be loaded or used."""


class TransportError(AarError):
    """A way in failed."""


class ProtocolError(TransportError):
    """The other side sent something its protocol does not allow."""


class ClientGone(TransportError):
    """The other side left."""
