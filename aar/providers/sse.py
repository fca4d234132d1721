"""Server-sent events and lines of JSON, from bytes as the network cuts them.

Both readers give, for every read, the list of what that read completed. An empty list is a sign of life: bytes came,
among them perhaps comments, and nothing is complete yet.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable

from aar.errors import BadProviderReply

__all__ = ["LineSplitter", "SseParser", "json_lines", "sse_events"]

LINE_LIMIT = 16 * 1024 * 1024  # bytes; a longer line or event is no answer of a model


class LineSplitter:
    """Cuts bytes into lines without their ends. Raises `BadProviderReply` for a line over the limit."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes."""
        lines = chunk.split(b"\n")
        last = lines.pop()
        if lines and self._rest:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest.clear()
            self._size = 0
        if last:
            self._rest.append(last)
            self._size += len(last)
            if self._size > self._limit:
                raise BadProviderReply(f"The answer has a line of more than {self._limit:,} bytes")
        return lines

    def finish(self) -> list[bytes]:
        """The last line, when it has no end."""
        rest = b"".join(self._rest)
        self._rest.clear()
        self._size = 0
        return [rest] if rest else []


class SseParser:
    """The `data` of server-sent events. Comments, names and ids are skipped; several data lines join to one text."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._lines = LineSplitter(limit)
        self._limit = limit
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that `chunk` completes."""
        return self._events(self._lines.feed(chunk))

    def finish(self) -> list[str]:
        """The data of an event that the end of the stream completes."""
        return self._events([*self._lines.finish(), b""])

    def _events(self, lines: list[bytes]) -> list[str]:
        events: list[str] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._add(line[6:] if line[5:6] == b" " else line[5:])
            elif line in (b"", b"\r"):
                if self._data:
                    # Characters are whole here: a line is only read once its end has come.
                    events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                    self._data.clear()
                    self._size = 0
            elif line.startswith(b"error:"):
                # Not in the standard; llama.cpp once reported errors in the middle of a stream like this.
                self._add(b'{"error":%b}' % line[6:].strip())
        return events

    def _add(self, data: bytes) -> None:
        self._data.append(data[:-1] if data.endswith(b"\r") else data)
        self._size += len(data)
        if self._size > self._limit:
            raise BadProviderReply(f"The answer has an event of more than {self._limit:,} bytes")


async def sse_events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[list[str], None]:
    """For each read, the data of the server-sent events that it completed."""
    parser = SseParser()
    async for chunk in chunks:
        yield parser.feed(chunk)
    if last := parser.finish():
        yield last


async def json_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[list[str], None]:
    """For each read, the non-empty lines that it completed."""
    splitter = LineSplitter()
    async for chunk in chunks:
        yield _texts(splitter.feed(chunk))
    if last := _texts(splitter.finish()):
        yield last


def _texts(lines: list[bytes]) -> list[str]:
    return [text for line in lines if (text := line.decode("utf-8", "replace").strip())]
