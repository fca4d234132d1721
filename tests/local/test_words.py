"""What people are told who have no model, or the smallest one."""

from __future__ import annotations

from aar.local import SMALL_MODEL_REMARK, model_remark, three_ways
from aar.messages.settings import ProviderConfig


def test_the_three_ways_fit_on_one_screen() -> None:
    lines = three_ways().splitlines()
    assert len(lines) <= 24
    assert max(len(line) for line in lines) <= 118
    for command in ("GENERIC_ENDPOINT=", "--base-url http://localhost:", "aar local install"):
        assert command in three_ways()


def test_who_uses_the_small_model_is_told_what_it_is_good_for() -> None:
    small = ["", "SmolLM2-135M-Instruct", "/models/SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert [model_remark(ProviderConfig(name="local", model=model)) for model in small] == [SMALL_MODEL_REMARK] * 3
    assert "not for real work" in SMALL_MODEL_REMARK


def test_nothing_is_said_about_other_models() -> None:
    others = [ProviderConfig(), ProviderConfig(name="local", model="/models/qwen.gguf"), ProviderConfig(name="generic")]
    assert [model_remark(config) for config in others] == ["", "", ""]
