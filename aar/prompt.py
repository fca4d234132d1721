"""The system prompt: layers of text from Aar, the user and the project, in a fixed order.

What is read is handed over, the rest is computed: the same inputs give the same bytes, so that a provider's
prompt cache holds. No clock, no random names, no process state.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aar.messages.settings import AgentConfig, WslSandbox

__all__ = ["SEPARATOR", "Layer", "PromptTool", "base_text", "layers", "system_prompt", "tools_section"]

SEPARATOR = "\n---\n"


class PromptTool(Protocol):
    """What the prompt says of a tool: nothing when its snippet is empty and it has no guidelines."""

    @property
    def name(self) -> str: ...
    @property
    def prompt_snippet(self) -> str: ...
    @property
    def prompt_guidelines(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Layer:
    """`text` is `None` for a file that is not there: it is shown to people and not part of the prompt."""

    label: str
    source: str
    text: str | None


def layers(
    config: AgentConfig,
    cwd: str,
    home: Path,
    tools: Iterable[PromptTool] = (),
    *,
    additions: Iterable[str] = (),
    system: str | None = None,
) -> list[Layer]:
    """All layers in order. `home` is the user's Aar folder, `system` the operating system (default: this one).

    Reads the rule files, so call it in a thread. Raises `OSError` for a rule file that is there and unreadable.
    """
    if config.system_prompt:
        found = [Layer("configured", "system_prompt", config.system_prompt)]
    else:
        found = [Layer("aar-system", "[built-in]", base_text(config, cwd, system))]
        if section := tools_section(tools):
            found.append(Layer("tools", "[tool registry]", section))
        found.extend(_rules("global", home))
        found.extend(_rules("project", Path(cwd, config.project_rules_dir)))
    texts = [text for text in additions if text]
    if texts:
        found.append(Layer("extensions", "[extensions]", "\n".join(texts)))
    return found


def system_prompt(found: Iterable[Layer]) -> str:
    """The layers that have text, joined by a line `---`."""
    return SEPARATOR.join(layer.text for layer in found if layer.text)


def _rules(label: str, folder: Path) -> Iterator[Layer]:
    main = folder / "rules.md"
    yield Layer(label, str(main), _text_of(main))
    for file in sorted((folder / "rules.d").glob("*.md"), key=lambda file: file.name):
        if file.is_file():
            yield Layer(f"{label}-d", str(file), _text_of(file))


def _text_of(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8-sig", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


# --- what Aar itself says ---------------------------------------------------------------------


def base_text(config: AgentConfig, cwd: str, system: str | None = None) -> str:
    """Facts of the place where tools run."""
    system = system or platform.system()
    lines = [
        "You are a helpful assistant with access to tools.",
        "",
        f"Operating system: {system}",
        f"Working directory: {cwd}",
    ]
    if system == "Windows":
        lines += ["", *_windows_facts(config)]
    else:
        lines.append("Shell: /bin/sh")
    return "\n".join(lines)


def _windows_facts(config: AgentConfig) -> list[str]:
    sandbox = config.safety.sandbox
    facts = _wsl_facts(sandbox.wsl) if sandbox.mode == "wsl" else ["Shell commands run through WSL bash."]
    return [
        *facts,
        "File tools take Windows-style paths.",
        "Create files inside the working directory unless you are told otherwise.",
        "Never give file tools absolute paths in Unix style.",
    ]


def _wsl_facts(wsl: WslSandbox) -> list[str]:
    return [
        f"Shell commands run inside the dedicated WSL distribution {wsl.distro}.",
        wsl.system_prompt_hint or "Linux sandbox.",
        "Write shell commands for a POSIX sh.",
    ]


def tools_section(tools: Iterable[PromptTool]) -> str:
    """Snippets in the order of the registry, then every guideline once. Empty when there is neither."""
    known = list(tools)
    snippets = [f"- {tool.name}: {tool.prompt_snippet}" for tool in known if tool.prompt_snippet]
    guidelines = dict.fromkeys(line for tool in known for line in tool.prompt_guidelines if line)
    parts = []
    if snippets:
        parts.append("\n".join(["Available tools:", *snippets]))
    if guidelines:
        parts.append("\n".join(["Guidelines:", *(f"- {line}" for line in guidelines)]))
    return "\n\n".join(parts)
