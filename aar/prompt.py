"""The system prompt: layers of text from Aar, the user and the project, in a fixed order.

What is read is handed over, the rest is computed: the same inputs give the same bytes, so that a provider's
prompt cache holds. No clock, no random names, no process state.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from aar.messages.settings import AgentConfig, WslSandbox

__all__ = ["SEPARATOR", "Layer", "PromptTool", "base_text", "layers", "system_prompt", "tools_section"]

SEPARATOR = "\n---\n"
RULES_LIMIT = 256 * 1024  # bytes of one rule file of a project


class PromptTool(Protocol):
    """What the prompt says of a tool: nothing when its snippet is empty and it has no guidelines."""

    @property
    def name(self) -> str: ...
    @property
    def prompt_snippet(self) -> str: ...
    @property
    def prompt_guidelines(self) -> Sequence[str]: ...


class Layer(NamedTuple):
    """`text` is `None` for a file that is not there or was skipped: it is shown to people and not part of the prompt.

    `skipped` says why a file that is there was not read.
    """

    label: str
    source: str
    text: str | None
    skipped: str = ""


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

    Reads the rule files, so call it in a thread. Raises `OSError` for a file of the user that is there and unreadable.
    Projects come from anywhere: of theirs, only regular files of a decent size that lie in the project are read.
    """
    if config.system_prompt:
        found = [Layer("configured", "system_prompt", config.system_prompt)]
    else:
        found = [Layer("aar-system", "[built-in]", base_text(config, cwd, system))]
        if section := tools_section(tools):
            found.append(Layer("tools", "[tool registry]", section))
        found.extend(_rules("global", home, _own))
        found.extend(_project_rules(Path(cwd), Path(cwd, config.project_rules_dir)))
    texts = [text for text in additions if text]
    if texts:
        found.append(Layer("extensions", "[extensions]", "\n".join(texts)))
    return found


def system_prompt(found: Iterable[Layer]) -> str:
    """The layers that have text, joined by a line `---`."""
    return SEPARATOR.join(layer.text for layer in found if layer.text)


class _Skipped(Exception):
    """A rule file is there, and not read. The text says why."""


def _project_rules(project: Path, folder: Path) -> Iterator[Layer]:
    """A folder elsewhere was chosen by the user, in the settings: then its files have to lie in there."""
    is_inside = Path(os.path.normpath(folder)).is_relative_to(os.path.normpath(project))
    root = (project if is_inside else folder).resolve()
    return _rules("project", folder, lambda file: _foreign(file, root))


def _rules(label: str, folder: Path, read: Callable[[Path], bytes]) -> Iterator[Layer]:
    yield _layer(label, folder / "rules.md", read)
    for file in sorted((folder / "rules.d").glob("*.md"), key=lambda file: file.name):
        if not file.is_dir():
            yield _layer(f"{label}-d", file, read)


def _layer(label: str, file: Path, read: Callable[[Path], bytes]) -> Layer:
    try:
        return Layer(label, str(file), read(file).decode("utf-8-sig", errors="replace").strip())
    except (FileNotFoundError, NotADirectoryError):
        return Layer(label, str(file), None)
    except _Skipped as reason:
        return Layer(label, str(file), None, str(reason))


def _own(file: Path) -> bytes:
    """Users may link to where they keep such files."""
    if file.exists() and not file.is_file():
        raise _Skipped("not a regular file")
    return file.read_bytes()


def _foreign(file: Path, root: Path) -> bytes:
    """Links are followed as long as they stay below `root`. Never waits, as for the writer of a FIFO."""
    place = os.path.realpath(file)
    if not Path(place).is_relative_to(root):
        raise _Skipped("a link that leads elsewhere")
    descriptor = _opened(place)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _Skipped("not a regular file")
        with open(descriptor, "rb", closefd=False) as opened:
            data = opened.read(RULES_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > RULES_LIMIT:
        raise _Skipped(f"larger than {RULES_LIMIT // 1024} KB")
    return data


def _opened(place: str) -> int:
    """A descriptor of the object at a path without links. Where there are no such flags, there are no FIFOs."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        return os.open(place, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise _Skipped(f"unreadable: {error.strerror}") from error


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
