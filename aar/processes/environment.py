"""What a child may know: our environment without the keys to models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

__all__ = ["PROVIDER_SECRETS", "child_environment"]

PROVIDER_SECRETS = frozenset(
    {
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_CUSTOM_HEADERS",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AZURE_OPENAI_AD_TOKEN",
        "HF_TOKEN",
        "HUGGINGFACEHUB_API_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "OPENAI_ADMIN_KEY",
        "OPENAI_WEBHOOK_SECRET",
        "REPLICATE_API_TOKEN",
    }
)
SECRET_ENDINGS = ("_API_KEY", "_API_KEYS", "_APIKEY", "_API_TOKEN")


def child_environment(
    *, keep: Iterable[str] = (), extra: Mapping[str, str] | None = None, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """`base` (this process's environment) without model keys and Aar's own tokens, then `extra`.

    Names in `keep` stay although they look like keys. `extra` is taken as it is: whoever names a value means it.
    """
    source = os.environ if base is None else base
    kept = frozenset(keep)
    return {name: value for name, value in source.items() if name in kept or not _is_secret(name)} | dict(extra or {})


def _is_secret(name: str) -> bool:
    upper = name.upper()
    ours = upper.startswith("AAR_") and upper.endswith(("_TOKEN", "_KEY", "_SECRET"))
    return ours or upper == "API_KEY" or upper in PROVIDER_SECRETS or upper.endswith(SECRET_ENDINGS)
