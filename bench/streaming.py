"""What a streamed chunk costs: five thousand of them, as fast as a server can send them."""

from __future__ import annotations

import trio

from aar.runtime import open_runtime
from bench import bare
from bench.server import Server, open_server
from bench.steps import settings
from bench.table import Row, cpu, is_quick, print_rows, rounds

CHUNKS = 5_000


def _aar(server: Server, *, is_watched: bool = False) -> float:
    """Microseconds of CPU per chunk of one turn, perhaps with a reader that sees each hint."""

    async def main() -> float:
        config = settings(server.url(f"/chunks/{CHUNKS}")).model_copy(update={"streaming": True})
        async with open_runtime(config) as runtime, trio.open_nursery() as nursery:
            session = await runtime.sessions.open("/")

            async def watch() -> None:
                with session.follow() as records:
                    async for _ in records:
                        pass

            if is_watched:
                nursery.start_soon(watch)
            start = cpu()
            ended = await session.run("go")
            spent = cpu() - start
            if ended.stop != "end_turn":
                raise RuntimeError(f"the turn ended as {ended.stop}")
            nursery.cancel_scope.cancel()
            return spent * 1000 / CHUNKS

    return trio.run(main)


def _bare(server: Server) -> float:
    async def main() -> float:
        async with bare.new_client() as client:
            start = cpu()
            await bare.run_streamed(client, server.url(f"/chunks/{CHUNKS}"), [{"role": "user", "content": "go"}])
            return (cpu() - start) * 1000 / CHUNKS

    return trio.run(main)


def main() -> None:
    with open_server() as server:
        alone, watched, plain = rounds(
            3 if is_quick() else 7,
            lambda: _aar(server),
            lambda: _aar(server, is_watched=True),
            lambda: _bare(server),
        )
    print_rows(
        [
            Row("streamed chunk, CPU", f"{alone:.0f} µs", f"{plain:.0f} µs", alone / plain, "x", 2.0),
            Row(
                "streamed chunk with a live reader, CPU",
                f"{watched:.0f} µs",
                f"{plain:.0f} µs",
                watched / plain,
                "x",
                2.0,
            ),
        ]
    )


if __name__ == "__main__":
    main()
