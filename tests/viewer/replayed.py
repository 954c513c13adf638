"""Replayed transcripts for the pages: hostile ones, long ones, many scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.builders import assistant, call, result, user
from tests.recorded import write_transcript
from turngraph.config import load_settings
from turngraph.messages import Message
from turngraph.replay.run import replay_file
from turngraph.viewer.sources import TurnSource

KEY = "agent:main:main"
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked=2'><svg onload=window.hacked=3>",
    "</script><script>window.hacked=4</script><!-- <style>*{display:none}</style> ]]>",
    '" onmouseover="window.hacked=5" x="{{ 7 * 7 }}{% raw %}',
    "javascript:window.hacked=6 <a href='javascript:window.hacked=7'>click</a>",
    "\x00\x01\x1b[31mred\x07\x7f \u202edlrow olleh\u2069 \u2028\u2029 \ufeff",
    "https://evil.example/pixel.gif <link rel=stylesheet href=//evil.example/x.css>",
    "x" * 300_000,
)
SCRIPTS = "发布会改到周五下午三点,在港口 🚢👩‍👩‍👧 — الإصدار يوم الجمعة الساعة الثالثة — どうぞよろしく"


def hostile_messages() -> list[Message]:
    messages: list[Message] = []
    for number, text in enumerate(HOSTILE):
        messages += [
            user(f"{text} {SCRIPTS}"),
            assistant(call(f"c{number}", name=f"read{text[:20]}", path=text[:200]), stop="toolUse"),
            result(f"c{number}", text, name=f"read{text[:20]}"),
            assistant(text[:5000], SCRIPTS),
        ]
    return messages


def long_messages(count: int) -> list[Message]:
    """``count`` messages, of which one turn sees all."""
    messages: list[Message] = []
    for number in range(count // 4):
        messages += [
            user(f"step {number} {SCRIPTS}"),
            assistant(call(f"c{number}", path=f"src/file_{number}.py"), stop="toolUse"),
            result(f"c{number}", f"value_{number} = {number}\n" * 40),
            assistant(f"done {number}"),
        ]
    return messages


def played(folder: Path, messages: Sequence[Message], *, window: int = 200_000) -> TurnSource:
    """Replay messages and return where their report comes from."""
    path = write_transcript(folder / "session.jsonl", messages)
    settings = load_settings(folder / "none", env={}).agent()
    run = replay_file(path, settings, out=folder / "out", window_tokens=window)
    assert run.folder is not None
    return TurnSource.of_folder(run.folder)
