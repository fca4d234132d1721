from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from mcp import Client, MCPError

from tools.gitlab.server import gitlab_server


def issue(**changes: Any) -> dict[str, Any]:
    kept = {
        "iid": 7,
        "title": "It hangs",
        "state": "opened",
        "labels": ["bug", "now"],
        "web_url": "https://gitlab.example/group/name/-/issues/7",
        "description": "d" * 301,
        "references": {"full": "group/name#7"},
    }
    return kept | changes


BLOCK = (
    "[group/name#7] It hangs\nstate: opened\nlabels: bug, now\n"
    "url: https://gitlab.example/group/name/-/issues/7\ndescription: " + "d" * 300 + "..."
)
NOTES = [
    {"id": 1, "body": "me too", "author": {"username": "ann"}, "created_at": "2027-01-01", "system": False},
    {"id": 2, "body": "closed", "author": {"username": "bob"}, "created_at": "2027-01-02", "system": True},
    {"id": 3, "body": "shh", "author": {"username": "cy"}, "created_at": "2027-01-03", "internal": True},
]
PROJECT = "/api/v4/projects/group%2Fname"


@pytest.fixture
def gitlab(service: Any, answer: Any) -> Iterator[Any]:
    answers: dict[str, Any] = {
        "GET /api/v4/user": {"name": "Ann", "username": "ann", "web_url": "https://gitlab.example/ann"},
        "GET /api/v4/issues": [issue(), issue(iid=8, description=None, labels=[], references=None)],
        f"GET {PROJECT}/issues": [],
        f"GET {PROJECT}/issues/7": issue(),
        f"GET {PROJECT}/issues/7/notes": NOTES,
        f"POST {PROJECT}/issues/7/notes": {"id": 99},
        f"PUT {PROJECT}/issues/7": issue(),
        "GET /api/v4/projects": [{"id": 12, "path_with_namespace": "group/name"}],
        "GET /api/v4/projects/12/issues/7": issue(title="By number"),
        "GET /api/v4/projects/12/issues/7/notes": [],
    }

    def play(request: Any) -> Any:
        found = answers.get(f"{request.method} {request.path}")
        return answer('{"message":"404 Not found"}', status=404) if found is None else answer(json.dumps(found))

    with service(play) as there:
        there.answers = answers
        yield there


@pytest.fixture
def server(gitlab: Any) -> Any:
    return gitlab_server({"GITLAB_URL": f'"{gitlab.url}/"', "GITLAB_TOKEN": " 'glpat-secret' "})


@pytest.mark.covers("BMCP-04")
@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("whoami", {}, "Ann (@ann)  —  https://gitlab.example/ann"),
        (
            "list_my_issues",
            {},
            f"{BLOCK}\n\n[#8] It hangs\nstate: opened\nlabels: none\n"
            "url: https://gitlab.example/group/name/-/issues/7\ndescription: none",
        ),
        ("list_my_issues", {"project_id": "group/name"}, "No issues found."),
        (
            "read_issue",
            {"project_id": "group/name", "issue_iid": 7},
            BLOCK.removesuffix("...") + "d\n\n--- COMMENTS (2) ---\n@ann, 2027-01-01: me too\n"
            "@cy, 2027-01-03 (internal): shh\n\n--- ACTIVITY (1) ---\n@bob, 2027-01-02: closed",
        ),
        (
            "answer_issue",
            {"project_id": "group/name", "issue_iid": 7, "message": "hi"},
            "Comment posted: group/name#7 (note 99)",
        ),
        ("close_issue", {"project_id": "group/name", "issue_iid": 7}, "Issue closed: [group/name#7] It hangs"),
        ("reopen_issue", {"project_id": "group/name", "issue_iid": 7}, "Issue reopened: [group/name#7] It hangs"),
        ("label_issue", {"project_id": "group/name", "issue_iid": 7, "labels": "x"}, "Labels updated → bug, now"),
        ("find_projects", {}, "ID        PATH\n12        group/name"),
        (
            "read_issue",
            {"project_id": "x/y", "issue_iid": 1},
            'error: GitLab API error 404: {"message":"404 Not found"}',
        ),
        (
            "answer_issue",
            {"project_id": "group/name", "issue_iid": 7, "message": " "},
            "error: The message is empty",
        ),
        (
            "read_issue",
            {"project_id": " ", "issue_iid": 7},
            "error: project_id is empty: give the number or the path, as in group/name",
        ),
    ],
)
async def test_each_tool_answers_in_its_form(
    tool: str, arguments: dict[str, Any], text: str, server: Any, call: Any
) -> None:
    async with Client(server) as client:
        assert await call(client, tool, **arguments) == text


