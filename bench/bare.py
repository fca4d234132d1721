"""The baseline of every comparison: an agent loop as one would write it in an hour, on bare Trio and httpx2.

It posts, parses, runs an async tool function, appends to a list, and posts again. It has no journal, no policy, no
schemas, no limits, no cancelled state and no retries: what Aar adds to this is what Aar costs.

    python -m bench.bare URL      imports what it needs, posts once, prints the answer
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

__all__ = ["Tools", "new_client", "read_stream", "run", "run_streamed"]

Tools = dict[str, Callable[..., Awaitable[str]]]


def new_client() -> httpx2.AsyncClient:
    """Without certificates, which a loopback server does not need: the fastest one there is."""
    return httpx2.AsyncClient(verify=False, trust_env=False, timeout=None)


async def run(client: httpx2.AsyncClient, url: str, messages: list[dict[str, Any]], tools: Tools) -> str:
    """One turn: steps until the model calls no tool. Extends `messages`."""
    while True:
        body = json.dumps({"model": "m", "messages": messages, "stream": False})
        response = await client.post(url, content=body, headers={"content-type": "application/json"})
        response.raise_for_status()
        message = response.json()["choices"][0]["message"]
        messages.append(message)
        calls = message.get("tool_calls") or []
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            output = await tools[call["function"]["name"]](**arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        if not calls:
            return str(message["content"])


async def run_streamed(client: httpx2.AsyncClient, url: str, messages: list[dict[str, Any]]) -> str:
    """One streamed answer, put together from its chunks. Extends `messages`."""
    said: list[str] = []
    body = json.dumps({"model": "m", "messages": messages, "stream": True})
    async with client.stream("POST", url, content=body, headers={"content-type": "application/json"}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                chunk = json.loads(line[6:])
                said.append(chunk["choices"][0]["delta"].get("content") or "")
    messages.append({"role": "assistant", "content": "".join(said)})
    return "".join(said)


async def read_stream(client: httpx2.AsyncClient, url: str, text_of: Callable[[dict[str, Any]], str]) -> str:
    """The text of a streamed answer in any format, of server-sent events or of lines."""
    said: list[str] = []
    async with client.stream("POST", url, content=b"{}", headers={"content-type": "application/json"}) as response:
        async for line in response.aiter_lines():
            data = line.removeprefix("data: ")
            if data[:1] == "{":
                said.append(text_of(json.loads(data)))
    return "".join(said)


if __name__ == "__main__":
    import sys

    import trio
    from pydantic import BaseModel

    class Answer(BaseModel):
        text: str

    async def _main() -> None:
        async with new_client() as client:
            text = await run(client, sys.argv[1], [{"role": "user", "content": "hi"}], {})
            print(Answer(text=text).model_dump_json())

    trio.run(_main)
