"""The local page, asked as a browser would."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from stores.home import Home
from stores.traces import TraceStore
from turngraph.api import open_home
from turngraph.config import load_settings
from turngraph.replay.samples import write_sample_home
from turngraph.viewer.live import Follower, server_sent_events
from turngraph.viewer.server import make_app

TOKEN = "secret-token"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    root = tmp_path_factory.mktemp("view") / "home"
    write_sample_home(root)
    agent = open_home(root, env={}).agent()
    agent.run("When does the harbour release go out? <script>alert(1)</script>")
    agent.memory.sync("manual", embed=False)
    agent.memory.close()
    return Home(root)


@pytest.fixture
async def client(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(home, load_settings(home.root, env={}), TOKEN)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1/{TOKEN}/") as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("", "agent:main:main"),
        ("session?key=agent:main:main", "prompt tokens"),
        ("turn?key=agent:main:main&turn=1", "What it answered"),
        ("search?q=harbour+release", "of the query"),
        ("schedules", "Heartbeat"),
    ],
)
async def test_every_page_is_served_with_a_strict_policy(client: httpx.AsyncClient, path: str, shows: str) -> None:
    page = await client.get(path)
    assert page.status_code == 200
    assert shows in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "<script>alert" not in page.text


async def test_without_the_token_there_is_nothing(home: Home) -> None:
    app = make_app(home, load_settings(home.root, env={}), TOKEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as outside:
        for path in ("/", "/wrong/", f"/{TOKEN}x/", "/session?key=main", f"//{TOKEN}/"):
            assert (await outside.get(path)).status_code == 404


async def test_another_host_name_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get("", headers={"host": "evil.example"})).status_code == 404


async def test_what_is_not_there_is_said(client: httpx.AsyncClient) -> None:
    page = await client.get("turn?key=agent:main:main&turn=99")
    assert page.status_code == 404
    assert "no trace of turn 99" in page.text
    page = await client.get("session?key=<script>&agent=nobody")
    assert page.status_code == 404
    assert "<script>&" not in page.text


async def test_a_running_turn_is_followed_whichever_process_runs_it(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces")
    follower = Follower(tmp_path / "traces" / "live")
    events = server_sent_events(follower, poll_s=0.01)
    assert (await anext(events)).startswith(b"retry")
    header = {"agent": "main", "session_key": "agent:main:main", "started": "2026-03-16T12:00:00+00:00"}
    spool = store.spool("t1", header)
    spool.write("node_start", {"node": "prune", "ordinal": 0})
    spool.write("node_end", {"node": "prune", "ordinal": 0, "ms": 1.25, "error": None})

    async def news() -> dict[str, object]:
        line = await asyncio.wait_for(anext(events), 5)
        value: dict[str, object] = json.loads(line.removeprefix(b"data: "))
        return value

    assert (await news())["what"] == "started"
    assert (await news())["node"] == "prune"
    assert (await news()) == {
        "what": "node done",
        "node": "prune",
        "ms": 1.2,
        "error": None,
        "trace": "t1",
        "session": "agent:main:main",
    }
    spool.write("message_update", {"text": "hello"})
    assert (await news())["text"] == "hello"
    spool.close()
    assert (await news()) == {"what": "ended", "trace": "t1"}
    await events.aclose()  # type: ignore[attr-defined]


def test_only_the_followed_session_is_told(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces")
    spool = store.spool("t1", {"agent": "main", "session_key": "other", "started": "2026-03-16T12:00:00+00:00"})
    assert Follower(tmp_path / "traces" / "live", "agent:main:main").news() == []
    assert [item["what"] for item in Follower(tmp_path / "traces" / "live", None).news()] == ["started"]
    spool.close()
