"""What a child may know: our environment without the keys to models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

__all__ = ["NO_PLUGINS", "PROVIDER_SECRETS", "child_environment"]

NO_PLUGINS = ("PYDANTIC_DISABLE_PLUGINS", "true")
"""What the program sets for itself alone: to look for plugins of pydantic, it would read the metadata of all packages.

Who wants them there sets the variable to an empty value.
"""

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
_VENDORS = (
    "ANTHROPIC|CLAUDE|OPENAI|AZURE_OPENAI|AZURE_AI|OPENROUTER|GEMINI|GENERIC|GOOGLE_AI|GOOGLE_GENAI|MISTRAL|GROQ|COHERE"
    "|DEEPSEEK|XAI|GROK|TOGETHER|FIREWORKS|PERPLEXITY|CEREBRAS|NVIDIA|REPLICATE|HF|HUGGINGFACE|OLLAMA|DASHSCOPE|MOONSHOT"
)
_SECRET = (  # patterns are text until the first command needs them
    rf".*_API_?(?:KEYS?|TOKEN)(?:_\d+)?|(?:{_VENDORS})(?:_\w+)?_(?:KEYS?|TOKENS?|SECRETS?)"
    r"(?:_(?!FILE$|PATH$|NAME$)\w+)?"
)
_ENDPOINT = rf"(?:{_VENDORS})(?:_\w+)?_(?:ENDPOINT|BASE_URL|API_BASE|URL|HOST)"
_LOGIN = r"(?s)(?:(?<=://)|^)[^/?#\s]*@|[?#].*"  # and what follows the path, where keys may stand


def child_environment(
    *, keep: Iterable[str] = (), extra: Mapping[str, str] | None = None, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """`base` (this process's environment) without model keys, logins to models and Aar's own tokens, then `extra`.

    Addresses of models lose their login and all that follows the path. Names in `keep` stay although they look like
    keys. `extra` is taken as it is: whoever names a value means it.
    """
    source = os.environ if base is None else base
    kept = frozenset(keep)
    passed = {
        name: re.sub(_LOGIN, "", value) if re.fullmatch(_ENDPOINT, name) and name not in kept else value
        for name, value in source.items()
        if name in kept or not (_is_secret(name) or (name, value) == NO_PLUGINS)
    }
    return passed | dict(extra or {})


def _is_secret(name: str) -> bool:
    upper = name.upper()
    ours = upper.startswith("AAR_") and upper.endswith(("_TOKEN", "_KEY", "_SECRET"))
    return ours or upper == "API_KEY" or upper in PROVIDER_SECRETS or bool(re.fullmatch(_SECRET, upper, re.DOTALL))
