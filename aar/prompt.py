"""The system prompt: layers of text from Aar, the user and the project, in a fixed order.

What is read is handed over, the rest is computed: the same inputs give the same bytes, so that a provider's
prompt cache holds. No clock, no random names, no process state.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from aar.messages.settings import AgentConfig, WslSandbox

__all__ = [
    "SEPARATOR",
    "Layer",
    "PromptTool",
    "base_text",
    "deferred_section",
    "layers",
    "policy_section",
    "system_prompt",
    "tools_section",
]

SEPARATOR = "\n---\n"
RULES_LIMIT = 256 * 1024  # bytes of one rule file of a project
ALL_RULES_LIMIT = 1024 * 1024  # bytes of all of them
AGENTS_MD = "AGENTS.md"
MOST_RULE_FILES = 100  # in the folder `rules.d` of a project

MayRead = Callable[[str], str | None]
"""Why a file may not be read, or `None`. Called with the path as written and with where it leads."""


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
    deferred: Iterable[str] = (),
    additions: Iterable[str] = (),
    system: str | None = None,
    may_read: MayRead = lambda path: None,
) -> list[Layer]:
    """All layers in order. `home` is the user's Aar folder, `system` the operating system (default: this one).

    Reads the rule files, so call it in a thread. Raises `OSError` for a file of the user that is there and unreadable.
    Projects come from anywhere: of theirs, only regular files of a decent size and number are read that lie in the
    project and that `may_read` has nothing against.
    """
    if config.system_prompt:
        found = [Layer("configured", "system_prompt", config.system_prompt)]
    else:
        found = [Layer("aar-system", "[built-in]", base_text(config, cwd, system))]
        if section := tools_section(tools):
            found.append(Layer("tools", "[tool registry]", section))
        found.extend(_rules("global", home, _own))
        found.extend(_project_rules(Path(cwd), Path(cwd, config.project_rules_dir), may_read))
        found.extend(_agents_md(config.agents_md, home, cwd, may_read))
    if section := deferred_section(deferred):
        found.append(Layer("deferred", "[tool registry]", section))
    if policy := policy_section(config):
        found.append(Layer("policy", "[settings]", policy))
    found.extend(Layer(name, f"prompts.{name}", text) for name, text in config.prompts.items() if text)
    texts = [text for text in additions if text]
    if texts:
        found.append(Layer("extensions", "[extensions]", "\n".join(texts)))
    return found


def system_prompt(found: Iterable[Layer]) -> str:
    """The layers that have text, joined by a line `---`."""
    return SEPARATOR.join(layer.text for layer in found if layer.text)


class _Skipped(Exception):
    """A rule file is there, and not read. The text says why."""


def _project_rules(project: Path, folder: Path, may_read: MayRead) -> Iterator[Layer]:
    """A folder elsewhere was chosen by the user, in the settings: then its files have to lie in there."""
    is_inside = Path(os.path.normpath(folder)).is_relative_to(os.path.normpath(project))
    root = os.path.realpath(project if is_inside else folder)
    return _rules("project", folder, _Foreign(root, may_read).read, MOST_RULE_FILES)


def _agents_md(which: str, home: Path, cwd: str, may_read: MayRead) -> Iterator[Layer]:
    """The user's own first, then those of the project: the nearest to the working folder has the last word."""
    if which in ("all", "global"):
        yield from _if_there(_layer("agents-global", home / AGENTS_MD, _own))
    if which in ("all", "local"):
        folders = _up_to_repository(os.path.realpath(cwd))
        read = _Foreign(folders[0], may_read).read
        for folder in folders:
            yield from _if_there(_layer("agents", Path(folder, AGENTS_MD), read))


def _if_there(layer: Layer) -> list[Layer]:
    return [layer] if layer.text is not None or layer.skipped else []


def _up_to_repository(cwd: str) -> list[str]:
    """From the root of the repository down to the working folder; without a repository, that folder alone."""
    folders = [cwd, *map(str, Path(cwd).parents)]
    root = next((at for at, folder in enumerate(folders) if os.path.lexists(os.path.join(folder, ".git"))), 0)
    return folders[root::-1]


def _rules(label: str, folder: Path, read: Callable[[Path], bytes], most: int | None = None) -> Iterator[Layer]:
    yield _layer(label, folder / "rules.md", read)
    names = _rule_names(folder / "rules.d")
    for name in names[:most]:
        yield _layer(f"{label}-d", folder / "rules.d" / name, read)
    if len(names[:most]) < len(names):
        yield Layer(f"{label}-d", str(folder / "rules.d"), None, f"more than {most} files")


