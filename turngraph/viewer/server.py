"""``turngraph view``: the home as a local web page.

It binds to loopback, answers only requests that name loopback as their host and carry the random token in their
address, and serves pages whose policy allows their own style and script and nothing else.
Source: spec/seeing.md 2.5.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stores.home import Home
from turngraph.config import Settings
from turngraph.errors import NotFound, TurngraphError
from turngraph.viewer.charts import strip_shape
from turngraph.viewer.html import page_policy, render
from turngraph.viewer.live import Follower, server_sent_events
from turngraph.viewer.overview import running, schedules, search_memory, sessions_overview, turn_rows
from turngraph.viewer.report import page_html
from turngraph.viewer.sources import TurnSource
from turngraph.viewer.turn_data import STRIP_TURNS, PageRules, strip_row, turn_page

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
LONGEST_QUERY = 1_000
STYLE, SCRIPT = ("report.css", "view.css"), ("report.js", "view.js")


def new_token() -> str:
    """Return a random token for the address."""
    return secrets.token_urlsafe(24)


class Guard:
    """Lets only requests through that name loopback as host and the token as the first part of their path."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
        _, token, *rest = (*scope["path"].split("/", 2), "", "")[:3]
        if host not in LOOPBACK or not hmac.compare_digest(token.encode(), self._token.encode()):
            await PlainTextResponse("not found", status_code=404)(scope, receive, send)
            return
        inner = {**scope, "path": f"/{rest[0] if rest else ''}", "root_path": f"/{self._token}"}
        inner.pop("raw_path", None)
        await self._app(inner, receive, send)


def make_app(home: Home, settings: Settings, token: str) -> ASGIApp:
    """Return the application for a home."""
    view = _View(home, settings)
    app = Starlette(
        routes=[
            Route("/", _answering(view.home)),
            Route("/session", _answering(view.session)),
            Route("/turn", _answering(view.turn)),
            Route("/search", _answering(view.search)),
            Route("/schedules", _answering(view.schedules)),
            Route("/live", view.live),
        ]
    )
    return Guard(app, token)


def _answering(page: Callable[[Request], str]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        try:
            html = await run_in_threadpool(page, request)
        except NotFound as error:
            return _page(_message("Not found", str(error)), status=404)
        except TurngraphError as error:
            return _page(_message("This cannot be shown", str(error)), status=500)
        return _page(html)

    return answer


def _page(html: str, status: int = 200) -> Response:
    return HTMLResponse(
        html.encode("utf-8", "replace"),
        status_code=status,
        headers={**SAFE_HEADERS, "content-security-policy": page_policy(STYLE, SCRIPT, server=True)},
    )


SAFE_HEADERS = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def _message(title: str, text: str) -> str:
    return _render("message.html.j2", title=title, text=text)


def _render(template: str, **values: Any) -> str:
    return render(template, style=STYLE, script=SCRIPT, server=True, **values)


class _View:
    """The pages of one home."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self._sources: dict[str, TurnSource] = {}

    def home(self, request: Request) -> str:
        agents = [
            {"id": agent, "sessions": sessions_overview(self._home, self._settings.agent(agent))}
            for agent in self._settings.agent_ids
        ]
        return _render(
            "home.html.j2", title="turngraph", agents=agents, running=running(self._home), home=self._home.root
        )

    def session(self, request: Request) -> str:
        source, key = self._source(request)
        turns = source.reader.turns(session_key=key)
        return _render(
            "session.html.j2",
            title=key,
            key=key,
            agent=source.agent_id,
            rows=list(turn_rows(turns))[::-1],
            strip=strip_shape([strip_row(turn) for turn in turns[-STRIP_TURNS:]], None),
        )

    def turn(self, request: Request) -> str:
        source, key = self._source(request)
        turns = source.turns(key)
        wanted = request.query_params.get("turn", "")
        newest_first = range(len(turns) - 1, -1, -1)
        place = next((i for i in newest_first if wanted in (str(turns[i].turn), turns[i].trace_id)), None)
        if place is None:
            raise NotFound(f"no trace of turn {wanted[:40]} of session {key!r}")
        page = turn_page(
            turns[place],
            turns[max(0, place - STRIP_TURNS) : place],
            source.picture,
            source.texts(turns[place].session_id),
            source.settings,
            PageRules(),
        )
        around = {
            "key": key,
            "agent": source.agent_id,
            "previous": turns[place - 1] if place else None,
            "next": turns[place + 1] if place + 1 < len(turns) else None,
        }
        return page_html([page], around=around, style=STYLE, script=SCRIPT)

    def search(self, request: Request) -> str:
        query = request.query_params.get("q", "")[:LONGEST_QUERY]
        agent = request.query_params.get("agent") or self._settings.default_agent_id
        settings = self._settings.agent(agent)
        found: Mapping[str, Any] = search_memory(self._home, settings, query) if query.strip() else {"hits": []}
        wanted = query.casefold()
        sessions = [
            row for row in sessions_overview(self._home, settings) if wanted.strip() and wanted in row["key"].casefold()
        ]
        return _render(
            "search.html.j2", title="Search", query=query, agent=settings.agent_id, found=found, sessions=sessions
        )

    def schedules(self, request: Request) -> str:
        agents = [
            {"id": agent, **schedules(self._home, self._settings.agent(agent))} for agent in self._settings.agent_ids
        ]
        return _render("schedules.html.j2", title="Schedules", agents=agents)

    async def live(self, request: Request) -> Response:
        follower = Follower(self._home.traces_dir / "live", request.query_params.get("key"))
        return StreamingResponse(server_sent_events(follower), media_type="text/event-stream", headers={**SAFE_HEADERS})

    def _source(self, request: Request) -> tuple[TurnSource, str]:
        agent = request.query_params.get("agent") or self._settings.default_agent_id
        settings = self._settings.agent(agent)
        if settings.agent_id not in self._sources:
            self._sources[settings.agent_id] = TurnSource.of_home(self._home, settings.agent_id)
        source = self._sources[settings.agent_id]
        return source, source.key(request.query_params.get("key", "main"))
