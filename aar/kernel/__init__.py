"""Actors: mailboxes, addresses and supervisors. Nothing here knows what an agent is.

A service is an async function that iterates over its mailbox; a `Supervisor` runs it and starts it again on the
same mailbox when it fails. A worker hands out items in its caller's scope and ends with it: in its simplest form an
async generator under `trio.as_safe_channel`.
"""

from aar.kernel.alone import errors_alone
from aar.kernel.envelope import Answer, Envelope
from aar.kernel.mailbox import Mailbox, MailboxStatistics
from aar.kernel.ref import LocalRef, Ref
from aar.kernel.registry import Registry
from aar.kernel.supervisor import Child, ChildStatistics, Exhausted, Restart, Supervisor, open_supervisor
from aar.messages.base import Request

__all__ = [
    "Answer",
    "Child",
    "ChildStatistics",
    "Envelope",
    "Exhausted",
    "LocalRef",
    "Mailbox",
    "MailboxStatistics",
    "Ref",
    "Registry",
    "Request",
    "Restart",
    "Supervisor",
    "errors_alone",
    "open_supervisor",
]
