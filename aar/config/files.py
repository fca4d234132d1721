"""Reading a configuration file: exact errors for what is wrong, warnings for what is unknown."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aar.config.masking import masked, repeated
from aar.config.unknown import unknown_settings
from aar.errors import ConfigError, InvalidSetting
from aar.messages.settings import AgentConfig

__all__ = ["aar_home", "exposed_keys", "load_config", "read_object", "read_settings", "user_config_file", "validated"]


def aar_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of everything a user owns: `$AAR_HOME`, else `~/.aar`. It need not exist.

    Raises `ConfigError` for a user without a home.
    """
    chosen = environ.get("AAR_HOME", "").strip()
    try:
        if not chosen and environ.get("HOME", "?") == "":
            raise RuntimeError("HOME is empty")  # where Python would take the root of all folders
        return Path(chosen).expanduser() if chosen else Path.home() / ".aar"
    except RuntimeError as error:
        raise ConfigError("This user has no home folder: set HOME, or AAR_HOME to a folder for Aar.") from error


def user_config_file(environ: Mapping[str, str] = os.environ) -> Path:
    return aar_home(environ) / "config.json"


def load_config(path: str | os.PathLike[str]) -> AgentConfig:
    """The settings of one file over the defaults. Unknown keys are logged as warnings, not refused.

    Raises `ConfigError` for a file that is missing, unreadable or no JSON object, and `InvalidSetting` (one of
    those) for values that a setting cannot have.
    """
    import logging

    file = Path(path).expanduser()
    raw = read_settings(file)
    for warning in unknown_settings(raw, str(file)):
        logging.getLogger("aar.config").warning("%s", warning)
    return validated(raw, lambda _: str(file))


def read_settings(file: Path) -> dict[str, Any]:
    """The object in a configuration file, with the distribution profile that it names merged in."""
    raw = read_object(file)
    return _with_wsl_profile(raw, file)


def exposed_keys(raw: dict[str, Any], file: Path) -> list[str]:
    """A warning when others may write the file, or may read it and it holds a secret."""
    if os.name != "posix" or not file.exists():
        return []
    status = file.stat()
    if status.st_mode & 0o002 or (status.st_mode & 0o020 and status.st_gid != os.getegid()):
        return [f"{file} can be changed by others, who could send your keys elsewhere: chmod 600 {file}"]
    if status.st_mode & 0o044 and _holds_a_secret(raw):
        return [f"{file} holds a key and others may read it: chmod 600 {file}"]
    return []


def _holds_a_secret(raw: dict[str, Any]) -> bool:
    try:
        settings = AgentConfig.model_validate(raw)
        return masked(settings) != settings.model_dump(mode="json")
    except ValidationError:
        return False  # it is going to be refused anyway


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a UTF-8 file, with or without a byte order mark. Raises `ConfigError`."""
    import json

    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"{file}: there is no such file. Name another one, or write it with `aar init`.") from error
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
    try:
        found = json.loads(text, object_pairs_hook=partial(_once, file))
    except json.JSONDecodeError as error:
        told = f"{error.msg}.{_hint(text, error.pos)}"
        raise ConfigError(f"{file}: line {error.lineno}, column {error.colno}: {told}") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: is nested too deeply.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: must hold a JSON object {{...}}, but holds {_kind(found)}.")
    return found


def _once(file: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """One object of the file. A setting that stands twice was pasted beside the one that was there; notes may."""
    found = dict(pairs)
    names = [name for name, _ in pairs if not name.startswith("_")] if len(found) < len(pairs) else []
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{file}: {repeated(name)} stands twice in one object. Remove one of them.")
    return found


def _hint(text: str, place: int) -> str:
    if not text.strip():
        return " The file is empty: write {} for all defaults."
    if text[place : place + 1] in ("}", "]") and text[:place].rstrip().endswith(","):
        return " There is a comma too many before it."
    if any(line.lstrip().startswith(("//", "#", "/*")) for line in text.splitlines()):
        return " JSON has no comments: remove them."
    return ""


def _kind(value: Any) -> str:
    kinds = {"NoneType": "null", "list": "a list", "str": "a text", "bool": "true or false"}
    return kinds.get(type(value).__name__, "a number")


# --- the WSL profile --------------------------------------------------------------------------


def _with_wsl_profile(raw: dict[str, Any], file: Path) -> dict[str, Any]:
    """What `safety.sandbox.wsl.profile` names is the base; inline values that are not null win over it."""
    safety = raw.get("safety")
    sandbox = safety.get("sandbox") if isinstance(safety, dict) else None
    wsl = sandbox.get("wsl") if isinstance(sandbox, dict) else None
    if not isinstance(wsl, dict) or not isinstance(wsl.get("profile"), str) or not wsl["profile"]:
        return raw
    profile = Path(wsl["profile"]).expanduser()
    if not profile.is_absolute():
        profile = file.parent / profile
    if not profile.is_file():
        text = f"profile not found: {profile}. Write it (`aar init` has three) or leave it out."
        raise InvalidSetting(f"{file}: safety.sandbox.wsl.profile: {text}")
    base = {key: value for key, value in read_object(profile).items() if key != "profile"}
    inline = {key: value for key, value in wsl.items() if value is not None}
    assert isinstance(safety, dict)
    assert isinstance(sandbox, dict)
    return {**raw, "safety": {**safety, "sandbox": {**sandbox, "wsl": {**base, **inline}}}}


# --- validation -------------------------------------------------------------------------------


def validated(raw: dict[str, Any], source_of: Callable[[str], str]) -> AgentConfig:
    """`raw` as settings. Raises `InvalidSetting`, one line per mistake; `source_of(field)` names its origin."""
    try:
        return AgentConfig.model_validate(raw)
    except ValidationError as error:
        lines = [_explained(item, source_of) for item in error.errors(include_url=False) if not _is_echo(item)]
        raise InvalidSetting("\n".join(dict.fromkeys(lines))) from error


def _is_echo(item: Any) -> bool:
    """`provider` may be an object or a name: what is wrong inside the object is said once, not twice."""
    return tuple(item["loc"]) == ("provider", "str")


def _explained(item: Any, source_of: Callable[[str], str]) -> str:
    field = ".".join(str(part) for part in item["loc"] if part != "ProviderConfig")
    problem = str(item["msg"]).removeprefix("Value error, ")
    if field == "provider":
        problem = "must be an object, or a key of providers"
    return f"{source_of(field)}: {field}: {problem}, but found {_shown(field, item['input'])}.{_default_of(field)}"


def _shown(field: str, found: Any) -> str:
    is_secret = "key" in field.lower() or "extra" in field
    return "something else" if is_secret and not isinstance(found, dict | list) else repeated(found)


def _default_of(field: str) -> str:
    value: Any = AgentConfig().model_dump(mode="json")
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return " Correct it or leave it out."
        value = value[part]
    if isinstance(value, dict | list):
        return " Correct it or leave it out."
    import json

    return f" Correct it or leave it out (default {json.dumps(value)})."
