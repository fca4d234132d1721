"""The API as an ASGI application, for a server of our own and for programs that have one."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aar.agent import ApprovalCallback
from aar.errors import TransportError
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig
from aar.runtime import Provider, Store, ToolRegistry
from aar.transports.acp_http.finishing import Finishing
from aar.transports.acp_http.requests import parse_request
from aar.transports.http.access import Access
from aar.transports.http.bodies import MOST_BODY, SENDING, check_values
from aar.transports.http.guarding import Guarded
from aar.transports.http.refused import Refused
from aar.transports.runs.embedding import embedded_host
from aar.transports.runs.host import DESCRIPTION, Host
from aar.transports.runs.run import Run

if TYPE_CHECKING:
    from quart import Response
    from quart_trio import QuartTrio

__all__ = ["build_app", "create_acp_asgi_app"]

METHODS = "GET, POST, OPTIONS"
OPEN_PATHS = frozenset({"/ping"})  # need no token, so that a watchdog can look whether the server is there

logger = logging.getLogger(__name__)


def create_acp_asgi_app(
    config: AgentConfig | None = None,
    approval_callback: ApprovalCallback | None = None,
    registry: ToolRegistry | None = None,
    agent_name: str = "aar",
    agent_description: str = DESCRIPTION,
    *,
    token: str = "",
    allow_origins: Iterable[str] = (),
    allow_hosts: Iterable[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    home: Path | None = None,
    store: Store | None = None,
    provider: Provider | None = None,
    mcp_servers: Iterable[McpServer] = (),
) -> QuartTrio:
    """Runs over HTTP, for a server that speaks ASGI under Trio and has a lifespan, such as Hypercorn.

    Without `config` the user's file counts. Without an `approval_callback` every question is answered with no. With a
    `token` everybody needs it. `allow_origins` are the origins of web pages that may use the API, `allow_hosts` the
    names that this machine is called by, which matter without a token. Sessions work in `cwd`, by default the folder of
    now, and are kept in `store`, by default where the settings say. Nothing is opened before the server starts.

    Raises `TransportError` when a package is missing.
    """
    host = embedded_host(
        config,
        approval_callback,
        registry,
        cwd=cwd,
        home=home,
        store=store,
        provider=provider,
        mcp_servers=mcp_servers,
    )
    return build_app(host, Access.of(token, allow_origins, allow_hosts), agent_name, agent_description)


def build_app(host: Host, access: Access, agent_name: str, agent_description: str) -> QuartTrio:
    """The application around a host, which begins and ends with it. Raises `TransportError` without its packages."""
    try:
        from quart_trio import QuartTrio
    except ImportError as error:
        raise TransportError("The HTTP API needs packages that are not there: pip install 'aar-agent[web]'") from error
    app = QuartTrio(__name__, static_folder=None)
    app.config.update(MAX_CONTENT_LENGTH=MOST_BODY, BODY_TIMEOUT=SENDING, RESPONSE_TIMEOUT=None)
    app.url_map.merge_slashes = False
    _Api(app, host, agent_name, agent_description).add_routes()
    finishing = Finishing(app.asgi_app)
    app.asgi_app = Guarded(finishing, access, methods=METHODS, open_paths=OPEN_PATHS)  # type: ignore[method-assign]
    return app


class _Api:
    def __init__(self, app: QuartTrio, host: Host, name: str, description: str) -> None:
        self._app = app
        self._host = host
        self._name = name
        self._description = description

    def add_routes(self) -> None:
        from werkzeug.exceptions import HTTPException

        app = self._app
        app.before_serving(self._begin)
        app.after_serving(self._host.stop)
        app.register_error_handler(Refused, self._refused)
        app.register_error_handler(HTTPException, self._not_understood)
        app.register_error_handler(Exception, self._failed)
        app.add_url_rule("/ping", "ping", self._ping)
        app.add_url_rule("/agents", "agents", self._agents)
        app.add_url_rule("/agents/<name>", "agent", self._agent)
        app.add_url_rule("/runs", "begin", self._begin_run, methods=["POST"])
        app.add_url_rule("/runs/<run_id>", "run", self._run)
        app.add_url_rule("/runs/<run_id>", "resume", self._resume, methods=["POST"])
        app.add_url_rule("/runs/<run_id>/cancel", "cancel", self._cancel, methods=["POST"])
        app.add_url_rule("/runs/<run_id>/events", "events", self._events)
        app.add_url_rule("/sessions/<session_id>", "session", self._session)

    async def _begin(self) -> None:
        await self._app.nursery.start(self._host.run)

    # --- instead of an endpoint -----------------------------------------------------------------

    async def _refused(self, error: Refused) -> Response:
        return self._detail(error.status, str(error))

    async def _not_understood(self, error: Any) -> Response:
        if error.code in (404, 405):
            return self._detail(404, "Not found")
        if error.code == 413:
            return self._detail(413, f"A request may have {MOST_BODY // 1024**2} MiB at most")
        if error.code == 408:
            return self._detail(408, "The request did not come in time")
        return self._detail(error.code or 400, error.name)

    async def _failed(self, error: Exception) -> Response:
        logger.error("a request failed", exc_info=error)  # a wall: one request that fails must not end the others
        return self._detail(500, f"Internal error ({type(error).__name__})")

    def _detail(self, status: int, text: str) -> Response:
        return self._answer({"detail": text}, status)

    def _answer(self, data: dict[str, Any], status: int = 200) -> Response:
        from quart import Response

        return Response(json.dumps(data).encode(), status, content_type="application/json")

    def _long_answer(self, pieces: list[bytes], status: int = 200) -> Response:
        from quart import Response

        from aar.transports.acp_http.encoding import Pieces

        body = Pieces(pieces)
        response = Response(body, status, content_type="application/json")
        response.headers["content-length"] = str(body.size)
        return response

    async def _run_answer(self, run: Run, status: int = 200) -> Response:
        from aar.transports.acp_http.encoding import encoded

        return self._long_answer(await encoded(run.as_data()), status)

    # --- agents ---------------------------------------------------------------------------------

    async def _ping(self) -> Response:
        return self._answer({"status": "ok"})

    async def _agents(self) -> Response:
        return self._answer({"agents": [self._manifest()]})

    async def _agent(self, name: str) -> Response:
        if name != self._name:
            raise Refused(404, f"Agent '{name}' not found")
        return self._answer(self._manifest())

    def _manifest(self) -> dict[str, Any]:
        config = self._host.config
        provider = config.resolve_provider()
        return {
            "name": self._name,
            "description": self._description,
            "input_content_types": ["text/plain"],
            "output_content_types": ["text/plain"],
            "metadata": {"provider": provider.name, "model": provider.model, "max_steps": config.max_steps},
        }

    # --- runs -----------------------------------------------------------------------------------

    async def _begin_run(self) -> Response:
        from quart import request

        body = await request.get_data(True, False, False)
        await check_values(body)
        wanted = parse_request(body, agent_name=self._name, profiles=self._host.config.providers)
        self._host.runs.check_room()
        run = Run(self._name, request=wanted)
        if wanted.mode == "stream":
            return self._stream(run)
        self._host.runs.begin(run)
        if wanted.mode == "async":
            await run.placed.wait()
            return await self._run_answer(run, 202)
        try:
            await run.settled.wait()
        finally:
            run.cancel()  # whoever waited has left; one that is over stays as it is
        return await self._run_answer(run)

    def _stream(self, run: Run) -> Response:
        from quart import Response

        from aar.transports.acp_http.stream import RunStream

        response = Response(RunStream(self._host.runs, run), content_type="text/event-stream")
        response.headers["cache-control"] = "no-cache"
        return response

    async def _run(self, run_id: str) -> Response:
        return await self._run_answer(self._known(run_id))

    async def _resume(self, run_id: str) -> Response:
        self._known(run_id)
        raise Refused(422, "Resume not supported; run is not awaiting")

    async def _cancel(self, run_id: str) -> Response:
        run = self._known(run_id)
        run.cancel()
        await run.settled.wait()
        return await self._run_answer(run)

    async def _events(self, run_id: str) -> Response:
        from aar.transports.acp_http.encoding import encoded_events

        return self._long_answer(await encoded_events(self._known(run_id).events))

    def _known(self, run_id: str) -> Run:
        run = self._host.runs.find(run_id)
        if run is None:
            raise Refused(404, f"Run '{run_id}' not found")
        return run

    # --- sessions -------------------------------------------------------------------------------

    async def _session(self, session_id: str) -> Response:
        described = await self._host.describe(session_id)
        if described is None:
            raise Refused(404, f"Session '{session_id}' not found")
        return self._answer(described)
