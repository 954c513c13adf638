"""Make the picture of a turn report for the README: replay a sample session and photograph the page.

    python examples/make_picture.py docs/report.png

Needs Chromium and playwright (``make setup-extra``).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from turngraph.config import load_settings
from turngraph.replay.run import replay_file
from turngraph.replay.samples import sample_sessions, write_sample_home
from turngraph.viewer.sources import TurnSource
from turngraph.viewer.turn_data import PageRules

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

WINDOW_TOKENS = 16_000
SIZE: ViewportSize = {"width": 1240, "height": 1130}
INTERESTING = frozenset({"summarised", "flushed", "trimmed", "recalled"})


def make_report(work: Path) -> str:
    """Return the report of the turn of a sample session in which most was decided."""
    write_sample_home(work / "home")
    settings = load_settings(work / "home", env={}).agent()
    sample = sample_sessions(work / "home")[0]
    run = replay_file(
        work / "home/agents/main/sessions" / sample.file,
        settings,
        out=work / "out",
        session_key=sample.session_key,
        window_tokens=WINDOW_TOKENS,
        workspace=work / "home/workspace",
    )
    turn = max(run.turns, key=lambda turn: sum(d.what in INTERESTING for _, d in turn.trace.decisions))
    return TurnSource.of_folder(work / "out").report(turn.trace.session_key, turn.trace.turn, PageRules())


def photograph(html: str, path: Path) -> None:
    """Write a PNG of the top of the page, with a palette to keep it small."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        page_file.write_text(html, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(page_file.as_uri())
        page.screenshot(path=str(path))
        browser.close()
    with Image.open(path) as picture:
        picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=255).save(path, optimize=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        photograph(make_report(Path(temporary)), target)
    print(target, target.stat().st_size)  # noqa: T201
