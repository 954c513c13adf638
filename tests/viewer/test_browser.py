"""The report from disk and the local page in Debian's Chromium, with the network off; skipped where it is absent."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.viewer.replayed import KEY, hostile_messages, played
from turngraph.viewer.turn_data import PageRules

CHROMIUM = shutil.which("chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make setup-extra")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make setup-extra"),
    pytest.mark.filterwarnings("default"),
]
SERIOUS = {"serious", "critical"}


@dataclass
class Watched:
    """A page, and what it did that a quiet page does not do."""

    page: Any
    noises: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Watched]]:
    contexts = []

    def opened(address: str, *, scheme: str = "light", offline: bool = True, scripts: bool = True) -> Watched:
        context = browser.new_context(
            viewport={"width": 1280, "height": 1000}, color_scheme=scheme, offline=offline, java_script_enabled=scripts
        )
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.on("console", lambda message: watched.noises.append(message.text))
        watched.page.on("pageerror", lambda error: watched.noises.append(str(error)))
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("dialog", lambda dialog: watched.noises.append(dialog.message))
        watched.page.goto(address)
        return watched

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reports")
    with ThreadPoolExecutor(1) as pool:  # the browser's driver keeps an event loop on this thread
        source = pool.submit(played, folder, hostile_messages()).result()
    pages = {"one": source.report(KEY, 5, PageRules()), "all": source.report_of_all(KEY, PageRules())}
    addresses = {}
    for name, html in pages.items():
        path = folder / f"{name}.html"
        path.write_bytes(html.encode("utf-8", "replace"))
        addresses[name] = path.as_uri()
    return addresses


def until(page: Any, expression: str) -> None:
    """Wait until an expression holds; the page's own policy forbids the driver's way to wait."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {expression}")


@pytest.mark.parametrize("name", ["one", "all"])
def test_a_hostile_report_is_quiet_with_the_network_off(
    open_page: Callable[..., Watched], reports: dict[str, str], name: str
) -> None:
    watched = open_page(reports[name])
    watched.page.wait_for_timeout(300)
    assert watched.noises == []
    assert watched.requests == [reports[name]]
    assert watched.page.evaluate("window.hacked") is None
    assert watched.page.locator("img, iframe, link").count() == 0


def test_the_keyboard_moves_between_turns_nodes_and_search(
    open_page: Callable[..., Watched], reports: dict[str, str]
) -> None:
    page = open_page(reports["all"]).page
    page.locator("#turn-1").scroll_into_view_if_needed()
    page.keyboard.press("j")
    until(page, "document.activeElement.id === 'turn-2'")
    page.keyboard.press("k")
    until(page, "document.activeElement.id === 'turn-1'")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.id") == "t1-node-0"
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.id") == "t1-node-1"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("jk")
    assert page.evaluate("document.activeElement.value") == "jk"


def test_filter_search_and_hover(open_page: Callable[..., Watched], reports: dict[str, str]) -> None:
    page = open_page(reports["one"]).page
    parts = page.locator(".part")
    whole = parts.count()
    page.locator("input[data-kind=history-message]").uncheck()
    visible = page.locator(".part:visible").count()
    assert 0 < visible < whole
    page.locator("input[data-kind=history-message]").check()
    page.locator("input[type=search]").fill("どうぞよろしく")
    found = page.locator(".part:visible").count()
    assert 0 < found < whole
    assert page.locator(".found").inner_text() == f"{found} of {whole}"
    page.locator("input[type=search]").fill("")
    part = page.locator(".part[data-kind=current-message]")
    assert not part.locator(".origin").is_visible()
    part.hover()
    assert "transcript entry" in part.locator(".origin").inner_text()
    other = page.locator(".part[data-kind=system-section]").first
    other.focus()
    assert other.locator(".origin").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["one", "all"])
def test_axe_finds_no_serious_fault(
    open_page: Callable[..., Watched], reports: dict[str, str], name: str, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = open_page(reports[name], scheme=scheme).page
    found = axe.Axe().run(page).response["violations"]
    faults = [f"{fault['id']}: {fault['nodes'][0]['html'][:160]}" for fault in found if fault["impact"] in SERIOUS]
    assert faults == []


def test_the_static_part_is_readable_with_scripts_off(
    open_page: Callable[..., Watched], reports: dict[str, str]
) -> None:
    page = open_page(reports["one"], scripts=False).page
    assert page.locator("svg.graph").is_visible()
    assert page.locator(".part").first.is_visible()


def test_the_picture_of_light_and_dark_is_made(
    open_page: Callable[..., Watched], reports: dict[str, str], tmp_path: Path
) -> None:
    sizes = []
    for scheme in ("light", "dark"):
        path = tmp_path / f"{scheme}.png"
        open_page(reports["one"], scheme=scheme).page.screenshot(path=str(path))
        sizes.append(path.stat().st_size)
    assert min(sizes) > 20_000
    assert sizes[0] != sizes[1]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    import socket

    import uvicorn

    from stores.home import Home
    from turngraph.api import open_home
    from turngraph.config import load_settings
    from turngraph.replay.samples import write_sample_home
    from turngraph.viewer.server import make_app

    root = tmp_path_factory.mktemp("served") / "home"
    write_sample_home(root)
    agent = open_home(root, env={}).agent()
    agent.run("What did we decide? <script>window.hacked=1</script>")
    listening = socket.create_server(("127.0.0.1", 0))
    app = make_app(Home(root), load_settings(root, env={}), "token")
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/token/", agent
    server.should_exit = True
    thread.join(10)
    agent.memory.close()


def test_the_local_page_is_quiet_and_asks_only_itself(
    open_page: Callable[..., Watched], served: tuple[str, Any]
) -> None:
    address, _ = served
    for path in ("", "session?key=agent:main:main", "turn?key=agent:main:main&turn=1", "search?q=harbour", "schedules"):
        watched = open_page(address + path, offline=False)
        watched.page.wait_for_timeout(200)
        assert watched.noises == []
        assert all(url.startswith((address, "data:")) for url in watched.requests)
        assert watched.page.evaluate("window.hacked") is None


def test_a_turn_is_seen_while_it_runs(open_page: Callable[..., Watched], served: tuple[str, Any]) -> None:
    from stores.traces import TraceStore

    address, agent = served
    page = open_page(address, offline=False).page
    store = TraceStore(agent.home.traces_dir)
    spool = store.spool(
        "live-1", {"agent": "main", "session_key": "agent:main:main", "started": "2026-03-16T12:00:00Z"}
    )
    spool.write("node_start", {"node": "prune", "ordinal": 0})
    page.wait_for_selector(".live.running")
    page.wait_for_selector(".live-nodes li.now")
    spool.write("node_end", {"node": "prune", "ordinal": 0, "ms": 3.0, "error": None})
    until(page, "document.querySelector('.live-nodes li').textContent.includes('3 ms')")
    spool.close()
    page.wait_for_selector(".live:not(.running)")
