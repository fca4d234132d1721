"""The commands as they are called: arguments, flags, and one line about each.

Each imports what it does when it is called, so that a command line is understood, or refused, before that. It also has
to be: once pydantic is there, cyclopts builds a pydantic schema for every single flag.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from aar.transports.program.flags import Flags, LogFlags, McpFile, PromptFlags, SettingFlags

__all__ = [
    "chat",
    "config",
    "extensions_inspect",
    "extensions_list",
    "extensions_trust",
    "init",
    "install",
    "local_install",
    "local_status",
    "models",
    "prompt",
    "run",
    "sandbox_reset",
    "sandbox_setup",
    "sandbox_status",
    "sessions_delete",
    "sessions_export",
    "sessions_fork",
    "sessions_list",
    "sessions_rename",
    "sessions_show",
    "tools",
    "version",
]

SessionId = Annotated[str, Parameter(name="SESSION", help="Id or name of a session, as `aar sessions` lists it.")]


def run(
    *task: Annotated[str, Parameter(name="TASK", help="What to do.")],
    stdin: Annotated[bool, Parameter(name="-", negative="", help="Read the task from standard input.")] = False,
    output: Annotated[
        Literal["text", "json", "stream-json"], Parameter(metavar="FORMAT", help="What to write to standard output.")
    ] = "text",
    flags: Flags = Flags(),
) -> int:
    """Do one task and exit."""
    from aar.transports.cli.run import run

    return run(task, stdin=stdin, output=output, flags=flags)


def chat(*, flags: Flags = Flags()) -> int:
    """Talk with the agent, line by line."""
    from aar.transports.cli.chat import chat

    return chat(flags=flags)


def sessions_list(*, flags: LogFlags = LogFlags()) -> int:
    """List the stored sessions, newest first."""
    from aar.transports.cli.sessions import listing

    return listing(flags=flags)


def sessions_show(session_id: SessionId, /, *, flags: LogFlags = LogFlags()) -> int:
    """Show a session: its state, its costs, and what was said."""
    from aar.transports.cli.sessions import show

    return show(session_id, flags=flags)


def sessions_export(
    session_id: SessionId,
    /,
    *,
    format: Annotated[
        Literal["text", "json"], Parameter(metavar="FORMAT", help="For people, or every event.")
    ] = "text",
    to: Annotated[
        str | None,
        Parameter(metavar="FILE", help="Write to this file, which must not exist, instead of standard output."),
    ] = None,
    flags: LogFlags = LogFlags(),
) -> int:
    """Write a session as text or JSON."""
    from aar.transports.cli.sessions import export

    return export(session_id, format=format, to=to, flags=flags)


def sessions_rename(
    session_id: SessionId,
    name: Annotated[str, Parameter(name="NAME", help="What --session finds it by; an empty one takes it away.")],
    /,
    *,
    flags: LogFlags = LogFlags(),
) -> int:
    """Give a session a name."""
    from aar.transports.cli.sessions import rename

    return rename(session_id, name=name, flags=flags)


def sessions_fork(
    session_id: SessionId,
    /,
    *,
    at: Annotated[int | None, Parameter(metavar="N", help="Only its first N messages.")] = None,
    flags: LogFlags = LogFlags(),
) -> int:
    """Begin a new session with what was said in another one, and print its id."""
    from aar.transports.cli.sessions import fork

    return fork(session_id, at=at, flags=flags)


def sessions_delete(*session_ids: Annotated[SessionId, Parameter(required=True)], flags: LogFlags = LogFlags()) -> int:
    """Delete sessions for good."""
    from aar.transports.cli.sessions import delete

    return delete(session_ids, flags=flags)


def tools(*, mcp: McpFile = None, flags: PromptFlags = PromptFlags()) -> int:
    """List the tools that models can use, with their effects."""
    from aar.transports.cli.show import tools

    return tools(mcp=mcp, flags=flags)


def models(
    *,
    output: Annotated[
        Literal["text", "json"], Parameter(metavar="FORMAT", help="For people, or for programs.")
    ] = "text",
    flags: SettingFlags = SettingFlags(),
) -> int:
    """List the models of the settings, and what their providers offer."""
    from aar.transports.cli.offers import models

    return models(output=output, flags=flags)


def prompt(
    *,
    raw: Annotated[bool, Parameter(negative="", help="The text alone.")] = False,
    layers: Annotated[bool, Parameter(negative="", help="What it is made of, and what was not found.")] = False,
    flags: PromptFlags = PromptFlags(),
) -> int:
    """Show the system prompt that a session in this folder gets."""
    from aar.transports.cli.show import prompt

    return prompt(raw=raw, layers=layers, flags=flags)


def config(
    *,
    print_env: Annotated[bool, Parameter(negative="", help="Show the variables that stand for flags instead.")] = False,
    flags: SettingFlags = SettingFlags(),
) -> int:
    """Show every setting in force, keys masked, and where it came from."""
    from aar.transports.cli.show import config, variables

    return variables() if print_env else config(flags=flags)


def local_install() -> int:
    """Fetch the small model into ~/.aar/models."""
    from aar.transports.cli.local import install

    return install()


def local_status(*, flags: LogFlags = LogFlags()) -> int:
    """Show the installed models, and which model would be used."""
    from aar.transports.cli.local import status

    return status(flags=flags)


DistroName = Annotated[str | None, Parameter(name=["--distro", "-d"], metavar="NAME", help="Name of the distribution.")]
RootfsUrl = Annotated[str | None, Parameter(metavar="URL", help="Archive of the root file system it is made of.")]
PackageNames = Annotated[str | None, Parameter(metavar="NAMES", help="Packages to install, with commas between.")]


def sandbox_setup(
    *,
    distro: DistroName = None,
    install_path: Annotated[str | None, Parameter(metavar="DIR", help="Where it is put.")] = None,
    rootfs_url: RootfsUrl = None,
    packages: PackageNames = None,
    force: Annotated[bool, Parameter(negative="", help="Make it anew if it is there.")] = False,
    flags: LogFlags = LogFlags(),
) -> int:
    """Make the distribution of WSL that commands run in. What no flag says comes from the settings."""
    from aar.transports.cli.sandbox import setup

    return setup(
        distro=distro, install_path=install_path, rootfs_url=rootfs_url, packages=packages, force=force, flags=flags
    )


def sandbox_status(*, distro: DistroName = None, flags: LogFlags = LogFlags()) -> int:
    """Show the distribution of the settings, and what there is of it."""
    from aar.transports.cli.sandbox import status

    return status(distro=distro, flags=flags)


def sandbox_reset(
    *,
    distro: DistroName = None,
    rootfs_url: RootfsUrl = None,
    packages: PackageNames = None,
    yes: Annotated[bool, Parameter(alias="-y", negative="", help="Do not ask for the name.")] = False,
    flags: LogFlags = LogFlags(),
) -> int:
    """Throw the distribution away, with all its files, and make it anew."""
    from aar.transports.cli.sandbox import reset

    return reset(distro=distro, rootfs_url=rootfs_url, packages=packages, yes=yes, flags=flags)


def init(
    *, force: Annotated[bool, Parameter(alias="-f", negative="", help="Write over files that are there.")] = False
) -> int:
    """Write a config file, rules, themes and examples into ~/.aar."""
    from aar.transports.cli.init import init

    return init(force=force)


UserFolder = Annotated[
    Path | None, Parameter(name="--user-dir", metavar="DIR", help="Look here instead of in ~/.aar/extensions.")
]
ProjectFolder = Annotated[
    Path | None,
    Parameter(
        name="--project-dir", metavar="DIR", help="Look here instead of in .aar/extensions and .agent/extensions."
    ),
]
ExtensionName = Annotated[str, Parameter(name="NAME", help="Name of an extension, as `aar extensions` lists it.")]


def extensions_list(*, user_dir: UserFolder = None, project_dir: ProjectFolder = None) -> int:
    """List the extensions there are, without running anything of them."""
    from aar.transports.cli.extensions import listing

    return listing(user_dir=user_dir, project_dir=project_dir)


def extensions_inspect(
    name: ExtensionName, /, *, user_dir: UserFolder = None, project_dir: ProjectFolder = None
) -> int:
    """Load an extension and show what it brings."""
    from aar.transports.cli.extensions import inspect

    return inspect(name, user_dir=user_dir, project_dir=project_dir)


def extensions_trust(
    *names: Annotated[ExtensionName, Parameter(required=True)],
    yes: Annotated[bool, Parameter(alias="-y", negative="", help="Do not ask: I have read it.")] = False,
    revoke: Annotated[bool, Parameter(negative="", help="Trust it no longer.")] = False,
) -> int:
    """Let extensions of this project run, until a file of theirs changes."""
    from aar.transports.cli.extensions import trust_them

    return trust_them(names, says_yes=yes, revoke=revoke)


def install(
    package: Annotated[str, Parameter(name="PACKAGE", help="Name of a package, or path of a file or folder.")], /
) -> int:
    """Install a package that brings extensions, with pip."""
    from aar.transports.cli.extensions import install

    return install(package)


def version() -> int:
    """Print the version."""
    from aar.transports.cli.show import version

    return version()
