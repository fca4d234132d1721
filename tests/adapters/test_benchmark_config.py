"""The settings that a benchmark harness gets, and what it reads from the output."""

from __future__ import annotations

import json
import sys

import pytest

from aar.config.unknown import unknown_settings
from aar.messages.settings import AgentConfig
from adapters.benchmark_config import KEYS, Totals, benchmark_config, key_variables, main, totals_of


def written(capsys, monkeypatch, *flags: str) -> dict[str, object]:
    monkeypatch.setattr(sys, "argv", ["benchmark_config.py", *flags])
    main()
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.covers("PKG-05")
def test_a_config_is_written_with_approvals_off_and_fifty_steps(capsys, monkeypatch) -> None:
    raw = written(capsys, monkeypatch, "--model", "anthropic/claude-sonnet-4-6", "--logs", "/somewhere")
    config = AgentConfig.model_validate(raw)
    assert list(unknown_settings(raw, "it")) == []
    assert (config.resolve_provider().name, config.resolve_provider().model) == ("anthropic", "claude-sonnet-4-6")
    assert not config.safety.require_approval_for_writes
    assert not config.safety.require_approval_for_execute
    assert (config.safety.allowed_paths, config.max_steps) == ([], 50)
    assert (config.session_dir, config.log_file) == ("/somewhere/sessions", "/somewhere/aar.log")


def test_limits_are_taken_over(capsys, monkeypatch) -> None:
    flags = ["--max-steps", "7", "--timeout", "60", "--cost-limit", "1.5"]
    config = AgentConfig.model_validate(written(capsys, monkeypatch, "--model", "openai/gpt-5", *flags))
    assert (config.max_steps, config.timeout, config.cost_limit) == (7, 60.0, 1.5)


@pytest.mark.parametrize(
    ("model", "base_url", "name", "rest"),
    [
        ("google/gemini-3-pro", "", "gemini", "gemini-3-pro"),
        ("ollama/qwen3:8b", "", "ollama", "qwen3:8b"),
        ("Qwen/Qwen3-14B", "http://localhost:8000/v1", "generic", "Qwen/Qwen3-14B"),
        ("openai/gpt-5", "http://localhost:8000/v1", "openai", "gpt-5"),
    ],
)
def test_the_provider_stands_before_the_model(model, base_url, name, rest) -> None:
    provider = AgentConfig.model_validate(benchmark_config(model, base_url=base_url)).resolve_provider()
    assert (provider.name, provider.model, provider.base_url or "") == (name, rest, base_url)


@pytest.mark.parametrize("model", ["", "claude", "nobody/some"])
def test_a_model_without_a_provider_is_refused(monkeypatch, model) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark_config.py", "--model", model])
    with pytest.raises(SystemExit, match="is no model: say provider/name with one of anthropic, openai"):
        main()


def test_keys_stay_in_the_environment() -> None:
    from aar.config.merge import API_KEY_VARIABLES

    assert KEYS == API_KEY_VARIABLES
    assert key_variables(benchmark_config("gemini/x")) == ["GEMINI_API_KEY"]
    assert key_variables(benchmark_config("ollama/x")) == []


def test_what_a_run_took_is_read_from_its_output() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 100, "cache_write_tokens": 7}
    output = json.dumps({"usage": usage, "cost": 0.25, "stop": "max_steps"})
    assert totals_of(output, benchmark_config("openai/x")) == Totals(10, 100, 5, 0.25, "max_steps")
    assert totals_of(output, benchmark_config("anthropic/x")) == Totals(117, 100, 5, 0.25, "max_steps")


@pytest.mark.parametrize("output", ["", "{", "[]", '{"usage": {}}', '{"usage": null, "cost": 1, "stop": ""}'])
def test_what_is_no_result_tells_nothing(output) -> None:
    assert totals_of(output, benchmark_config("openai/x")) is None