@pytest.mark.covers("BMCP-04")
async def test_what_is_asked_of_gitlab(gitlab: Any, server: Any, call: Any) -> None:
    async with Client(server) as client:
        await call(client, "list_my_issues", state="all", labels="a,b", project_id="group/name", limit=5)
        await call(client, "list_my_issues")
        await call(client, "answer_issue", project_id="group/name", issue_iid=7, message="hi", internal=True)
        await call(client, "close_issue", project_id="group/name", issue_iid=7, comment="done")
        await call(client, "label_issue", project_id="group/name", issue_iid=7, labels="")
        assert "By number" in await call(client, "read_issue", project_id=12, issue_iid=7)
    everything, mine, answered, comment, closed, labelled = gitlab.asked[:6]
    assert everything.query == {"scope": "assigned_to_me", "labels": "a,b", "per_page": "5"}
    assert mine.query == {"scope": "assigned_to_me", "state": "opened", "per_page": "20"}
    assert answered.json == {"body": "hi", "internal": True}
    assert (comment.path, comment.json) == (f"{PROJECT}/issues/7/notes", {"body": "done", "internal": False})
    assert (closed.method, closed.json) == ("PUT", {"state_event": "close"})
    assert labelled.json == {"labels": ""}
    assert {request.headers["private-token"] for request in gitlab.asked} == {"glpat-secret"}


async def test_all_comments_are_read_page_by_page(gitlab: Any, server: Any, answer: Any, call: Any) -> None:
    gitlab.answers[f"GET {PROJECT}/issues/7/notes"] = NOTES[:1] * 100
    async with Client(server) as client:
        text = await call(client, "read_issue", project_id="group/name", issue_iid=7)
    assert "--- COMMENTS (500) ---" in text
    assert [request.query["page"] for request in gitlab.asked[1:]] == ["1", "2", "3", "4", "5"]


async def test_too_many_issues_are_not_asked_for(server: Any, call: Any) -> None:
    async with Client(server) as client:
        assert "less than or equal to 50" in await call(client, "list_my_issues", limit=51)


@pytest.mark.covers("BMCP-09")
async def test_the_assigned_issues_are_a_resource(gitlab: Any, server: Any) -> None:
    async with Client(server) as client:
        assert [str(one.uri) for one in (await client.list_resources()).resources] == ["gitlab://issues/assigned"]
        (content,) = (await client.read_resource("gitlab://issues/assigned")).contents
    assert json.loads(content.text) == gitlab.answers["GET /api/v4/issues"]  # type: ignore[union-attr]


async def test_without_a_token_every_call_says_how_to_get_one(call: Any) -> None:
    async with Client(gitlab_server({"GITLAB_TOKEN": "''"})) as client:
        assert len((await client.list_tools()).tools) == 8
        assert (await call(client, "whoami")).startswith("error: GITLAB_TOKEN is not set")
        with pytest.raises(MCPError, match="GITLAB_TOKEN is not set"):
            await client.read_resource("gitlab://issues/assigned")


async def test_a_redirect_does_not_carry_the_token_away(service: Any, answer: Any, call: Any) -> None:
    with service(lambda _: answer("[]")) as other:
        moved = answer("moved", status=302, headers={"Location": other.url})
        with service(lambda _: moved) as there:
            async with Client(gitlab_server({"GITLAB_URL": there.url, "GITLAB_TOKEN": "t"})) as client:
                assert await call(client, "whoami") == "error: GitLab API error 302: moved"
        assert other.asked == []


@pytest.mark.parametrize(
    ("body", "error"), [("<html>", "error: GitLab answered with no JSON: <html>"), ("x" * 10_000_001, "more than")]
)
async def test_an_answer_that_is_none_is_told(body: str, error: str, service: Any, answer: Any, call: Any) -> None:
    with service(lambda _: answer(body)) as there:
        async with Client(gitlab_server({"GITLAB_URL": there.url, "GITLAB_TOKEN": "t"})) as client:
            assert error in await call(client, "whoami")


@pytest.mark.covers("BMCP-05")
async def test_certificates_are_checked_unless_told_otherwise(
    service: Any, answer: Any, call: Any, tmp_path: Path
) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    user = json.dumps({"name": "Ann", "username": "ann", "web_url": "w"})
    expected = {"1": False, "yes": False, "": False, "0": True, "no": True, "False": True, f'"{bundle}"': True}
    reached = {}
    with service(lambda _: answer(user), tls) as there:
        for value in expected:
            variables = {"GITLAB_URL": there.url, "GITLAB_TOKEN": "t", "GITLAB_SSL_VERIFY": value}
            async with Client(gitlab_server(variables)) as client:
                said = await call(client, "whoami")
            reached[value] = said.startswith("Ann")
            assert reached[value] or "CERTIFICATE_VERIFY_FAILED" in said
        nowhere = {"GITLAB_URL": there.url, "GITLAB_TOKEN": "t", "GITLAB_SSL_VERIFY": "/no/such.pem"}
        async with Client(gitlab_server(nowhere)) as client:
            assert "nor a file of certificates: [Errno 2]" in await call(client, "whoami")
    assert reached == expected
