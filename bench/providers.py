"""What each adapter costs: the time to its first request, a streamed chunk, a step in a long session.

The import of a vendor's package has a row of its own: it comes once, in a thread, with the first request.
"""

from __future__ import annotations

import subprocess
from functools import partial
from typing import Any

import trio

from aar.messages.settings import AgentConfig, ProviderConfig
from aar.runtime import open_runtime
from bench import bare
from bench.server import Server, open_server
from bench.startup import PYTHON, installed, until_request
from bench.steps import LONG, aar_steps, bare_steps
from bench.table import Row, cpu, is_quick, median, print_rows, rounds
from bench.vendors import FORMATS, Format

CHUNKS = 5_000
STEPS = 20
PACKAGES = {"anthropic": "anthropic", "openai": "openai", "gemini": "google.genai"}
MODELS = {"gemini": "gemini-2.5-flash"}


def settings(name: str, url: str, *, streaming: bool) -> AgentConfig:
    """For a session that asks the bench server through one adapter, no limits in the way."""
    adapter, _, api = name.partition(", ")
    extra: dict[str, Any] = {"num_ctx": None} if adapter == "ollama" else {"api": api} if api else {}
    place: dict[str, Any] = {"base_url": url}
    if adapter == "gemini":
        place, extra = {}, {"sdk_base_url": url}
    provider = ProviderConfig(name=adapter, model=MODELS.get(adapter, "m"), api_key="key", extra=extra, **place)
    return AgentConfig(provider=provider, max_steps=100_000, streaming=streaming, context_window=0)


# --- the first request ------------------------------------------------------------------------


def _first_requests(server: Server, repeats: int) -> list[Row]:
    """Whole processes: `aar run` with each adapter, against the bare script."""
    with installed() as environment:
        root = server.url("/first")
        environment |= {f"{name.upper()}_API_KEY": "key" for name in PACKAGES} | {"GOOGLE_GEMINI_BASE_URL": root}
        commands = {"": [*PYTHON, "-m", "bench.bare", root]}
        for name in ("generic", "ollama", *PACKAGES):
            place = [] if name == "gemini" else ["--base-url", root]
            model = MODELS.get(name, "m")
            commands[name] = [*PYTHON, "-m", "aar", "run", "-p", name, "-m", model, *place, "say hello"]
        for command in commands.values():
            until_request(server, command, environment)  # compiles
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                found[name].append(until_request(server, command, environment)[0])
        times = {name: median(some) for name, some in found.items()}
        plain = times.pop("")
        rows = [
            Row(f"{name}, time to the first request", f"{ours:.0f} ms", f"{plain:.0f} ms", ours / plain, "x")
            for name, ours in times.items()
        ]
        return rows + [_import_of(package, environment, repeats) for package in PACKAGES.values()]


def _import_of(package: str, environment: dict[str, str], repeats: int) -> Row:
    """What the first request of a process waits for beside all that Aar itself needs."""
    code = (
        "import json, ssl, time, trio, httpx2, pydantic; start = time.monotonic();"
        f"import {package}; print((time.monotonic() - start) * 1000)"
    )

    def once() -> float:
        done = subprocess.run([*PYTHON, "-c", code], env=environment, stdout=subprocess.PIPE, check=True)
        return float(done.stdout)

    once()
    [took] = rounds(repeats, once, pick=median)
    return Row(f"import of {package}, time", f"{took:.0f} ms", "nothing", took, "ms")


# --- a streamed chunk -------------------------------------------------------------------------


def _streamed(server: Server, name: str) -> float:
    """Microseconds of CPU per chunk of one turn."""

    async def main() -> float:
        config = settings(name, server.url(f"/chunks/{CHUNKS}"), streaming=True)
        async with open_runtime(config) as runtime:
            session = await runtime.sessions.open("/")
            await session.run("load what is loaded once")
            start = cpu()
            ended = await session.run("go")
            spent = cpu() - start
            if ended.stop != "end_turn":
                raise RuntimeError(f"the turn of {name} ended as {ended.stop}")
            return spent * 1000 / CHUNKS

    return trio.run(main)


def _bare_streamed(server: Server, form: Format) -> float:
    async def main() -> float:
        path = "/x:streamGenerateContent" if form.path == "enerateContent" else form.path
        async with bare.new_client() as client:
            start = cpu()
            text = await bare.read_stream(client, server.url(f"/chunks/{CHUNKS}{path}"), form.text_of)
            spent = cpu() - start
            if not text.startswith(" word0 word1"):
                raise RuntimeError("the bare loop has read something else")
            return spent * 1000 / CHUNKS

    return trio.run(main)


def _chunks(server: Server, repeats: int) -> list[Row]:
    rows = []
    for name, form in FORMATS.items():
        ours, theirs = rounds(repeats, partial(_streamed, server, name), partial(_bare_streamed, server, form))
        rows.append(Row(f"{name}, streamed chunk, CPU", f"{ours:.0f} µs", f"{theirs:.0f} µs", ours / theirs, "x", 2.0))
    return rows


# --- a step in a long session -----------------------------------------------------------------


def _long_sessions(server: Server, repeats: int) -> list[Row]:
    url = server.url(f"/turns/{STEPS - 1}")
    works = [
        partial(aar_steps, settings(name, url, streaming=False), STEPS, history=LONG, warm=True) for name in FORMATS
    ]
    *ours, theirs = rounds(repeats, *works, partial(bare_steps, url, STEPS, history=LONG))
    return [
        Row(f"{name}, step with {LONG:,} messages", f"{spent:.2f} ms", f"{theirs:.2f} ms", spent / theirs, "x", 2.0)
        for name, spent in zip(FORMATS, ours, strict=True)
    ]


def main() -> None:
    repeats = 2 if is_quick() else 5
    with open_server() as server:
        print_rows(_first_requests(server, 1 if is_quick() else 5))
        print_rows(_chunks(server, repeats))
        print_rows(_long_sessions(server, repeats))


if __name__ == "__main__":
    main()
