"""What the tools do, without MCP around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.gitlab.api import gitlab_api, issue_path, issue_text, project_path, reference
from tools.rest import Rest

__all__ = ["Issues"]

MAX_DESCRIPTION = 20_000  # characters, of an issue that is read alone
MAX_PAGES = 5  # of 100 notes each


@dataclass(frozen=True)
class Issues:
    """The issues of a GitLab. Each call takes the settings anew, so a missing token is the answer of a call."""

    environ: Mapping[str, str]

    @property
    def api(self) -> Rest:
        return gitlab_api(self.environ)

    async def whoami(self) -> str:
        user = await self.api.call("GET", "/user")
        return f"{user['name']} (@{user['username']})  —  {user['web_url']}"

    async def assigned(self, state: str = "opened", labels: str = "", project_id: str = "", limit: int = 20) -> Any:
        """The raw issues that are assigned to the owner of the token, newest first."""
        params: dict[str, str | int] = {"scope": "assigned_to_me", "per_page": limit}
        params |= {"state": state} if state != "all" else {}
        params |= {"labels": labels} if labels.strip() else {}
        path = f"{project_path(project_id)}/issues" if project_id.strip() else "/issues"
        return await self.api.call("GET", path, params=params) or []

    async def listed(self, state: str, labels: str, project_id: str, limit: int) -> str:
        issues = await self.assigned(state, labels, project_id, limit)
        return "\n\n".join(issue_text(issue) for issue in issues) or "No issues found."

    async def read(self, project_id: str, issue_iid: int) -> str:
        """The issue, what people wrote to it, and what was done to it."""
        issue = await self.api.call("GET", issue_path(project_id, issue_iid))
        notes = await self._notes(project_id, issue_iid)
        comments = [_note(note) for note in notes if not note.get("system")]
        activity = [_note(note) for note in notes if note.get("system")]
        return "\n".join(
            [
                issue_text(issue, MAX_DESCRIPTION),
                f"\n--- COMMENTS ({len(comments)}) ---",
                *comments,
                f"\n--- ACTIVITY ({len(activity)}) ---",
                *activity,
            ]
        )

    async def _notes(self, project_id: str, issue_iid: int) -> list[dict[str, Any]]:
        notes: list[dict[str, Any]] = []
        for page in range(1, MAX_PAGES + 1):
            params = {"sort": "asc", "order_by": "created_at", "per_page": 100, "page": page}
            found = await self.api.call("GET", f"{issue_path(project_id, issue_iid)}/notes", params=params) or []
            notes += found
            if len(found) < 100:
                break
        return notes

    async def answer(self, project_id: str, issue_iid: int, message: str, internal: bool) -> str:
        if not message.strip():
            raise ValueError("The message is empty")
        note = {"body": message, "internal": internal}
        posted = await self.api.call("POST", f"{issue_path(project_id, issue_iid)}/notes", json=note)
        return f"Comment posted: {project_id}#{issue_iid} (note {posted['id']})"

    async def close(self, project_id: str, issue_iid: int, comment: str) -> str:
        if comment.strip():
            await self.answer(project_id, issue_iid, comment, internal=False)
        return "Issue closed: " + await self._change(project_id, issue_iid, state_event="close")

    async def reopen(self, project_id: str, issue_iid: int) -> str:
        return "Issue reopened: " + await self._change(project_id, issue_iid, state_event="reopen")

    async def label(self, project_id: str, issue_iid: int, labels: str) -> str:
        """These labels in place of those it had."""
        path = issue_path(project_id, issue_iid)
        issue = await self.api.call("PUT", path, json={"labels": labels})
        return f"Labels updated → {', '.join(issue.get('labels') or []) or 'none'}"

    async def projects(self, search: str) -> str:
        """Projects of which the owner of the token is a member."""
        params: dict[str, str | int] = {"membership": "true", "simple": "true", "per_page": 50}
        params |= {"search": search} if search.strip() else {}
        found = await self.api.call("GET", "/projects", params=params) or []
        rows = [f"{project['id']!s:<10}{project['path_with_namespace']}" for project in found]
        return "\n".join([f"{'ID':<10}PATH", *rows]) if rows else "No projects found."

    async def _change(self, project_id: str, issue_iid: int, **change: str) -> str:
        issue = await self.api.call("PUT", issue_path(project_id, issue_iid), json=change)
        return f"[{reference(issue)}] {issue.get('title')}"


def _note(note: Mapping[str, Any]) -> str:
    author = (note.get("author") or {}).get("username", "?")
    kind = " (internal)" if note.get("internal") else ""
    return f"@{author}, {note.get('created_at')}{kind}: {note.get('body')}"
