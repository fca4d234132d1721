"""From the command line to a running server, or to one of the other commands: onboard, send, receive."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tools.starting import need_packages, serve, server_flags

if TYPE_CHECKING:
    from tools.signal.settings import Settings

__all__ = ["main"]

T = TypeVar("T")
NO_ACCOUNT = "No account: set SIGNAL_PHONE_NUMBER, or run this with `onboard`"


def main() -> None:
    flags = _flags()
    need_packages("mcp", "trio", "httpx2", "hypercorn")
    if flags.command == "onboard":
        sys.exit(_onboard())
    if flags.command == "send":
        sys.exit(_send(flags.recipient, flags.message))
    if flags.command == "receive":
        sys.exit(_receive(flags.watch))
    settings = _settings()
    from tools.signal.server import signal_server

    serve(signal_server(settings, Path.cwd()), flags)


def _flags() -> argparse.Namespace:
    parser = server_flags("MCP server: messages of a Signal account, over a signal-cli REST API")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="serve|onboard|send|receive")
    commands.add_parser("serve", help="serve MCP; what happens without a command")
    commands.add_parser("onboard", help="set up the address, the number and the account")
    send = commands.add_parser("send", help="send a message")
    send.add_argument("recipient")
    send.add_argument("message")
    receive = commands.add_parser("receive", help="print new messages")
    receive.add_argument("--watch", action="store_true", help="go on until Ctrl+C")
    return parser.parse_args()


def _settings(*, account: bool = True) -> Settings:
    from tools.signal.settings import load_settings

    try:
        settings = load_settings()
    except ValueError as error:
        sys.exit(str(error))
    if account and not settings.account_number:
        sys.exit(NO_ACCOUNT)
    return settings


def _run(function: Callable[[], Awaitable[T]]) -> T:
    import trio

    from tools.failing import ServiceError

    try:
        return trio.run(function)
    except (ServiceError, ValueError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _onboard() -> int:
    from tools.signal.onboarding import Conversation, onboard
    from tools.signal.settings import config_path

    def ask(question: str) -> str:
        try:
            return input(question)
        except EOFError:
            sys.exit("\nGiven up")

    settings = _settings(account=False)
    return 0 if _run(lambda: onboard(settings, config_path(), Conversation(ask, _print))) else 1


def _send(recipient: str, message: str) -> int:
    from tools.signal.account import Account

    account = Account(_settings(), Path.cwd())
    _print(_run(lambda: account.send([recipient], message)))
    return 0


def _receive(watch: bool) -> int:
    import trio

    from tools.signal.account import Account

    settings = _settings()
    account = Account(settings, Path.cwd())

    async def show() -> None:
        _print(await account.receive_text(None, 0))
        while watch:
            await trio.sleep(settings.poll_interval)
            messages = await account.receive()
            if messages:
                _print("\n".join(f"{message['sender']}: {message['message']}" for message in messages))

    _run(show)
    return 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
