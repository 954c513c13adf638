from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from stores.session_reset import next_session, reset_session
from stores.sessions import SessionStore
from turngraph.clock import DerivedIds, FixedClock
from turngraph.errors import NotFound, SessionBusy, StoreError

NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
MAIN = "agent:main:main"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    made = SessionStore(tmp_path / "sessions.json", "main", FixedClock(NOW), DerivedIds("test"))
    made.update(MAIN, {"sessionId": "s1", "label": "mine"})
    (tmp_path / "s1.jsonl").write_text("old\n")
    return made


async def test_a_reset_gives_a_new_id_and_an_archive(store: SessionStore) -> None:
    done = await reset_session(store, MAIN, timeout_ms=0)
    assert (done.previous_id, store.get(MAIN)["sessionId"]) == ("s1", done.session_id)
    assert done.archived is not None
    assert done.archived.read_text() == "old\n"
    assert store.get(MAIN)["label"] == "mine"


async def test_a_reset_waits_for_the_running_turn(store: SessionStore) -> None:
    async with store.turn(MAIN, timeout_ms=0):
        with pytest.raises(SessionBusy):
            await reset_session(store, MAIN, timeout_ms=30)
    assert store.get(MAIN)["sessionId"] == "s1"


async def test_a_reset_of_nothing_is_an_error(store: SessionStore) -> None:
    with pytest.raises(NotFound):
        await reset_session(store, "agent:main:other", timeout_ms=0)


async def test_a_file_that_another_entry_uses_is_left_alone(store: SessionStore) -> None:
    store.update("agent:main:shared", {"sessionId": "s1"})
    done = await reset_session(store, MAIN, timeout_ms=0)
    assert done.archived is None
    assert store.transcript_of(store.get("agent:main:shared")).read_text() == "old\n"


async def test_when_one_of_two_files_cannot_be_archived_both_are_as_before(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.update(MAIN, {"sessionFile": "custom.jsonl"})
    (store.folder / "custom.jsonl").write_text("custom\n")
    before = store.get(MAIN)
    rename = Path.rename

    def refuse_second(self: Path, target: Path) -> Path:
        if self.name == "s1.jsonl":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse_second)
    with pytest.raises(StoreError, match="goes on as it was"):
        await reset_session(store, MAIN, timeout_ms=0)
    assert store.get(MAIN) == before
    assert sorted(path.name for path in store.folder.glob("*.jsonl*")) == ["custom.jsonl", "s1.jsonl"]


def test_a_model_that_a_program_chose_goes_and_the_users_stays() -> None:
    for source, stays in (("auto", False), ("user", True), (None, True)):
        entry = {"sessionId": "s1", "modelOverride": "big", "modelOverrideSource": source}
        assert ("modelOverride" in next_session(entry, "s2", "daily", NOW)) is stays
