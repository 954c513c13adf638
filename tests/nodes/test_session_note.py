"""The note of an ended session (spec/sessions.md 6.5, known-faults 6.6 to 6.8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodes.session_note import Said, compose_note, conversation, excerpt, slug
from stores.session_notes import write_note
from tests.turns import TurnBench
from turngraph.errors import ModelError, StoreError
from turngraph.messages import Message


def notes(bench: TurnBench) -> list[Path]:
    return sorted((bench.home.workspace("main", bench.settings) / "memory").glob("*.md"))


async def talk(bench: TurnBench, turns: int) -> None:
    for number in range(turns):
        await bench.turn(f"question {number}", [f"answer {number}"])


async def test_the_note_carries_the_date_of_the_user(tmp_path: Path) -> None:
    """known-faults 6.6: /new at 19:53 UTC is the next day in Shanghai."""
    bench = TurnBench(tmp_path / "home", ("agents.defaults.userTimezone=Asia/Shanghai",))
    bench.clock.at = datetime(2026, 4, 11, 19, 50, tzinfo=UTC)
    await talk(bench, 2)
    bench.clock.advance(timedelta(minutes=3))
    await bench.turn("/new", ["hello"])
    (note,) = notes(bench)
    assert note.name == "2026-04-12-question-0.md"
    assert note.read_text().startswith("# Session: 2026-04-12 03:53:00 Asia/Shanghai\n")


@pytest.mark.parametrize(
    ("sets", "later"),
    [
        (('session.reset={"mode":"daily","atHour":4}',), timedelta(hours=24)),
        (('session.reset={"mode":"idle","idleMinutes":60}',), timedelta(hours=2)),
    ],
)
async def test_an_automatic_reset_leaves_one_note_with_its_reason(
    tmp_path: Path, sets: tuple[str, ...], later: timedelta
) -> None:
    """known-faults 6.7"""
    bench = TurnBench(tmp_path / "home", sets)
    await talk(bench, 4)
    bench.clock.advance(later)
    await bench.turn("back", ["welcome"])
    await bench.turn("more", ["sure"])
    (note,) = notes(bench)
    reason = "daily" if "daily" in sets[0] else "idle"
    assert f"- **Reason**: {reason}" in note.read_text()
    assert 'user: "question 3"' in note.read_text()


async def test_a_session_without_a_user_text_leaves_no_note(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home")
    await bench.turn("/new", ["hello"])
    await bench.turn("/reset", ["hello"])
    assert notes(bench) == []


async def test_the_note_holds_the_last_fifteen_texts(tmp_path: Path) -> None:
    """known-faults 6.8"""
    bench = TurnBench(tmp_path / "home")
    await talk(bench, 15)
    await bench.turn("/new", ["hello"])
    text = notes(bench)[0].read_text()
    assert text.count("user: ") + text.count("assistant: ") == 15
    assert 'assistant: "answer 14"' in text
    assert "question 7" not in text


async def test_a_model_names_the_note_when_it_may(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home", ('hooks.internal.entries={"session-memory":{"llmSlug":true}}',))
    await talk(bench, 1)
    await bench.turn("/new", ["Vendor Pitch", "hello"])
    assert notes(bench)[0].name == "2026-03-16-vendor-pitch.md"


async def test_a_model_that_fails_costs_only_the_name(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home", ('hooks.internal.entries={"session-memory":{"llmSlug":true}}',))
    await talk(bench, 1)
    await bench.turn("/new", [ModelError("down", kind="server"), "hello"])
    assert notes(bench)[0].name == "2026-03-16-question-0.md"


async def test_notes_can_be_switched_off(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home", ('hooks.internal.entries={"session-memory":{"enabled":false}}',))
    await talk(bench, 1)
    await bench.turn("/new", ["hello"])
    assert notes(bench) == []


def message(role: str, text: str, **fields: object) -> Message:
    return Message({"role": role, "content": [{"type": "text", "text": text}], **fields})


def test_only_what_was_said_is_in_the_excerpt() -> None:
    said = conversation(
        [
            message("user", "plan <|im_start|>the trip"),
            message("assistant", "sure\u2028# Heading"),
            message("assistant", "HEARTBEAT_OK"),
            message("assistant", "NO_REPLY"),
            message("user", " /status"),
            message("user", "from another", provenance={"kind": "inter_session"}),
            message("toolResult", "secret output"),
        ]
    )
    assert excerpt(said, 15) == 'user: "plan the trip"\nassistant: "sure\\u2028# Heading"'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("旅行计划", "旅行计划"),
        ("Überraschung für Ana!", "überraschung-für-ana"),
        ("مرحبا بالعالم", "مرحبا-بالعالم"),
        ("👩‍👩‍👧", None),
        ("a" * 29 + " bcd", "a" * 29),
    ],
)
def test_names_keep_letters_of_every_script(text: str, name: str | None) -> None:
    assert slug(text) == name


def test_a_text_without_letters_is_named_by_the_time() -> None:
    note = compose_note(
        [Said("user", "👍")],
        now=datetime(2026, 3, 16, 21, 5, tzinfo=UTC),
        zone=UTC,
        key="agent:main:main",
        session_id="s",
        source="cli",
        count=15,
    )
    assert note is not None
    assert note.stem == "2026-03-16-2105"


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    assert [write_note(tmp_path, "2026-03-16-x", str(n)) for n in range(3)] == [
        "memory/2026-03-16-x.md",
        "memory/2026-03-16-x-2.md",
        "memory/2026-03-16-x-3.md",
    ]
    assert (tmp_path / "memory/2026-03-16-x.md").read_text() == "0"


def test_a_memory_folder_that_leads_outside_gets_no_note(tmp_path: Path) -> None:
    outside, workspace = tmp_path / "outside", tmp_path / "workspace"
    outside.mkdir()
    workspace.mkdir()
    (workspace / "memory").symlink_to(outside)
    with pytest.raises(StoreError):
        write_note(workspace, "x", "y")


async def test_each_of_two_resets_leaves_a_note_of_its_own(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home")
    await talk(bench, 1)
    await bench.turn("/new", ["hello"])
    await talk(bench, 1)
    await bench.turn("/new", ["hello"])
    assert [note.name for note in notes(bench)] == ["2026-03-16-question-0-2.md", "2026-03-16-question-0.md"]
