"""`/allow` and `/revoke`: what is not asked about any more, in this session, in this project, or everywhere."""

from __future__ import annotations

import trio

from aar.config.approvals import SavedApprovals, check_rule
from aar.transports.program.home import home_folder
from aar.transports.terminal.slash import Reply, SlashCommand, SlashCommands, Table

__all__ = ["APPROVALS"]

_SCOPES = {"session": "in this session", "project": "in this project", "global": "everywhere"}


async def _allow(here: SlashCommands, text: str) -> Reply:
    if not text:
        return await _listing(here)
    rule, _, scope = text.rpartition(" ")
    if scope not in _SCOPES or not rule.strip():
        rule, scope = text, "session"
    rule = rule.strip()
    check_rule(rule)
    if scope != "session":
        project = here.handle.cwd if scope == "project" else None
        await trio.to_thread.run_sync(SavedApprovals(home_folder()).add, rule, project)
    await here.handle.auto_approve(rule)
    return Reply(text=f"Allowed {_SCOPES[scope]}: {rule}")


async def _listing(here: SlashCommands) -> Reply:
    saved = await trio.to_thread.run_sync(SavedApprovals(home_folder()).rules_for, here.handle.cwd)
    standing = here.handle.snapshot().standing.entries
    rows = [(rule, "kept" if rule in saved else "this session") for rule in dict.fromkeys([*saved, *standing])]
    if not rows:
        return Reply(text="Nothing is allowed beforehand. Say for example: /allow bash:git status* project")
    return Reply(table=Table("Allowed", ("rule", "how long"), tuple(rows)))


async def _revoke(here: SlashCommands, rule: str) -> Reply:
    if not rule:
        return Reply(problem="Usage: /revoke RULE, as /allow shows it.")
    standing = here.handle.snapshot().standing.entries
    was_kept = await trio.to_thread.run_sync(SavedApprovals(home_folder()).remove, rule, here.handle.cwd)
    if not was_kept and rule not in standing:
        return Reply(problem=f"{rule} was not allowed. /allow shows what is.")
    await here.handle.revoke(rule)
    return Reply(text=f"{rule} is asked about again" + (", also from the next session on." if was_kept else "."))


APPROVALS = (
    SlashCommand(("allow",), "[RULE [project|global]]", "Show what is not asked about, or allow more.", _allow),
    SlashCommand(("revoke",), "RULE", "Ask about it again.", _revoke),
)
