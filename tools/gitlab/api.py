"""Where GitLab is and how to get in, and its issues as text."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tools.failing import ServiceError
from tools.rest import Rest

__all__ = ["gitlab_api", "issue_path", "issue_text", "project_path", "reference"]

TIMEOUT = 30.0  # seconds
MAX_DESCRIPTION = 300  # characters, in lists
VERIFY = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def gitlab_api(environ: Mapping[str, str]) -> Rest:
    """The API that GITLAB_URL, GITLAB_TOKEN and GITLAB_SSL_VERIFY describe; quotes around values are taken off.

    Raises:
        ServiceError: there is no token, the address is not http or https, or the certificates cannot be read.
    """
    url = unquoted(environ.get("GITLAB_URL", "")) or "https://gitlab.com"
    token = unquoted(environ.get("GITLAB_TOKEN", ""))
    if not url.startswith(("http://", "https://")):
        raise ServiceError(f"GITLAB_URL is no http or https address: {url}")
    if not token:
        raise ServiceError("GITLAB_TOKEN is not set: create a token with the scope `api` in GitLab's user settings")
    return Rest(
        "GitLab",
        f"{url.rstrip('/')}/api/v4",
        TIMEOUT,
        headers={"PRIVATE-TOKEN": token},
        verify=_verify(unquoted(environ.get("GITLAB_SSL_VERIFY", ""))),
    )


def _verify(value: str) -> bool | ssl.SSLContext:
    if value.lower() in VERIFY:
        return VERIFY[value.lower()]
    try:
        return ssl.create_default_context(cafile=value)
    except OSError as error:
        raise ServiceError(f"GITLAB_SSL_VERIFY is neither yes nor no nor a file of certificates: {error}") from error


def unquoted(value: str) -> str:
    """Without the quotes that some env files keep around a value."""
    return value.strip().strip("\"'").strip()


def project_path(project_id: str | int) -> str:
    """The path of a project by number or `group/name`."""
    project = str(project_id).strip().strip("/")
    if not project:
        raise ValueError("project_id is empty: give the number or the path, as in group/name")
    return f"/projects/{quote(project, safe='')}"


def issue_path(project_id: str | int, issue_iid: int) -> str:
    return f"{project_path(project_id)}/issues/{issue_iid}"


def reference(issue: Mapping[str, Any]) -> str:
    """`group/name#7`."""
    return (issue.get("references") or {}).get("full") or f"#{issue.get('iid')}"


def issue_text(issue: Mapping[str, Any], max_description: int = MAX_DESCRIPTION) -> str:
    """An issue in five lines; the description is cut."""
    description = (issue.get("description") or "").strip()
    if len(description) > max_description:
        description = description[:max_description] + "..."
    return "\n".join(
        [
            f"[{reference(issue)}] {issue.get('title')}",
            f"state: {issue.get('state')}",
            f"labels: {', '.join(issue.get('labels') or []) or 'none'}",
            f"url: {issue.get('web_url')}",
            f"description: {description or 'none'}",
        ]
    )
