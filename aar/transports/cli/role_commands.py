"""`aar agents` and `aar modes` as they are called; see `commands.py`."""

from typing import Annotated

from cyclopts import Parameter

from aar.transports.program.flags import PromptFlags

__all__ = ["agents_list", "agents_show", "agents_trust", "modes_list", "modes_show", "modes_trust"]

AgentName = Annotated[str, Parameter(name="NAME", help="Name of an agent, as `aar agents` lists it.")]
ModeName = Annotated[str, Parameter(name="NAME", help="Name of a mode, as `aar modes` lists it.")]


def agents_list(*, flags: PromptFlags = PromptFlags()) -> int:
    """List the agents of this folder."""
    from aar.transports.cli.agents import listing

    return listing("agent", flags=flags)


def agents_show(name: AgentName, /, *, flags: PromptFlags = PromptFlags()) -> int:
    """Show what an agent changes, where each value was said, and what it adds to the prompt."""
    from aar.transports.cli.agents import show

    return show("agent", name, flags=flags)


def agents_trust(*names: Annotated[AgentName, Parameter(required=True)], flags: PromptFlags = PromptFlags()) -> int:
    """Let agents of this project allow more than the settings, until their files change."""
    from aar.transports.cli.agents import trust_them

    return trust_them("agent", names, says_yes=flags.yes, flags=flags)


def modes_list(*, flags: PromptFlags = PromptFlags()) -> int:
    """List the modes of this folder."""
    from aar.transports.cli.agents import listing

    return listing("mode", flags=flags)


def modes_show(name: ModeName, /, *, flags: PromptFlags = PromptFlags()) -> int:
    """Show what a mode changes, where each value was said, and what it adds to the prompt."""
    from aar.transports.cli.agents import show

    return show("mode", name, flags=flags)


def modes_trust(*names: Annotated[ModeName, Parameter(required=True)], flags: PromptFlags = PromptFlags()) -> int:
    """Let modes of this project allow more than the settings, until their files change."""
    from aar.transports.cli.agents import trust_them

    return trust_them("mode", names, says_yes=flags.yes, flags=flags)
