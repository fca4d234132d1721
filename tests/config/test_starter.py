"""The files of a fresh user folder, and the samples."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from aar.config import load_config, merge_config, unknown_settings
from aar.config.starter import sample_configs, write_starter_files
from aar.errors import ConfigError
from aar.messages.settings import AgentConfig, WslSandbox
from aar.messages.themes import Theme

FILES = [
    "config.json",
    "distros/alpine-base.json",
    "distros/alpine-r.json",
    "distros/ubuntu.json",
    "extensions/hello.py",
    "mcp_servers.example.json",
    "mcp_servers.json",
    "pricing.template.json",
    "rules.md",
    "themes/example.json",
    "themes/theme.schema.template",
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "user" / "aar"


@pytest.mark.covers("CFG-17", "CFG-19")
def test_all_files_are_created_and_parse(home: Path) -> None:
    written = write_starter_files(home)
    assert sorted(str(entry.path.relative_to(home)) for entry in written) == FILES
    assert all(entry.created for entry in written)
    for entry in written:
        text = entry.path.read_text(encoding="utf-8")
        if entry.path.suffix in (".json", ".template"):
            assert isinstance(json.loads(text), dict)
        elif entry.path.suffix == ".py":
            compile(text, str(entry.path), "exec")
    assert (home / "rules.d").is_dir()


def test_the_mcp_example_shows_both_transports_with_prefixed_tools(home: Path) -> None:
    write_starter_files(home)
    assert json.loads((home / "mcp_servers.json").read_text()) == {"servers": []}
    servers = json.loads((home / "mcp_servers.example.json").read_text())["servers"]
    assert [(server["transport"], server["prefix_tools"]) for server in servers] == [("stdio", True), ("http", True)]


def test_the_price_template_is_the_built_in_table_with_a_hint(home: Path) -> None:
    write_starter_files(home)
    template = json.loads((home / "pricing.template.json").read_text())
    assert next(iter(template)) == "_usage"
    assert template["claude-sonnet-4"]["output_per_million"] == 15.0


@pytest.mark.covers("THM-07")
def test_the_example_theme_is_complete_and_the_schema_describes_it(home: Path) -> None:
    import jsonschema_rs

    write_starter_files(home)
    example = json.loads((home / "themes" / "example.json").read_text())
    schema = json.loads((home / "themes" / "theme.schema.template").read_text())
    theme = Theme.model_validate(example)
    assert (theme.name, theme.fixed_layout.thinking_panel.width) == ("example", 42)
    assert theme.model_dump(mode="json") == example
    assert jsonschema_rs.meta.is_valid(schema)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(example)
    assert validator.is_valid({"name": "partial"})
    assert not validator.is_valid({"description": "nameless"})


@pytest.mark.covers("CFG-18")
def test_existing_files_are_left_alone_unless_forced(home: Path) -> None:
    write_starter_files(home)
    (home / "config.json").write_text('{"max_steps": 3}')
    (home / "rules.md").unlink()
    second = {str(entry.path.relative_to(home)): entry.created for entry in write_starter_files(home)}
    assert {name for name, created in second.items() if created} == {"rules.md"}
    assert load_config(home / "config.json").max_steps == 3
    assert all(entry.created for entry in write_starter_files(home, force=True))
    assert load_config(home / "config.json").max_steps == 50


@pytest.mark.covers("CFG-20")
def test_files_and_folders_are_for_their_owner_only(home: Path) -> None:
    written = write_starter_files(home)
    assert {stat.S_IMODE(entry.path.stat().st_mode) for entry in written} == {0o600}
    folders = [home, *(path for path in home.iterdir() if path.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_forcing_makes_a_readable_file_private_and_keeps_a_link(home: Path, tmp_path: Path) -> None:
    home.mkdir(parents=True)
    elsewhere = tmp_path / "dotfiles.json"
    elsewhere.write_text("{}")
    elsewhere.chmod(0o644)
    (home / "config.json").symlink_to(elsewhere)
    write_starter_files(home, force=True)
    assert (home / "config.json").is_symlink()
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o600
    assert load_config(elsewhere) == AgentConfig()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=str(tmp_path / "file")):
        write_starter_files(tmp_path / "file" / "aar")


@pytest.mark.covers("CFG-21")
def test_the_written_configuration_loads_as_the_defaults(home: Path) -> None:
    write_starter_files(home)
    assert load_config(home / "config.json") == AgentConfig()
    loaded = merge_config(environ={"AAR_HOME": str(home)})
    assert (loaded.config, loaded.warnings) == (AgentConfig(), ())
    assert "system_prompt" not in json.loads((home / "config.json").read_text())


def test_the_written_configuration_chooses_neither_a_provider_nor_whether_to_stream(home: Path) -> None:
    write_starter_files(home)
    loaded = merge_config(environ={"AAR_HOME": str(home)})
    assert not loaded.provider_was_chosen
    told = {name for name, origin in loaded.origins.items() if origin == "default"}
    assert told == {name for name in loaded.origins if name.startswith("provider.")} | {"streaming", "system_prompt"}


def test_one_changed_value_in_the_written_provider_is_a_choice(home: Path) -> None:
    write_starter_files(home)
    file = home / "config.json"
    written = json.loads(file.read_text())
    for changed in ({"api_key": "k"}, {"model": "m"}, {"temperature": 0.5}):
        file.write_text(json.dumps({**written, "provider": {**written["provider"], **changed}}))
        loaded = merge_config(environ={"AAR_HOME": str(home)})
        assert loaded.provider_was_chosen
        assert loaded.origins["provider.name"] == f"file {file}"


def test_a_flag_chooses_also_beside_the_written_provider(home: Path) -> None:
    write_starter_files(home)
    loaded = merge_config(flags={"model": "m"}, environ={"AAR_HOME": str(home)})
    assert loaded.provider_was_chosen
    assert loaded.config.resolve_provider().label == "anthropic/m"


@pytest.mark.covers("CFG-22")
@pytest.mark.parametrize(
    ("name", "distro", "shell", "packages", "install"),
    [
        ("alpine-base", "aar-sandbox", "sh", ["python3", "py3-pip"], "apk add --no-cache {packages}"),
        ("alpine-r", "aar-sandbox", "sh", ["python3", "py3-pip", "R"], "apk add --no-cache {packages}"),
        ("ubuntu", "aar-ubuntu", "bash", ["python3", "python3-pip"], "apt-get install -y {packages}"),
    ],
)
def test_three_distribution_profiles_are_shipped(
    home: Path, name: str, distro: str, shell: str, packages: list[str], install: str
) -> None:
    write_starter_files(home)
    config = home / "profile-user.json"
    config.write_text(json.dumps({"safety": {"sandbox": {"mode": "wsl", "wsl": {"profile": f"distros/{name}.json"}}}}))
    wsl = load_config(config).safety.sandbox.wsl
    assert (wsl.distro, wsl.shell, wsl.packages, wsl.package_install_command) == (distro, shell, packages, install)
    raw = json.loads((home / "distros" / f"{name}.json").read_text())
    assert set(raw) <= set(WslSandbox.model_fields)
    assert {"distro", "shell", "rootfs_url", "packages", "package_install_command", "system_prompt_hint"} <= set(raw)
    assert raw["system_prompt_hint"]


@pytest.mark.covers("CFG-24")
@pytest.mark.parametrize("name", list(sample_configs()))
def test_a_sample_loads_without_a_warning(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.json"
    file.write_text(sample_configs()[name])
    loaded = merge_config(file=file, environ={})
    assert loaded.warnings == ()
    assert loaded.config == AgentConfig.model_validate(
        {**load_config(file).model_dump(), "provider": load_config(file).resolve_provider()}
    )


@pytest.mark.covers("CFG-24")
def test_the_samples_are_the_ones_that_are_promised() -> None:
    samples = sample_configs()
    assert list(samples) == [
        "claude",
        "deepseek",
        "gemini_25_flash",
        "gemini_25_pro",
        "gemma",
        "gemma_cost_sim",
        "omnicoder",
        "openai",
        "qwen",
        "reference",
        "terminalbench20",
    ]
    assert len(json.loads(samples["reference"])["providers"]) == 8
    assert [unknown_settings(json.loads(text), name) for name, text in samples.items()] == [[]] * len(samples)


def test_what_a_killed_run_left_behind_loosens_no_file(tmp_path: Path) -> None:
    left = tmp_path / f".config.json.{os.getpid()}.new"
    left.touch()
    left.chmod(0o666)
    write_starter_files(tmp_path)
    assert (tmp_path / "config.json").stat().st_mode & 0o777 == 0o600
    assert not left.exists()
