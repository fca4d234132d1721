"""The settings with which Aar works alone in the container of a benchmark, and what is read from its output.

    python adapters/benchmark_config.py --model anthropic/claude-sonnet-4-6 > config.json

Needs nothing but Python, so that a harness can import it without having Aar installed.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, NamedTuple

__all__ = ["KEYS", "Totals", "benchmark_config", "key_variables", "totals_of"]

MAX_STEPS = 50
KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "generic": "GENERIC_API_KEY",
}
"""The variable with the key of each provider. Keys stay in the environment: the settings are kept with the results."""

_OTHER_NAMES = {"google": "gemini"}
_KEYLESS = ("ollama",)


class Totals(NamedTuple):
    """What a run took. `input_tokens` includes `cached_tokens`. `cost` is in US dollars."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    stop: str


def benchmark_config(
    model: str,
    *,
    base_url: str = "",
    logs: str = "/logs/agent",
    max_steps: int = MAX_STEPS,
    timeout: float = 0.0,
    cost_limit: float = 0.0,
) -> dict[str, Any]:
    """A config file as an object. `model` is `provider/name`; with `base_url` it is a server of any other kind.

    Nobody is asked anything and every path is open: the container is the wall. Sessions and the log stand in `logs`.
    Raises `ValueError` for a model without a provider, or with one that Aar does not have.
    """
    provider, name = _provider(model, base_url)
    return {
        "provider": {"name": provider, "model": name, **({"base_url": base_url} if base_url else {})},
        "tools": {"bash_default_timeout": 300, "command_timeout": 360},
        "safety": {
            "require_approval_for_writes": False,
            "require_approval_for_execute": False,
            "allowed_paths": [],
        },
        "max_steps": max_steps,
        "timeout": timeout,
        "cost_limit": cost_limit,
        "streaming": True,
        "session_dir": f"{logs}/sessions",
        "log_level": "INFO",
        "log_file": f"{logs}/aar.log",
    }


def _provider(model: str, base_url: str) -> tuple[str, str]:
    prefix, _, name = model.partition("/")
    prefix = _OTHER_NAMES.get(prefix, prefix)
    if name and (prefix in KEYS or prefix in _KEYLESS):
        return prefix, name
    if base_url and model:
        return "generic", model
    known = ", ".join([*KEYS, *_KEYLESS])
    raise ValueError(f"{model!r} is no model: say provider/name with one of {known}, or give a base_url")


def key_variables(config: dict[str, Any]) -> list[str]:
    """Names of the variables that the run needs from the environment, if they are there."""
    name = KEYS.get(config["provider"]["name"])
    return [name] if name else []


def totals_of(output: str, config: dict[str, Any]) -> Totals | None:
    """What `aar run --output json` has written; `None` for what is no such document, as after a kill."""
    try:
        document = json.loads(output)
        told = document["usage"]
        usage = {key: int(told.get(f"{key}_tokens", 0)) for key in ("input", "output", "cache_read", "cache_write")}
        if config["provider"]["name"] == "anthropic":  # which counts what it found in its cache apart
            usage["input"] += usage["cache_read"] + usage["cache_write"]
        cost = float(document["cost"])
        return Totals(usage["input"], usage["cache_read"], usage["output"], cost, str(document["stop"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a config with which Aar runs alone in a container")
    parser.add_argument("--model", required=True, help="provider/name, such as anthropic/claude-sonnet-4-6")
    parser.add_argument("--base-url", default="", help="of a server that speaks OpenAI's format")
    parser.add_argument("--logs", default="/logs/agent", help="folder for sessions and the log; default: /logs/agent")
    parser.add_argument("--max-steps", type=int, default=MAX_STEPS, help=f"default: {MAX_STEPS}")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds for the task; default: no limit")
    parser.add_argument("--cost-limit", type=float, default=0.0, help="US dollars; default: no limit")
    flags = vars(parser.parse_args())
    try:
        config = benchmark_config(flags.pop("model"), **flags)
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
