"""The program of the child process: llama.cpp's HTTP server on a free port of 127.0.0.1.

It is run as a file and imports nothing of Aar. Standard input brings its order, one line of JSON, and then stays
open for as long as the server is wanted. Standard output answers with one line of JSON:
`{"address": ..., "own_template": ...}` once the model is loaded and answers, or `{"error": ...}`.

The key comes in the order because the arguments and the environment of a process can be read by its neighbours.
"""

from __future__ import annotations

import fcntl
import http.client
import importlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

__all__ = ["main"]

WARNINGS = 2
CACHE_MEBIBYTES = 512
PING_SECONDS = 15
END_OF_MESSAGE = "<|im_end|>"


def main() -> None:
    """Serve until standard input ends."""
    order = json.loads(sys.stdin.buffer.readline())
    _end_with_stdin()
    try:
        server, own_template = _open(order)
    except Exception as error:  # the wall of this process: llama.cpp raises what it likes
        _say({"error": str(error) or type(error).__name__})
        os._exit(1)
    _say({"address": server.listening_address, "own_template": own_template})
    sys.stdin.buffer.read()
    os._exit(0)  # not through llama.cpp's destructors: a busy one would wait for its answer


def _end_with_stdin() -> None:
    """Let the kernel end this process when the other end of standard input is closed.

    llama.cpp holds the interpreter's lock while it loads a model, minutes for a large one, so no thread of ours
    could notice. An unhandled SIGIO ends a process without anybody's help.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if poll.poll(0):  # it ended before the signal was armed
        os._exit(0)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _open(order: dict[str, Any]) -> tuple[Any, bool]:
    """A server that answers, and whether it uses the template that is stored in the model."""
    if order["template"]:
        return _start(order, order["template"]), False
    server = _start(order, "")
    if _knows_tools(server.listening_address, order["api_key"]):
        return server, True
    # With such a template llama.cpp would drop the tools of a request without a word.
    del server
    return _start(order, order["fallback_template"]), False


def _start(order: dict[str, Any], template: str) -> Any:
    xllamacpp = importlib.import_module("xllamacpp")
    server = xllamacpp.Server(_parameters(xllamacpp.CommonParams(), order, template))
    while _get(server.listening_address, "/health", order["api_key"]).get("status") != "ok":
        time.sleep(0.05)
    return server


def _parameters(chosen: Any, order: dict[str, Any], template: str) -> Any:
    chosen.model.path = order["model"]
    chosen.model_alias = {order["alias"]}  # what answers name as their model, instead of a path
    chosen.n_ctx = order["n_ctx"]
    chosen.n_parallel = 1
    chosen.cache_ram_mib = CACHE_MEBIBYTES
    chosen.cpuparams.n_threads = order["threads"]
    chosen.cpuparams_batch.n_threads = order["threads"]
    chosen.n_gpu_layers = order["gpu_layers"]
    chosen.hostnames = ["127.0.0.1"]
    chosen.port = 0
    chosen.api_keys = [order["api_key"]]
    chosen.cors_origins = "http://127.0.0.1"  # no page of the web may ask
    chosen.ui = False
    chosen.endpoint_slots = False
    chosen.sse_ping_interval = PING_SECONDS
    chosen.verbosity = WARNINGS
    if template:
        chosen.chat_template = template
        chosen.antiprompt = [END_OF_MESSAGE]  # plain text in a vocabulary that does not have it
    return chosen


def _knows_tools(address: str, api_key: str) -> bool:
    can = _get(address, "/props", api_key).get("chat_template_caps") or {}
    return bool(can.get("supports_tools"))


def _get(address: str, path: str, api_key: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {api_key}"})
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}


if __name__ == "__main__":
    main()
