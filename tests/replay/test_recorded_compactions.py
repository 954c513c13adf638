"""Summaries on record are used where the replay compacts at the same place; flush turns of the record are no turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import assistant, call, result, user
from tests.recorded import write_transcript
from turngraph.clock import SystemClock
from turngraph.config import load_settings
from turngraph.messages import Message
from turngraph.models.scripted import ScriptedModel
from turngraph.replay.recorded_summaries import Place, is_flush
from turngraph.replay.run import ReplayRun, replay_file
from turngraph.replay.source import read_session

SETS = ("compaction.keepRecentTokens=1000", "compaction.memoryFlush.enabled=false")
RECORDED = "## Goal\nRecorded: the port is 7420, 港口已经确认。"
OLD_FLUSH = "Pre-compaction memory flush. Store durable memories in memory/2026-03-14.md. Nothing to store: NO_REPLY"


def session_messages(turns: int = 14) -> list[Message]:
    messages = []
    for number in range(turns):
        messages += [
            user(f"turn {number}: what stands in src/part{number}.py?"),
            assistant(call(f"c{number}", path=f"src/part{number}.py"), stop="toolUse"),
            result(f"c{number}", f"limit_{number} = {number * 17}\n" * 400),
            assistant(f"limit_{number} is {number * 17}. " + f"Reason {number} holds. " * 120),
        ]
    return messages


def with_compaction(path: Path, kept: str, summary: str = RECORDED) -> Path:
    """Record a compaction that kept everything from entry ``kept`` on, right behind the turn that follows it."""
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    place = next(i for i, line in enumerate(lines) if line["id"] == kept) + 4
    before, after = lines[place - 1], lines[place]
    entry: dict[str, Any] = {
        "type": "compaction",
        "id": "cccccccc",
        "parentId": before["id"],
        "timestamp": before["timestamp"],
        "summary": summary,
        "firstKeptEntryId": kept,
        "tokensBefore": 15_000,
    }
    after["parentId"] = entry["id"]
    lines.insert(place, entry)
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def replayed(path: Path, tmp_path: Path, **options: Any) -> ReplayRun:
    settings = load_settings(tmp_path / "home", sets=SETS, env={}).agent("main")
    return replay_file(path, settings, out=tmp_path / "out", window_tokens=16_000, **options)


def first_kept_of(run: ReplayRun, path: Path) -> str:
    """The entry of the record at which the first compaction of a replay began to keep."""
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    folded = next(d for turn in run.turns for _, d in turn.trace.decisions if d.what == "summarised")
    return str(lines[1 + len(folded.entry_ids)]["id"])


def prompts(run: ReplayRun) -> Sequence[str]:
    return [message.text for turn in run.turns for call in turn.calls for message in call.request.messages]


def test_a_recorded_summary_is_used_where_the_replay_keeps_the_same_tail(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "s.jsonl", session_messages())
    plain = replayed(path, tmp_path)
    assert plain.summary["summaries"].keys() == {"extractive"}
    run = replayed(with_compaction(path, first_kept_of(plain, path)), tmp_path)
    assert run.summary["summaries"]["recorded"] == 1
    assert run.summary["summaries"]["extractive"] < plain.summary["summaries"]["extractive"]
    assert any("Recorded: the port is 7420" in text for text in prompts(run))


def test_a_recorded_summary_stands_at_the_first_message_it_kept(tmp_path: Path) -> None:
    path = with_compaction(write_transcript(tmp_path / "s.jsonl", session_messages()), "00000009")
    session = read_session(path, SystemClock())
    assert {place.role: text for place, text in session.summaries.items()} == {"user": RECORDED}


def test_a_summary_recorded_at_another_place_is_left_alone(tmp_path: Path) -> None:
    path = with_compaction(write_transcript(tmp_path / "s.jsonl", session_messages()), "00000002")
    run = replayed(path, tmp_path)
    assert run.summary["summaries"].keys() == {"extractive"}
    assert not any("Recorded:" in text for text in prompts(run))


def test_a_summariser_writes_what_is_not_on_record(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "s.jsonl", session_messages())
    made = ScriptedModel([assistant(text) for text in [SUMMARY] * 40])
    run = replayed(path, tmp_path, summariser=made)
    assert run.summary["summaries"].get("model", 0) >= 1
    assert any("Ports were checked" in text for text in prompts(run))


SUMMARY = "\n\n".join(
    f"## {heading}\nPorts were checked, part {heading}."
    for heading in ("Decisions", "Open TODOs", "Constraints/Rules", "Pending user asks", "Exact identifiers")
)


@pytest.mark.parametrize("text", [OLD_FLUSH, "写入 memory/2026-03-14.md;没有内容就回答 NO_REPLY"])
def test_a_flush_turn_of_the_record_is_no_user_turn(tmp_path: Path, text: str) -> None:
    messages = [user("hi"), assistant("hello"), user(text), assistant("NO_REPLY"), user("go on"), assistant("yes")]
    session = read_session(write_transcript(tmp_path / "s.jsonl", messages), SystemClock())
    assert [(turn.number, turn.user.text) for turn in session.turns] == [(1, "hi"), (2, "go on")]


@pytest.mark.parametrize("text", ["what is in memory/2026-03-14.md?", "what does NO_REPLY mean?", ""])
def test_a_user_who_names_a_note_or_the_silent_answer_asks_for_a_turn(text: str) -> None:
    assert not is_flush(user(text))


def test_a_tool_result_is_the_same_place_whenever_it_is_stamped() -> None:
    one, other = (Message({**result("c1", "text").raw, "timestamp": at}) for at in (1, 2))
    assert Place.of(one) == Place.of(other) != Place.of(result("c2", "text"))
