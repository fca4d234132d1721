"""The baseline of an editor's agent: JSON-RPC over pipes on bare Trio, one model call a prompt, nothing kept.

A prompt that begins with a slash is only sent back.

python -m bench.bare_acp URL
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import trio

from bench import bare

__all__: list[str] = []


def _send(message: dict[str, Any]) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


async def _prompt(client: Any, url: str, request: dict[str, Any]) -> None:
    text = request["params"]["prompt"][0]["text"]
    if not text.startswith("/"):
        text = await bare.run(client, url, [{"role": "user", "content": text}], {})
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    _send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    _send({"id": request["id"], "result": {"stopReason": "end_turn"}})


async def _main(url: str) -> None:
    rest = b""
    async with bare.new_client() as client, trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(0)
            data = os.read(0, 65_536)
            if not data:
                nursery.cancel_scope.cancel()
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if request["method"] == "session/prompt":
                    nursery.start_soon(_prompt, client, url, request)
                else:
                    _send({"id": request["id"], "result": {"protocolVersion": 1, "sessionId": "s"}})


if __name__ == "__main__":
    trio.run(_main, sys.argv[1])
