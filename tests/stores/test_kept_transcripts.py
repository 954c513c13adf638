"""A transcript that was kept from the last turn tells what the file tells when it is opened anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores.kept_transcripts import KeptTranscripts
from stores.transcripts import Transcript
from tests.builders import assistant, user
from turngraph.clock import DerivedIds, RandomIds, SystemClock

CLOCK = SystemClock()


def opened(path: Path) -> Transcript:
    return Transcript.open(path, session_id="s", clock=CLOCK, ids=RandomIds())


def taken(kept: KeptTranscripts, path: Path) -> Transcript:
    return kept.open(path, session_id="s", clock=CLOCK, ids=RandomIds())


def told(transcript: Transcript) -> dict[str, Any]:
    context = transcript.context()
    return {
        "messages": [(message.entry_id, dict(message.raw)) for message in context.messages],
        "compaction": context.compaction.id if context.compaction else None,
        "thinking": context.thinking_level,
        "model": context.model,
        "name": context.name,
        "leaf": transcript.leaf_id,
    }


def begun(path: Path, kept: KeptTranscripts) -> Transcript:
    """A transcript with two messages whose turn is over."""
    transcript = taken(kept, path)
    transcript.append_message(user("hello"))
    transcript.append_message(assistant("good morning"))
    kept.keep(transcript)
    return transcript


def append(transcript: Transcript, kind: str, number: int) -> None:
    match kind:
        case "user":
            transcript.append_message(user(f"question {number}"))
        case "assistant":
            transcript.append_message(assistant(f"answer {number}"))
        case "model":
            transcript.append_model_change("openai", f"gpt-{number}")
        case "thinking":
            transcript.append_thinking_level("high" if number % 2 else "low")
        case "name":
            transcript.append_session_info(f"name {number}" if number % 3 else "  ")
        case "custom":
            transcript.append_custom_message("note", f"custom {number}")
        case "label":
            if transcript.leaf_id:
                transcript.append_label(transcript.leaf_id, "here")
        case "back":
            ids = [entry.id for entry in transcript.entries()]
            transcript.move_leaf(ids[number % len(ids)] if ids else None)
        case "compaction":
            branch = transcript.branch()
            if branch:
                transcript.append_compaction(f"summary {number}", branch[number % len(branch)].id, 100)


KINDS = ["user", "assistant"] * 4 + ["model", "thinking", "name", "custom", "label", "back", "compaction"]
STEPS = st.lists(st.tuples(st.sampled_from(["mine", "theirs"]), st.sampled_from(KINDS), st.booleans()), max_size=14)


@given(steps=STEPS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whoever_appended_what_a_kept_transcript_tells_the_same(tmp_path_factory: Any, steps: list[Any]) -> None:
    path = tmp_path_factory.mktemp("kept") / "s.jsonl"
    kept = KeptTranscripts()
    mine = taken(kept, path)
    for number, (writer, kind, looks) in enumerate(steps):
        before = path.stat().st_size if path.exists() else 0
        append(mine if writer == "mine" else opened(path), kind, number)
        has_written = path.exists() and path.stat().st_size > before
        if looks and writer == "mine" and has_written:  # a writer sees first what others wrote
            assert told(mine) == told(opened(path))
        if number % 3 == 2:
            kept.keep(mine)
            mine = taken(kept, path)
            assert told(mine) == told(opened(path))


def test_messages_are_the_same_objects_in_the_next_turn(tmp_path: Path) -> None:
    kept, path = KeptTranscripts(), tmp_path / "s.jsonl"
    before = begun(path, kept).context().messages
    opened(path).append_message(user("from elsewhere"))
    again = taken(kept, path)
    assert again.report.mode == "kept"
    assert 0 < again.report.bytes_read < again.report.bytes_total
    after = again.context().messages
    assert [new is old for new, old in zip(after, before, strict=False)] == [True, True]
    assert after[2].text == "from elsewhere"


def test_a_file_that_was_rewritten_is_read_anew(tmp_path: Path) -> None:
    kept, path = KeptTranscripts(), tmp_path / "s.jsonl"
    begun(path, kept)
    text = path.read_bytes().replace(b"good morning", b"GOOD MORNING")
    path.unlink()
    path.write_bytes(text)
    again = taken(kept, path)
    assert again.report.mode != "kept"
    assert [message.text for message in again.context().messages] == ["hello", "GOOD MORNING"]


def test_a_file_that_is_gone_begins_anew(tmp_path: Path) -> None:
    kept, path = KeptTranscripts(), tmp_path / "s.jsonl"
    begun(path, kept)
    path.unlink()
    again = taken(kept, path)
    assert (again.report.mode, again.context().messages) == ("new", ())


def test_after_a_compaction_only_the_visible_part_is_held(tmp_path: Path) -> None:
    kept, path = KeptTranscripts(), tmp_path / "s.jsonl"
    transcript = begun(path, kept)
    taken(kept, path).append_compaction("all of it", transcript.leaf_id or "", 100)
    kept.keep(transcript)
    assert taken(kept, path).report.mode != "kept"


def test_the_transcripts_used_least_recently_make_room(tmp_path: Path) -> None:
    kept = KeptTranscripts(most=2)
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for path in paths:
        begun(path, kept)
    assert [taken(kept, path).report.mode for path in paths] == ["full", "kept", "kept"]
    size = paths[0].stat().st_size
    small = KeptTranscripts(most_bytes=2 * size)
    for path in paths:
        transcript = opened(path)
        small.keep(transcript)
    assert [taken(small, path).report.mode for path in paths] == ["full", "kept", "kept"]


def test_clock_and_ids_are_those_of_the_new_turn(tmp_path: Path) -> None:
    kept, path = KeptTranscripts(), tmp_path / "s.jsonl"
    begun(path, kept)
    again = kept.open(path, session_id="s", clock=CLOCK, ids=DerivedIds("mine"))
    entry = again.append_message(user("next"))
    assert entry.id == DerivedIds("mine").entry(())
