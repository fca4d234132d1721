"""Where the REST API is, and whose messages: variables win over the config file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["E164", "Settings", "config_path", "load_settings", "save_settings"]

E164 = re.compile(r"\+[1-9]\d{6,14}")
VARIABLES = {
    "SIGNAL_API_URL": "api_base_url",
    "SIGNAL_PHONE_NUMBER": "account_number",
    "SIGNAL_LOG_LEVEL": "log_level",
    "SIGNAL_LOG_FILE": "log_file",
}


class Settings(BaseModel):
    """Times are in seconds; `poll_interval` is how often `receive` asks."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    api_base_url: str = "http://localhost:8080"
    api_timeout: float = 30
    receive_timeout: int = 10
    account_number: str = ""
    log_level: str = "WARNING"
    log_file: str = ""
    poll_interval: float = 5


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    return Path(environ.get("SIGNAL_MCP_CONFIG") or Path.home() / ".signal-mcp" / "config.json")


def load_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Variables, over a `.env` beside the config file, over the config file, over the defaults.

    A `.env` of the working folder is not read: a project could send your messages by way of an address of its own.

    Raises:
        ValueError: the config file cannot be read or holds something of a wrong kind.
    """
    path = config_path(environ)
    given = {**_env_file(path.with_name(".env")), **environ}
    try:
        kept = _from_file(path)
        return Settings.model_validate(kept | {name: given[key] for key, name in VARIABLES.items() if given.get(key)})
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def save_settings(settings: Settings, path: Path) -> None:
    """Write the config file, for its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(settings.model_dump_json(indent=2) + "\n")
    new.replace(path)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(kept, dict):
        raise ValueError("not an object")
    return kept


def _env_file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.removeprefix("export ").partition("=") for line in map(str.strip, lines) if not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, equals, value in pairs if equals}