def _rule_names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.name.endswith(".md") and not _is_folder(entry))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a ring
        return False


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


class _Foreign:
    """Reads files of a project, which may be hostile: it must not wait, and not carry secrets into a prompt."""

    def __init__(self, root: str, may_read: MayRead) -> None:
        self._root = root
        self._may_read = may_read
        self._left = ALL_RULES_LIMIT

    def read(self, file: Path) -> bytes:
        """Links are followed as long as they stay below the root. Never waits, as for the writer of a FIFO."""
        try:
            place = os.path.realpath(file)
            if not Path(place).is_relative_to(self._root):
                raise _Skipped("a link that leads elsewhere")
            self._check(str(file), place)
            with self._opened(place) as descriptor:
                data = _content(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            raise _Skipped(f"unreadable: {error.strerror}") from error
        self._left -= len(data)
        if self._left < 0:
            raise _Skipped(f"the rules of this project are larger than {ALL_RULES_LIMIT // 1024} KB together")
        return data

    def _check(self, *forms: str) -> None:
        for path in dict.fromkeys(forms):
            if reason := self._may_read(path):
                raise _Skipped(reason)

    @contextmanager
    def _opened(self, place: str) -> Iterator[int]:
        """A descriptor of the object at a path without links, folder by folder: none may have become a link since."""
        if os.open not in os.supports_dir_fd:
            descriptor = os.open(place, _READ)
        else:
            *folders, name = os.path.relpath(place, self._root).split(os.sep)
            with _descended(self._root, folders) as folder:
                descriptor = os.open(name, _READ, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _descended(root: str, folders: Iterable[str]) -> Iterator[int]:
    descriptor = os.open(root, _FOLDER)
    try:
        for name in folders:
            below = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _Skipped("not a regular file")
    with open(descriptor, "rb", closefd=False) as opened:
        data = opened.read(RULES_LIMIT + 1)
    if len(data) > RULES_LIMIT:
        raise _Skipped(f"larger than {RULES_LIMIT // 1024} KB")
    return data


def _flags(*names: str) -> int:
    """Where there are no such flags, there are no FIFOs."""
    flags = os.O_RDONLY
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


_READ = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_BINARY", "O_CLOEXEC")
_FOLDER = _flags("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_PATH")  # folders need not be listable


# --- what Aar itself says ---------------------------------------------------------------------


def base_text(config: AgentConfig, cwd: str, system: str | None = None) -> str:
    """Facts of the place where tools run."""
    system = system or platform.system()
    lines = [
        "You are a helpful assistant with access to tools.",
        "",
        f"Operating system: {system}",
        f"Working directory: {_on_one_line(cwd)}",
    ]
    if system == "Windows":
        lines += ["", *_windows_facts(config)]
    else:
        lines.append("Shell: /bin/sh")
        lines += _walls(config, system)
    return "\n".join(lines)


def _on_one_line(path: str) -> str:
    """The name of a folder must not read like a line of its own."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in path)


def _walls(config: AgentConfig, system: str) -> list[str]:
    """So that a model does not have to find them by running against them."""
    sandbox = config.safety.sandbox
    if system != "Linux" or sandbox.mode not in ("linux", "auto"):
        return []
    folder = _on_one_line(sandbox.linux.workspace or "the working directory")
    more = "".join(f", {_on_one_line(path)}" for path in sandbox.linux.writable)
    return [f"Shell commands can write only below {folder}{more} and $TMPDIR. They start with few variables."]


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


def policy_section(config: AgentConfig) -> str:
    """The user's rules for single calls, so that a model does not find them by running against them."""
    safety = config.safety
    rules = (("Never allowed", safety.deny), ("Asked first", safety.confirm), ("Allowed", safety.auto))
    lines = [f"{what}: {_on_one_line(', '.join(found))}" for what, found in rules if found]
    return "\n".join(["Rules for tool calls (`tool`, or `tool:start of what it does*`):", *lines]) if lines else ""


def deferred_section(names: Iterable[str]) -> str:
    """What can be loaded, by name alone: it is there to keep descriptions out of requests."""
    told = _on_one_line(", ".join(names))
    return f"Tools that are not loaded yet, and that load_tools loads by name or pattern: {told}" if told else ""


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
