"""The two-way conversation itself, without a process."""

from __future__ import annotations

import json
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import example, given
from hypothesis import strategies as st

from aar.errors import ClientGone, SessionError
from aar.transports.acp.calls import Reply
from aar.transports.acp.frames import RpcError, decoded, encoded
from aar.transports.acp.rpc import Connection

PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=8)


class Wire:
    """Both ends of a connection, in memory."""

    def __init__(self) -> None:
        self._to_us, self._from_client = trio.open_memory_channel[bytes](1000)
        self.frames: list[dict] = []
        self.may_write = trio.Event()
        self.may_write.set()

    async def read(self) -> bytes:
        try:
            return await self._from_client.receive()
        except trio.EndOfChannel:
            return b""

    async def write(self, data: bytes) -> None:
        await self.may_write.wait()
        self.frames += [json.loads(line) for line in data.splitlines()]

    def says(self, *lines: bytes | dict) -> None:
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n"
            self._to_us.send_nowait(data)

    def leaves(self) -> None:
        self._to_us.close()


class Peer:
    """Notes what begins, in order. `hold` lets calls of that method wait."""

    def __init__(self) -> None:
        self.begun: list[object] = []
        self.hold = trio.Event()
        self.connection: Connection | None = None

    def lane_of(self, call):
        return call.params.get("sessionId")

    def answer_at_once(self, call):
        return Reply("at once") if call.method == "now" else None

    async def serve(self, call):
        self.begun.append(call.params.get("n"))
        match call.method:
            case "hold":
                await self.hold.wait()
            case "release":
                call.release()
                await self.hold.wait()
            case "fail":
                raise SessionError("it does not work")
            case "refuse":
                raise RpcError(-32602, "no")
            case "bug":
                raise ZeroDivisionError("oops")
            case "ask":
                return Reply(await self.connection.request("question", {}))
        return Reply(call.params.get("n"), ({"jsonrpc": "2.0", "method": "after", "params": {}},))

    async def leave(self):
        self.hold.set()


async def talk(wire: Wire, peer: Peer | None = None) -> list[dict]:
    """Everything that is answered to what has been said."""
    peer = peer or Peer()
    peer.connection = Connection(wire.read, wire)
    wire.leaves()
    await peer.connection.run(peer)
    return wire.frames


@given(PIECES)
@example([b'{"jsonrpc":"2.0","id":[[[', b"\n", b"\x00\xff\n"])
def test_whatever_comes_reading_goes_on_to_the_end(in_virtual_time, pieces):
    async def main() -> None:
        wire = Wire()
        wire.says(*pieces, b"\n", {"id": "last", "method": "now"})
        frames = await talk(wire)
        assert frames[-1] == {"jsonrpc": "2.0", "id": "last", "result": "at once"}
        assert all(frame["error"]["code"] in (-32700, -32600, -32602) for frame in frames[:-1])

    in_virtual_time(main)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), VALUES)


@given(st.lists(MESSAGES, max_size=6))
def test_every_object_is_answered_or_ignored(in_virtual_time, messages):
    async def main() -> None:
        wire = Wire()
        wire.says(*(json.dumps(message).encode() + b"\n" for message in messages))
        wire.says({"id": "last", "method": "now"})
        frames = await talk(wire)
        assert {"jsonrpc": "2.0", "id": "last", "result": "at once"} in frames

    in_virtual_time(main)


@given(VALUES)
def test_any_data_makes_one_line_that_can_be_read(value):
    line = encoded({"value": value})
    assert line.count(b"\n") == 1
    assert set(decoded(line.strip())) == {"value"}


def test_data_without_end_is_cut_at_some_depth():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert b"\xe2\x80\xa6" in encoded({"value": deep})


async def test_errors_of_every_kind_are_answers_and_the_rest_goes_on():
    wire = Wire()
    for number, method in enumerate(("fail", "refuse", "bug", "fine")):
        wire.says({"id": number, "method": method, "params": {"sessionId": "s", "n": number}})
    errors = {frame["id"]: frame.get("error") for frame in await talk(wire) if "id" in frame}
    assert errors[0] == {"code": -32603, "message": "it does not work", "data": {"details": "it does not work"}}
    assert errors[1] == {"code": -32602, "message": "no"}
    assert (errors[2]["code"], "ZeroDivisionError: oops" in errors[2]["message"]) == (-32603, True)
    assert errors[3] is None


async def test_what_belongs_to_a_session_begins_in_its_order_and_an_answer_has_its_followers_behind_it():
    wire, peer = Wire(), Peer()
    wire.says(*({"id": n, "method": "fine", "params": {"sessionId": "s", "n": n}} for n in range(50)))
    frames = await talk(wire, peer)
    assert peer.begun == list(range(50))
    assert [frame.get("id") for frame in frames] == [each for n in range(50) for each in (n, None)]


