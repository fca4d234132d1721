"""A small MCP server over standard streams, without any package: quick to start, and able to misbehave.

Its first argument is JSON: `{"tools": [...], "notes": FILE, ...}`. It notes every message that it gets in FILE.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

OPTIONS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
EVERYTHING = ["ask", "big", "crash", "deaf", "echo", "fail", "folder", "grandchild", "hang", "nonsense", "pid"]
EVERYTHING += ["ping_back", "roots", "swamp", "variable"]
TOOLS = list(OPTIONS.get("tools", EVERYTHING))
LOCK = threading.Lock()


def note(text: str) -> None:
    if "notes" in OPTIONS:
        with open(OPTIONS["notes"], "a", encoding="utf-8") as file:
            file.write(text + "\n")


def send(message: dict) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(request: dict, result: dict) -> None:
    send({"id": request["id"], "result": result})


def refuse(request: dict, text: str, code: int = -32601) -> None:
    send({"id": request["id"], "error": {"code": code, "message": text}})


def described(name: str) -> dict:
    tool = {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object", "properties": {}}}
    if name.startswith("read"):
        tool["annotations"] = {"readOnlyHint": True}
    return tool


def page_of_tools(request: dict) -> dict:
    if "listing" in OPTIONS:  # as it is, for ever when it has a cursor
        return OPTIONS["listing"]
    size = OPTIONS.get("page", 100)
    start = int(request.get("params", {}).get("cursor", 0))
    page = {"tools": [described(name) for name in TOOLS[start : start + size]]}
    if start + size < len(TOOLS):
        page["nextCursor"] = str(start + size)
    return page


def text(said: str, **more: object) -> dict:
    return {"content": [{"type": "text", "text": said}], **more}


def call(request: dict) -> None:
    name, arguments = request["params"]["name"], request["params"].get("arguments", {})
    token = request["params"].get("_meta", {}).get("progressToken")
    match name:
        case "crash":
            print("I am about to fall over", file=sys.stderr, flush=True)
            os._exit(3)
        case "hang":
            for step in (1, 2):
                params = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
                send({"method": "notifications/progress", "params": params})
        case "deaf":  # from here on it reads nothing
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
            while True:
                time.sleep(1000)
        case "fail":
            answer(request, text("that did not work", isError=True))
        case "pid":
            answer(request, text(str(os.getpid())))
        case "variable":
            answer(request, text(os.environ.get(arguments["name"], "(unset)")))
        case "folder":
            answer(request, text(os.getcwd()))
        case "change":
            TOOLS[:] = arguments["tools"]
            answer(request, text("changed"))
            send({"method": "notifications/tools/list_changed"})
        case "ping_back":
            ROOTS.append(request)
            send({"id": "ping-1", "method": "ping"})
        case "swamp":
            for number in range(100_000):
                send({"id": number, "method": "roots/list"})
        case "roots":
            ROOTS.append(request)
            send({"id": "roots-1", "method": "roots/list"})
        case "ask":
            ROOTS.append(request)
            params = {"message": "What is your name?", "requestedSchema": {"type": "object", "properties": {}}}
            send({"id": "elicit-1", "method": "elicitation/create", "params": params})
        case "raw":  # this result, whatever it is
            answer(request, arguments["result"])
        case "half_a_line":
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result"')
            sys.stdout.flush()
        case "flood":  # notifications from now on, for ever, of a method with parameters
            threading.Thread(target=flood, args=(arguments["method"], arguments.get("params", {})), daemon=True).start()
            answer(request, text("it flows"))
        case "pour":
            threading.Thread(target=pour, daemon=True).start()
            answer(request, text("it pours"))
        case "sample":
            ROOTS.append(request)
            params = {"messages": [], "maxTokens": 10}
            send({"id": "sample-1", "method": "sampling/createMessage", "params": params})
        case "late":  # answers after it was cancelled
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
            LATE.append(request)
        case "big":
            said = json.dumps(text(arguments.get("of", "x") * arguments["size"]))
            one, two = f'"id": {request["id"]}', f'"result": {said}'
            order = f"{two}, {one}" if arguments.get("id_last") else f"{one}, {two}"
            with LOCK:
                sys.stdout.write(f'{{"jsonrpc": "2.0", {order}}}\n')
                sys.stdout.flush()
        case "deep":
            levels = arguments["levels"]
            nested = '{"a":' * levels + "1" + "}" * levels
            with LOCK:
                result = f'{{"content": [], "structuredContent": {nested}}}'
                sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {result}}}\n')
                sys.stdout.flush()
        case "values":
            answer(request, text("", structuredContent={"a": [0] * arguments["count"]}))
        case "nonsense":
            send({"id": request["id"], "result": ["no", "object"]})
        case "grandchild":
            child = subprocess.Popen(["setsid", "sleep", "1000"])
            answer(request, text(str(child.pid)))
        case _:
            answer(request, text(json.dumps(arguments, sort_keys=True)))


def pour() -> None:
    """Small notifications, as fast as it goes, for ever."""
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    while True:
        with LOCK:
            sys.stdout.write(f"{note}\n" * 500)
            sys.stdout.flush()
        time.sleep(0.0005)  # or the others in this program would never get the lock


def flood(method: str, params: dict) -> None:
    while True:
        send({"method": method, "params": params})


ROOTS: list[dict] = []
LATE: list[dict] = []


def take(message: dict) -> None:
    match message.get("method"):
        case None if ROOTS:
            answer(ROOTS.pop(), text(json.dumps(message.get("result", message.get("error")))))
        case "initialize":
            if OPTIONS.get("hangs"):
                return
            answer(
                message,
                {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "plain", "version": "1"},
                },
            )
        case "notifications/cancelled" if LATE:
            answer(LATE.pop(), text("too late"))
        case "ping":
            answer(message, {})
        case "tools/list":
            answer(message, page_of_tools(message))
        case "tools/call":
            call(message)
        case "server/discover" if OPTIONS.get("falls_over"):
            os._exit(4)
        case "server/discover" if OPTIONS.get("hangs"):
            pass
        case _ if "id" in message:
            refuse(message, "no such method")


def main() -> None:
    if OPTIONS.get("ignores_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(f"started {os.getpid()}")
    if "says" in OPTIONS:
        print(OPTIONS["says"], file=sys.stderr, flush=True)
    if "floods" in OPTIONS:
        for _ in range(OPTIONS["floods"]):
            sys.stderr.write("e" * 99 + "\n")
    for line in OPTIONS.get("garbage", []):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    if OPTIONS.get("exits"):
        sys.exit(OPTIONS["exits"])
    for line in sys.stdin:
        note(line.strip())
        take(json.loads(line))
    note("end of input")
    while OPTIONS.get("ignores_eof"):
        time.sleep(1000)


main()
