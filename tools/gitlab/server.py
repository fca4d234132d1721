"""Eight tools and a resource over the issues of a GitLab."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp_types import ToolAnnotations
from pydantic import Field

from tools.failing import ServiceError, told
from tools.gitlab.issues import Issues

__all__ = ["gitlab_server"]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True)
Limit = Annotated[int, Field(ge=1, le=50)]
Project = Annotated[
    str, Field(description="Number or path of the project, as in group/name", coerce_numbers_to_str=True)
]


def gitlab_server(environ: Mapping[str, str] = os.environ) -> MCPServer:
    """The server `gitlab-issues`, for the GitLab that GITLAB_URL and GITLAB_TOKEN name."""
    server = MCPServer("gitlab-issues", instructions="Issues of a GitLab.", log_level="WARNING")
    issues = Issues(environ)
    _add_reading(server, issues)
    _add_writing(server, issues)

    @server.resource("gitlab://issues/assigned", mime_type="application/json")
    async def assigned_issues() -> str:
        """The open issues assigned to you, as GitLab describes them."""
        try:
            return json.dumps(await issues.assigned(limit=50), indent=2, ensure_ascii=False)
        except ServiceError as error:
            raise ResourceError(str(error)) from error

    return server


def _add_reading(server: MCPServer, issues: Issues) -> None:
    @server.tool(annotations=READS, structured_output=False)
    @told
    async def whoami() -> str:
        """Who the token belongs to."""
        return await issues.whoami()

    @server.tool(annotations=READS, structured_output=False)
    @told
    async def list_my_issues(
        state: Literal["opened", "closed", "all"] = "opened",
        labels: str = "",
        project_id: Project = "",
        limit: Limit = 20,
    ) -> str:
        """The issues assigned to you; labels separated by commas."""
        return await issues.listed(state, labels, project_id, limit)

    @server.tool(annotations=READS, structured_output=False)
    @told
    async def read_issue(project_id: Project, issue_iid: int) -> str:
        """An issue with its comments and its history."""
        return await issues.read(project_id, issue_iid)

    @server.tool(annotations=READS, structured_output=False)
    @told
    async def find_projects(search: str = "") -> str:
        """Your projects, with their numbers and paths."""
        return await issues.projects(search)


def _add_writing(server: MCPServer, issues: Issues) -> None:
    @server.tool(annotations=WRITES, structured_output=False)
    @told
    async def answer_issue(project_id: Project, issue_iid: int, message: str, internal: bool = False) -> str:
        """Comment on an issue; internal comments are seen by members only."""
        return await issues.answer(project_id, issue_iid, message, internal)

    @server.tool(annotations=CHANGES, structured_output=False)
    @told
    async def close_issue(project_id: Project, issue_iid: int, comment: str = "") -> str:
        """Close an issue, with a comment if you give one."""
        return await issues.close(project_id, issue_iid, comment)

    @server.tool(annotations=CHANGES, structured_output=False)
    @told
    async def reopen_issue(project_id: Project, issue_iid: int) -> str:
        """Open a closed issue again."""
        return await issues.reopen(project_id, issue_iid)

    @server.tool(annotations=CHANGES, structured_output=False)
    @told
    async def label_issue(project_id: Project, issue_iid: int, labels: str) -> str:
        """Give an issue these labels, separated by commas, in place of those it has."""
        return await issues.label(project_id, issue_iid, labels)