async def test_a_call_that_lets_go_of_its_lane_runs_beside_the_next(nursery):
    wire, peer = Wire(), Peer()
    peer.connection = Connection(wire.read, wire)
    nursery.start_soon(peer.connection.run, peer)
    wire.says({"id": 1, "method": "release", "params": {"sessionId": "s", "n": 1}})
    wire.says({"id": 2, "method": "hold", "params": {"sessionId": "s", "n": 2}})
    wire.says({"id": 3, "method": "fine", "params": {"sessionId": "s", "n": 3}})
    wire.says({"id": 4, "method": "fine", "params": {"sessionId": "other", "n": 4}})
    await trio.testing.wait_all_tasks_blocked()
    assert peer.begun == [1, 2, 4]
    peer.hold.set()
    await trio.testing.wait_all_tasks_blocked()
    assert peer.begun == [1, 2, 4, 3]
    wire.leaves()


async def test_a_request_can_be_taken_back(nursery):
    wire, peer = Wire(), Peer()
    peer.connection = Connection(wire.read, wire)
    nursery.start_soon(peer.connection.run, peer)
    wire.says({"id": "x", "method": "hold", "params": {}})
    await trio.testing.wait_all_tasks_blocked()
    wire.says({"method": "$/cancel_request", "params": {"requestId": "y"}})
    wire.says({"method": "$/cancel_request", "params": {"requestId": []}})
    wire.says({"method": "$/cancel_request", "params": {"requestId": "x"}})
    await trio.testing.wait_all_tasks_blocked()
    assert wire.frames == [{"jsonrpc": "2.0", "id": "x", "error": {"code": -32800, "message": "cancelled"}}]
    wire.leaves()


async def test_a_message_with_too_many_values_is_not_read_and_whoever_waits_is_told(nursery):
    much = b"[" + b"{}," * 60_000 + b"{}]"
    wire, peer = Wire(), Peer()
    wire.says(b'{"jsonrpc":"2.0","id":"big","method":"fine","params":{"n":' + much + b"}}\n")
    wire.says(b'{"method":"fine","params":{"n":"' + much + b'"},"jsonrpc":"2.0","id":"text"}\n')
    peer.connection = connection = Connection(wire.read, wire)
    nursery.start_soon(connection.run, peer)
    wire.says(b'{"jsonrpc":"2.0","id":1,"result":' + much + b"}\n")
    with pytest.raises(RpcError, match="A message may have 50,000 values at most"):
        await connection.request("question", {})
    assert [frame.get("method") or frame["id"] for frame in wire.frames] == ["question", "big", "text", "after"]
    assert wire.frames[1]["error"]["code"] == -32600
    assert wire.frames[2]["result"] == much.decode()
    wire.leaves()


async def test_answers_find_their_questions_and_nothing_else_does(nursery):
    wire, peer = Wire(), Peer()
    peer.connection = connection = Connection(wire.read, wire)
    nursery.start_soon(connection.run, peer)
    answers: list[object] = []

    async def ask() -> None:
        try:
            answers.append(await connection.request("question", {}))
        except RpcError as error:
            answers.append(error.code)

    for _ in range(3):
        nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    first, second, third = [frame["id"] for frame in wire.frames]
    wire.says({"id": True, "result": 0}, {"id": str(first), "result": 0}, {"id": 99, "result": 0})
    wire.says({"id": second, "error": {"code": -32800}}, {"id": second, "result": 0}, {"id": first, "result": {"a": 1}})
    wire.says({"id": third, "error": "nonsense"})
    await trio.testing.wait_all_tasks_blocked()
    assert answers == [-32800, {"a": 1}, -32603]
    wire.leaves()


async def test_a_question_that_is_left_is_taken_back(nursery):
    wire, peer = Wire(), Peer()
    peer.connection = connection = Connection(wire.read, wire)
    nursery.start_soon(connection.run, peer)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as asking:
            asking.start_soon(connection.request, "question", {})
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert [frame["method"] for frame in wire.frames] == ["question", "$/cancel_request"]
    assert wire.frames[1]["params"] == {"requestId": wire.frames[0]["id"]}
    wire.leaves()


async def test_what_must_be_done_is_told_also_to_a_client_that_is_behind_and_not_taken_back(nursery):
    wire, peer = Wire(), Peer()
    wire.may_write = trio.Event()
    peer.connection = connection = Connection(wire.read, wire)
    nursery.start_soon(connection.run, peer)
    for _ in range(3):
        nursery.start_soon(connection.notify, "news", {"text": "x" * 300_000})
    await trio.testing.wait_all_tasks_blocked()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as asking:
            asking.start_soon(connection.request, "wish", {})
            asking.start_soon(connection.insist, "demand", {})
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    wire.may_write.set()
    await trio.testing.wait_all_tasks_blocked()
    assert [frame["method"] for frame in wire.frames] == ["news", "news", "demand", "news"]
    wire.leaves()


