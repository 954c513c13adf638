"""Where results go: sessions, files, commands, webhooks (spec/scheduling.md C2)."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.scheduling import MAIN, QUIET, Bench, every
from turngraph.scheduled.delivery import DeliveryFailed, check_address, deliver

EVENT = {"jobId": "news", "action": "finished", "summary": "三封新邮件"}


class Receiver(HTTPServer):
    """Keeps the requests that came in; answers with ``status``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.got: list[tuple[str | None, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers.get("Authorization"), json.loads(body)))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the output of tests clean."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path / "home")
    made.home.home.workspace("main", made.agent.settings).mkdir()
    return made


async def send(bench: Bench, sink: dict[str, Any], text: str = "三封新邮件") -> tuple[str, str | None]:
    done = await deliver(text, sink, bench.agent, event=EVENT, heading="news")
    return done.status, done.error


async def test_a_session_gets_the_text_as_a_delivery_mirror(bench: Bench) -> None:
    await bench.agent.turn("hello")
    assert await send(bench, {"kind": "session", "sessionKey": "main"}) == ("delivered", None)
    assert bench.spoken(MAIN)[-1] == ("assistant", "三封新邮件")


async def test_a_session_that_is_not_there_is_made(bench: Bench) -> None:
    await send(bench, {"kind": "session", "sessionKey": "reports"})
    assert bench.spoken("agent:main:reports") == [("assistant", "三封新邮件")]


async def test_a_file_is_appended_to_under_the_users_time_or_replaced(bench: Bench) -> None:
    path = bench.root / "workspace" / "reports" / "news.md"
    for text in ("one", "two"):
        await send(bench, {"kind": "file", "path": "reports/news.md"}, text)
    assert path.read_text().count("## news, 2026-03-16 12:00") == 2
    await send(bench, {"kind": "file", "path": "reports/news.md", "mode": "replace"}, "three")
    assert path.read_text() == "three\n"


@pytest.mark.parametrize("path", ["../../outside.md", "/etc/passwd", "link/x.md"])
async def test_a_file_outside_workspace_and_home_is_refused(bench: Bench, path: str) -> None:
    (bench.root / "workspace" / "link").symlink_to(bench.root.parent)
    status, error = await send(bench, {"kind": "file", "path": path})
    assert status == "not-delivered"
    assert "outside" in str(error)


async def test_a_command_gets_the_text_without_a_shell_and_without_secrets(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_API_KEY", "secret")
    script = (
        "import os, sys; open('out.txt', 'w').write(sys.stdin.read() + sys.argv[1] + str('MAIL_API_KEY' in os.environ))"
    )
    sink = {"kind": "command", "argv": [sys.executable, "-c", script, "$HOME; rm"]}
    assert (await send(bench, sink))[0] == "delivered"
    assert (bench.root / "workspace" / "out.txt").read_text() == "三封新邮件$HOME; rmFalse"


@pytest.mark.parametrize(("script", "timeout_s"), [("raise SystemExit(3)", 30), ("import time; time.sleep(60)", 1)])
async def test_a_command_that_fails_or_hangs_has_not_delivered(bench: Bench, script: str, timeout_s: int) -> None:
    sink = {"kind": "command", "argv": [sys.executable, "-c", script], "timeoutSec": timeout_s}
    assert (await send(bench, sink))[0] == "not-delivered"


async def test_a_webhook_gets_the_event_and_the_bearer_token(
    bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "t0ken")
    sink = {"kind": "webhook", "url": receiver.url, "tokenEnv": "HOOK_TOKEN"}
    assert await send(bench, sink) == ("delivered", None)
    assert receiver.got == [("Bearer t0ken", EVENT)]


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_a_webhook_that_does_not_take_it_has_not_delivered(bench: Bench, receiver: Receiver, status: int) -> None:
    receiver.status = status
    assert (await send(bench, {"kind": "webhook", "url": receiver.url}))[0] == "not-delivered"
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1/x", True),
        ("http://[::1]:80/x", True),
        ("https://localhost/x", True),
        ("https://hooks.example.org/x", True),
        ("https://other.example.org/x", False),
        ("https://hooks.example.org.evil.net/x", False),
        ("http://10.0.0.1/x", False),
        ("ftp://127.0.0.1/x", False),
        ("http:///x", False),
    ],
)
def test_hosts_outside_this_machine_must_be_named(url: str, allowed: bool) -> None:
    if allowed:
        check_address(url, ["hooks.example.org"])
        return
    with pytest.raises(DeliveryFailed):
        check_address(url, ["hooks.example.org"])


async def test_a_failed_delivery_fails_the_run_unless_it_is_best_effort(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home", QUIET)
    sink = {"kind": "file", "path": "../../outside.md"}
    bench.add("strict", every(60), turngraph={"sink": sink})
    bench.add("relaxed", every(60), turngraph={"sink": sink}, delivery={"mode": "none", "bestEffort": True})
    await bench.tick(seconds=60)
    await bench.tick(seconds=1)
    assert bench.store.logs.read("strict")[0]["status"] == "error"
    assert bench.store.logs.read("relaxed")[0]["status"] == "ok"
    assert bench.store.logs.read("relaxed")[0]["deliveryStatus"] == "not-delivered"
