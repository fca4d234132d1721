"""What a local provider is built from, and the worked examples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from aar.errors import InvalidSetting, MissingPackage, ProviderError
from aar.messages.settings import ProviderConfig, ToolConfig
from aar.messages.tools import ToolSchema
from aar.providers import open_provider
from aar.providers.local import DEFAULT_FILE, model_file
from aar.providers.local.examples import BRIEF_TEMPLATE, EXAMPLES, required_only
from aar.tools import builtin_tools
from tests.providers.local.serving import (
    local,
)


def test_without_the_library_the_command_that_installs_it_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.setenv("AAR_HOME", str(home))
    with pytest.raises(MissingPackage) as caught:
        open_provider(ProviderConfig(name="local"))
    assert str(caught.value) == "The provider 'local' needs the package 'xllamacpp': pip install 'aar-agent[local]'"


@pytest.mark.parametrize("model", ["", "claude-sonnet-4-6", "SmolLM2-135M-Instruct", DEFAULT_FILE])
def test_a_model_that_nobody_chose_is_the_small_one(home: Path, model: str) -> None:
    assert local(home, model).file == home / "models" / DEFAULT_FILE
    assert local(home, model).config.label == "local/SmolLM2-135M-Instruct"


def test_a_model_is_a_path_or_the_name_of_a_file_among_the_models(home: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF")
    models = home / "models"
    assert [model_file(name, models) for name in (str(mine), "other", "other.gguf")] == [
        mine,
        models / "other.gguf",
        models / "other.gguf",
    ]


def test_a_missing_model_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="SmolLM2-135M-Instruct is not installed: run 'aar local install'"):
        local(tmp_path)
    with pytest.raises(ProviderError, match=r"There is no model file big\.gguf: --provider local takes"):
        local(tmp_path, "big.gguf")


def test_a_file_that_is_no_model_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"<html>")
    with pytest.raises(ProviderError, match=r"model\.gguf is no GGUF file"):
        local(tmp_path, str(tmp_path / "model.gguf"))


@pytest.mark.parametrize(
    "extra", [{"threads": 0}, {"n_ctx": "big"}, {"gpu_layers": True}, {"start_timeout": -1}, {"threads": float("nan")}]
)
def test_settings_that_make_no_sense_are_refused(home: Path, extra: dict[str, Any]) -> None:
    (name,) = extra
    with pytest.raises(InvalidSetting, match=rf"provider\.extra\.{name} must be a number"):
        local(home, **extra)


def test_the_examples_show_every_built_in_tool_with_its_own_argument_names() -> None:
    schemas = {spec.name: spec.input_schema for spec in builtin_tools(ToolConfig())}
    assert {example.tool for example in EXAMPLES} == set(schemas)
    for example in EXAMPLES:
        schema = schemas[example.tool]
        assert set(schema.get("required", ())) <= set(example.arguments) <= set(schema["properties"]), example


def test_the_examples_do_not_contain_the_task_that_the_small_model_is_measured_by() -> None:
    assert "hello" not in BRIEF_TEMPLATE


def test_a_tool_without_required_arguments_keeps_its_optional_ones() -> None:
    listing = ToolSchema("list_directory", "", {"type": "object", "properties": {"path": {"type": "string"}}})
    assert required_only((listing,)) == (listing,)
