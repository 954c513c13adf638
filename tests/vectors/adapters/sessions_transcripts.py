"""Transcripts: parsing, opening, migration, context, appending, branching, listing, repair: spec/sessions.md 4, 5."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stores.provider_messages import BRANCH_INTRO, COMPACTION_INTRO, to_provider_messages
from stores.transcript_context import message_of, settings_of, visible_entries
from stores.transcript_entries import entry_of, header_version, is_header, migrate, parse_line
from stores.transcript_facts import summarise_transcript
from stores.transcript_forks import create_branched_session, fork_session
from stores.transcript_tree import index_by_id, path_to
from stores.transcripts import Transcript
from tests.builders import assistant, user
from tests.vectors.runner import Case
from turngraph.clock import DerivedIds, FixedClock, iso_ms
from turngraph.messages import Message, block_text

TOPIC = "sessions"
NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
HEADER = {"type": "session", "version": 3, "id": "sess-1", "timestamp": "2026-03-16T00:00:00.000Z", "cwd": "/work"}
PI_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_[0-9a-f-]{36}\.jsonl")


def _opened(path: Path) -> Transcript:
    return Transcript.open(path, session_id="(new)", clock=FixedClock(NOW), ids=DerivedIds("v"), cwd="/work")


def _in_folder(run: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder) / "s.jsonl")


def _write(path: Path, case: Case) -> None:
    """Write the file that a case starts from, if it has one."""
    text = case.input.get("text", case.input.get("existingFile"))
    entries = case.input.get("entries")
    if entries is not None:
        text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in [HEADER, *entries])
    if text is not None:
        path.write_bytes(text.encode())


def parse(case: Case) -> Any:
    lines = case.input["text"].encode().split(b"\n")
    parsed = [raw for line in lines if (raw := parse_line(line)) is not None]
    return [{"type": raw.get("type"), "id": raw.get("id")} for raw in parsed]


def open_file(case: Case) -> Any:
    def run(path: Path) -> Any:
        _write(path, case)
        before = path.read_bytes() if path.exists() else None
        transcript = _opened(path)
        after = path.read_bytes() if path.exists() else None
        entries = transcript.entries()
        return {
            "entries": len(entries),
            "leafIsLast": transcript.leaf_id == (entries[-1].id if entries else None),
            "headerId": transcript.session_id,
            "fileExists": after is not None,
            "fileLines": None if after is None else sum(1 for line in after.split(b"\n") if line.strip()),
            "fileUnchanged": before == after,
            "name": transcript.context().name,
        }

    return _in_folder(run)


def migrate_entries(case: Case) -> Any:
    rows = list(enumerate(case.input["entries"], 1))
    header = next((raw for _, raw in rows if is_header(raw)), None)
    known = {raw.get("id") for _, raw in rows}
    migrated = [raw for _, raw in migrate(rows, header_version(header), str(header["id"]) if header else "s")]
    new = [raw["id"] for raw in migrated if raw.get("id") not in known and not is_header(raw)]
    names = {own: f"#{number}" for number, own in enumerate(new, 1)}
    renamed = [
        {key: names.get(value, value) if isinstance(value, str) else value for key, value in raw.items()}
        for raw in migrated
    ]
    return {"entries": renamed, "newIdsAre8Hex": all(re.fullmatch("[0-9a-f]{8}", own) for own in new)}


def build_context(case: Case) -> Any:
    entries = [entry_of(raw) for raw in case.input["entries"]]
    by_id = index_by_id(entries)
    leaf = case.input.get("leafId", "")
    if leaf is not None and leaf not in by_id:
        leaf = entries[-1].id if entries else None
    path = path_to(by_id, leaf)
    found = settings_of(path)
    return {
        "messages": [_brief(message_of(entry)) for entry in visible_entries(path)],
        "thinkingLevel": found.thinking_level or "off",
        "model": {"provider": found.model[0], "modelId": found.model[1]} if found.model else None,
    }


def _brief(message: Message) -> Any:
    if message.role in ("compactionSummary", "branchSummary", "custom"):
        return message.raw
    shown = [block_text(block) if "text" in block else block.get("type") for block in message.blocks]
    return {"role": message.role, "text": "|".join(str(text) for text in shown)}


def append_and_flush(case: Case) -> Any:
    def run(path: Path) -> Any:
        _write(path, case)
        transcript = _opened(path)
        operations: dict[str, Callable[[], object]] = {
            "user": lambda: transcript.append_message(user("q")),
            "assistant": lambda: transcript.append_message(assistant("a")),
            "model": lambda: transcript.append_model_change("p", "m"),
            "thinking": lambda: transcript.append_thinking_level("high"),
            "custom": lambda: transcript.append_custom("x", {"n": 1}),
            "compaction": lambda: transcript.append_compaction("S", transcript.leaf_id or "", 1),
            "info": lambda: transcript.append_session_info("name"),
        }
        lines = []
        for operation in case.input["ops"]:
            operations[operation]()
            lines.append(sum(1 for line in path.read_bytes().split(b"\n") if line.strip()))
        entries = transcript.entries()
        position = {entry.id: index for index, entry in enumerate(entries)}
        return {
            "linesAfterEachOp": lines,
            "parentIndex": [position[entry.parent_id] if entry.parent_id else None for entry in entries],
        }

    return _in_folder(run)


def branched(case: Case) -> Any:
    def run(path: Path) -> Any:
        _write(path, case)
        new = create_branched_session(_opened(path), case.input["leafId"], clock=FixedClock(NOW), ids=DerivedIds("b"))
        copy = _opened(new)
        return {
            "fileWritten": new.exists(),
            "nameMatches": PI_NAME.fullmatch(new.name) is not None,
            "parentSessionIsSource": copy.header["parentSession"] == str(path),
            "cwd": copy.header["cwd"],
            "ids": [entry.id for entry in copy.entries()],
            "parents": [entry.parent_id for entry in copy.entries()],
        }

    return _in_folder(run)


def summary(case: Case) -> Any:
    def run(path: Path) -> Any:
        _write(path, case)
        facts = summarise_transcript(path, clock=FixedClock(NOW), ids=DerivedIds("s"))
        return {
            "id": facts.session_id,
            "cwd": facts.cwd,
            "name": facts.name,
            "messageCount": facts.message_count,
            "firstMessage": facts.first_message,
            "allMessagesText": facts.text,
            "created": iso_ms(facts.created) if facts.created else None,
            "modified": iso_ms(facts.modified),
        }

    return _in_folder(run)


def to_llm(case: Case) -> Any:
    text = json.dumps([message.raw for message in to_provider_messages(map(Message, case.input["messages"]))])
    shown = text.replace(json.dumps(COMPACTION_INTRO)[1:-1], "{{compaction_intro}}")
    return json.loads(shown.replace(json.dumps(BRANCH_INTRO)[1:-1], "{{branch_intro}}"))


def repair(case: Case) -> Any:
    """Open, and append one entry where that mends the file; the entry itself is left out of what is compared."""

    def run(path: Path) -> Any:
        _write(path, case)
        if not path.exists():
            return _repair_result("missing session file", 0, [])
        before = path.read_bytes()
        transcript = _opened(path)
        dropped = len(transcript.report.broken_lines) + (transcript.report.torn_bytes > 0)
        if transcript.session_id == "(new)" and not transcript.entries():
            headless = any("no session header" in text for text in transcript.report.repairs)
            return _repair_result("invalid session header" if headless else "empty session file", dropped, [path.name])
        if not dropped:
            return _repair_result(None, 0, [path.name])
        transcript.append_custom("x")
        backup = next(file for file in path.parent.iterdir() if file != path)
        after = b"".join(path.read_bytes().splitlines(keepends=True)[:-1]).decode()
        files = sorted(re.sub(r"\.bak\..+Z$", ".bak-<pid>-<ms>", file.name) for file in path.parent.iterdir())
        return {
            "repaired": True,
            "droppedLines": dropped,
            "files": files,
            "backupIsOriginal": backup.read_bytes() == before,
            "after": after,
        }

    return _in_folder(run)


def _repair_result(reason: str | None, dropped: int, files: list[str]) -> dict[str, Any]:
    return {"repaired": False, "droppedLines": dropped, "reason": reason, "files": files, "after": "unchanged"}


def fork(case: Case) -> Any:
    def run(path: Path) -> Any:
        if case.input["entries"] is not None:
            _write(path, case)
        before = path.read_bytes() if path.exists() else None
        child = fork_session(path, clock=FixedClock(NOW), ids=DerivedIds("f"))
        if child is None:
            return None
        return {
            "childHasFile": child.exists(),
            "childLines": len(child.read_bytes().splitlines()),
            "namePattern": PI_NAME.fullmatch(child.name) is not None,
            "parentUntouched": path.read_bytes() == before,
        }

    return _in_folder(run)


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "parse_session_entries": parse,
    "open_session_file": open_file,
    "migrate_session_entries": migrate_entries,
    "build_session_context": build_context,
    "build_session_context@2026.9": build_context,
    "build_session_context_at_leaf": build_context,
    "append_and_flush": append_and_flush,
    "create_branched_session": branched,
    "session_info_summary": summary,
    "convert_to_llm": to_llm,
    "repair_session_file": repair,
    "fork_session_from_parent": fork,
}
