from __future__ import annotations

import json

import pytest

from aar.providers.failures import error_for_status
from aar.providers.secrets import Secrets

KEY = "key-" + "0123456789" * 4


@pytest.mark.parametrize("before", [0, 200, 360, 380, 390])
@pytest.mark.parametrize("is_json", [True, False])
def test_a_key_in_an_answer_that_is_cut_in_its_middle_is_not_shown(before: int, is_json: bool) -> None:
    said = "x" * before + KEY + " is wrong" + "y" * 400
    error = error_for_status(401, json.dumps({"error": {"message": said}}) if is_json else said, provider="openai")
    Secrets(KEY).hide_in(error)
    assert KEY[:9] not in str(error)
    assert "[redacted]" in str(error)
