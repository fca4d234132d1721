"""What users are told about models."""

from __future__ import annotations

from aar.messages.settings import ProviderConfig
from aar.providers.local.model_files import DEFAULT_FILE, is_default_model

__all__ = ["SMALL_MODEL_REMARK", "model_remark", "three_ways"]

SMALL_MODEL_REMARK = (
    "SmolLM2-135M is a very small model: good for trying Aar without an account and for tests, not for real work. "
    "It creates a file when asked as in the examples and fails at most other tasks."
)

_THREE_WAYS = """\
Aar found no model to work with. Three ways to get one:

1. A model service, with a key in the environment: ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY
     pip install 'aar-agent[anthropic]'      (or openai, gemini; the pip of the environment that Aar is in)
     export ANTHROPIC_API_KEY=...
     aar run "What does this project do?"
   Any other service that speaks OpenAI's chat format: GENERIC_ENDPOINT=https://.../v1 GENERIC_API_KEY=...

2. A model server on this machine: Ollama, LM Studio, llama.cpp or vLLM
     Start it on its usual port, and Aar finds it. On another one:
     aar run --provider generic --base-url http://localhost:PORT/v1 --model NAME "..."

3. A model that Aar runs itself, with no account and no server
     pip install 'aar-agent[local]'
     aar local install
     aar run --provider local "Create hello.txt containing hi"
   The model that this installs is very small (135 million parameters, a download of 93 MB): enough to see how Aar
   works, not for real work. With a better one: aar run --provider local --model FILE.gguf "..."
"""


def three_ways() -> str:
    """One screen for somebody who has no model yet: the commands for a service, a server, and the small model."""
    return _THREE_WAYS


def model_remark(config: ProviderConfig) -> str:
    """What users of this model must know before they rely on it; empty for most."""
    name = config.model.rpartition("/")[2]
    is_small = config.name == "local" and (is_default_model(config.model) or name == DEFAULT_FILE)
    return SMALL_MODEL_REMARK if is_small else ""