@pytest.mark.parametrize("is_answered", [True, False])
async def test_what_a_client_brings_after_we_have_hung_up_is_not_left_with_it(autojump_clock, is_answered):
    wire, peer = Wire(), Peer()
    peer.connection = connection = Connection(wire.read, wire)
    came: list[object] = []

    async def ask() -> None:
        with pytest.raises(ClientGone):
            await connection.request("terminal/create", {}, late=late)

    def late(result: object) -> None:
        came.append(result)
        nursery.start_soon(give_back)

    async def give_back() -> None:
        with pytest.raises(ClientGone):
            await connection.insist("terminal/release", {})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run, peer)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        connection.hang_up()
        await trio.testing.wait_all_tasks_blocked()
        wire.says({"id": "new", "method": "now"})
        if is_answered:
            wire.says({"id": wire.frames[0]["id"], "result": {"terminalId": "t1"}})
    told = ["terminal/create", "$/cancel_request"]
    assert came == [{"terminalId": "t1"}] * is_answered
    assert [frame["method"] for frame in wire.frames] == [*told, *["terminal/release"] * is_answered]


async def test_a_result_that_comes_too_late_is_handed_to_whoever_listens_for_it(nursery):
    wire, peer = Wire(), Peer()
    peer.connection = connection = Connection(wire.read, wire)
    nursery.start_soon(connection.run, peer)
    late: list[object] = []
    for _ in range(3):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as asking:
                asking.start_soon(partial(connection.request, "question", {}, late=late.append))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
    first, second, third = [frame["id"] for frame in wire.frames if frame["method"] == "question"]
    wire.says({"id": second, "result": "2"}, {"id": first, "error": {"code": -32800, "message": "gone"}})
    wire.says({"id": second, "result": "again"}, {"id": third, "result": "3"})
    await trio.testing.wait_all_tasks_blocked()
    assert late == ["2", "3"]
    wire.leaves()


@pytest.mark.parametrize("comes", ["before", "after"])
async def test_a_result_that_meets_the_leaving_of_whoever_asked_is_not_lost(nursery, comes):
    wire, peer = Wire(), Peer()
    peer.connection = connection = Connection(wire.read, wire)
    nursery.start_soon(connection.run, peer)
    late: list[object] = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as asking:
            asking.start_soon(partial(connection.request, "question", {}, late=late.append))
            await trio.testing.wait_all_tasks_blocked()
            if comes == "after":
                scope.cancel()
            wire.says({"id": wire.frames[0]["id"], "result": "here"})
            scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert late == ["here"]
    wire.leaves()


async def test_a_call_that_waits_in_its_lane_can_be_taken_back_at_once(nursery):
    wire, peer = Wire(), Peer()
    peer.connection = Connection(wire.read, wire)
    nursery.start_soon(peer.connection.run, peer)
    for number, method in ((1, "hold"), (2, "fine"), (3, "fine")):
        wire.says({"id": number, "method": method, "params": {"sessionId": "s", "n": number}})
    wire.says({"method": "$/cancel_request", "params": {"requestId": 2}})
    await trio.testing.wait_all_tasks_blocked()
    assert wire.frames == [{"jsonrpc": "2.0", "id": 2, "error": {"code": -32800, "message": "cancelled"}}]
    peer.hold.set()
    await trio.testing.wait_all_tasks_blocked()
    assert peer.begun == [1, 3]
    wire.leaves()


async def test_a_notification_is_never_answered_whatever_it_says():
    wire = Wire()
    wire.says({"method": "fine", "params": [1]}, {"method": "$/progress", "params": 7}, {"method": "fail"})
    wire.says({"id": 5, "method": "$/cancel_request", "params": {}})
    assert [frame for frame in await talk(wire) if frame.get("method") != "after"] == [
        {"jsonrpc": "2.0", "id": 5, "result": None}
    ]


async def test_a_client_that_leaves_fails_the_questions_that_are_open(nursery):
    wire, peer = Wire(), Peer()
    wire.says({"id": 1, "method": "ask", "params": {}})
    frames = await talk(wire, peer)
    assert frames[-1]["error"]["message"] == "the client has left"
    with pytest.raises(ClientGone):
        await peer.connection.request("question", {})


async def test_reading_goes_on_while_nothing_can_be_written(nursery):
    wire, peer = Wire(), Peer()
    wire.may_write = trio.Event()
    peer.connection = connection = Connection(wire.read, wire)
    nursery.start_soon(connection.run, peer)

    async def tell() -> None:
        for _ in range(100):
            await connection.notify("news", {"text": "x" * 50_000})

    nursery.start_soon(tell)
    await trio.testing.wait_all_tasks_blocked()
    wire.says(*({"id": n, "method": "fine", "params": {"n": n}} for n in range(5)))
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(peer.begun) == [0, 1, 2, 3, 4]
    wire.may_write.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sum(frame.get("method") == "news" for frame in wire.frames) == 100
    wire.leaves()


async def test_a_client_that_asks_and_never_reads_is_left(monkeypatch):
    monkeypatch.setattr("aar.transports.stdio.outbox.MOST", 10_000)
    wire = Wire()
    wire.may_write = trio.Event()
    wire.says(*[b"nonsense\n"] * 500)
    with pytest.RaisesGroup(ClientGone, flatten_subgroups=True, allow_unwrapped=True):
        await talk(wire)
