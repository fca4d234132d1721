"""Where GGUF files are, and which one a setting means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from aar.errors import ProviderError
from aar.messages.settings import ProviderConfig

__all__ = ["DEFAULT_FILE", "DEFAULT_MODEL", "is_default_model", "model_file", "models_folder"]

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
DEFAULT_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

_UNSET = ProviderConfig.model_fields["model"].default  # a model of another provider: nobody chose one for this one


def models_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`models` below `$AAR_HOME`, else below `~/.aar`. It need not exist."""
    chosen = environ.get("AAR_HOME", "").strip()
    return (Path(chosen).expanduser() if chosen else Path.home() / ".aar") / "models"


def is_default_model(model: str) -> bool:
    """Whether `model` leaves the choice to us, or names the model that `aar local install` fetches."""
    return model in ("", "default", _UNSET, DEFAULT_MODEL, DEFAULT_FILE, Path(DEFAULT_FILE).stem)


def model_file(model: str, folder: Path) -> Path:
    """The absolute path of the file that `model` means: a path, or the name of a file in `folder`.

    Raises `ProviderError` saying what to do when there is none, or when the file is no GGUF file.
    """
    if is_default_model(model):
        found = folder / DEFAULT_FILE
        missing = (
            f"The model {DEFAULT_MODEL} is not installed: run 'aar local install', or name one with --model FILE.gguf"
        )
    else:
        named = Path(model).expanduser()
        beside = [folder / model, folder / f"{model}.gguf"]
        found = next((path for path in [named, *beside] if path.is_file()), named)
        missing = (
            f"There is no model file {found}: --provider local takes --model FILE.gguf, or the name of one in {folder}"
        )
    if not found.is_file():
        raise ProviderError(missing, provider="local")
    with found.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ProviderError(f"{found} is no GGUF file", provider="local")
    return found.absolute()
