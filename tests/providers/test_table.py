from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aar.errors import MissingPackage
from aar.messages.settings import ProviderConfig
from aar.providers import PROVIDERS, open_provider
from aar.providers.generic import GenericProvider


@pytest.mark.covers("LOOP-47")
def test_an_unknown_name_lists_the_known_ones_in_order() -> None:
    with pytest.raises(ValueError, match="Unknown") as caught:
        open_provider(ProviderConfig(name="nope"))
    assert str(caught.value) == (
        "Unknown provider: 'nope'. Available: anthropic, gemini, generic, local, ollama, openai"
    )


def test_a_name_opens_its_adapter_with_the_settings() -> None:
    config = ProviderConfig(name="generic", model="m", base_url="http://localhost:1")
    provider = open_provider(config)
    assert isinstance(provider, GenericProvider)
    assert provider.config is config


@pytest.mark.covers("PRV-04")
@pytest.mark.parametrize("name", ["anthropic", "gemini", "generic", "local", "ollama", "openai"])
def test_each_name_in_the_table_builds_the_adapter_of_that_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in PROVIDERS
    (tmp_path / "xllamacpp.py").touch()  # not every machine has it, and building does not run it
    monkeypatch.syspath_prepend(tmp_path)
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    provider = open_provider(ProviderConfig(name=name, model=str(model), api_key="a-key-of-nobody"))
    assert provider.name == provider.capabilities()["name"] == name


@pytest.mark.covers("LOOP-48")
def test_a_missing_vendor_package_only_matters_when_its_provider_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vendor_adapter.py").write_text("import package_of_the_vendor\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PROVIDERS, "gemini", "vendor_adapter:Adapter")
    assert isinstance(open_provider(ProviderConfig(name="generic")), GenericProvider)
    with pytest.raises(MissingPackage) as caught:
        open_provider(ProviderConfig(name="gemini"))
    assert str(caught.value) == (
        "The provider 'gemini' needs the package 'package_of_the_vendor': pip install 'aar-agent[gemini]'"
    )


def test_opening_a_provider_loads_neither_the_http_library_nor_tls() -> None:
    program = (
        "import sys\n"
        "from aar.messages.settings import ProviderConfig\n"
        "from aar.providers import open_provider\n"
        "before = set(sys.modules)\n"
        "open_provider(ProviderConfig(name='generic', base_url='https://example.org'))\n"
        "print(sorted({'httpx2', 'openai', 'anthropic'} & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
