"""Creating a workspace (spec/context.md 2.8)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stores.workspace_setup import STATE_FILE, ensure_workspace, strip_front_matter, template
from turngraph.bootstrap_files import BOOTSTRAP, LOAD_ORDER, SEED_FILES

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def state(workspace: Path) -> dict[str, object]:
    return dict(json.loads((workspace / STATE_FILE).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", LOAD_ORDER)
def test_every_template_is_in_the_package_and_starts_with_a_heading(name: str) -> None:
    assert template(name).startswith("# ")


def test_the_agents_template_has_the_sections_that_a_compaction_refresh_reads() -> None:
    assert {"Session Startup", "Red Lines"} <= set(re.findall(r"^## (.*)$", template("AGENTS.md"), re.MULTILINE))


def test_a_new_workspace_gets_all_files_and_its_state(tmp_path: Path) -> None:
    report = ensure_workspace(tmp_path / "w", NOW)
    assert report.created == (*SEED_FILES, BOOTSTRAP)
    assert state(tmp_path / "w") == {"version": 1, "bootstrapSeededAt": "2026-03-01T12:00:00.000Z"}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("mine", encoding="utf-8")
    assert "SOUL.md" not in ensure_workspace(tmp_path, NOW).created
    assert (tmp_path / "SOUL.md").read_text(encoding="utf-8") == "mine"


def test_setup_is_complete_when_the_agent_has_removed_the_bootstrap_file(tmp_path: Path) -> None:
    ensure_workspace(tmp_path, NOW)
    (tmp_path / BOOTSTRAP).unlink()
    assert ensure_workspace(tmp_path, NOW).created == ()
    assert "setupCompletedAt" in state(tmp_path)
    assert not (tmp_path / BOOTSTRAP).exists()


def test_the_old_spelling_of_the_state_is_read_and_rewritten(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).parent.mkdir()
    (tmp_path / STATE_FILE).write_text('{"onboardingCompletedAt": "2026-01-01T00:00:00.000Z"}', encoding="utf-8")
    (tmp_path / "SOUL.md").write_text("mine", encoding="utf-8")
    ensure_workspace(tmp_path, NOW)
    assert state(tmp_path) == {"version": 1, "setupCompletedAt": "2026-01-01T00:00:00.000Z"}


def test_a_damaged_state_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).parent.mkdir()
    (tmp_path / STATE_FILE).write_text("{", encoding="utf-8")
    assert BOOTSTRAP in ensure_workspace(tmp_path, NOW).created


def test_a_workspace_whose_files_vanished_is_left_alone(tmp_path: Path) -> None:
    ensure_workspace(tmp_path, NOW)
    (tmp_path / BOOTSTRAP).unlink()
    ensure_workspace(tmp_path, NOW)
    for name in SEED_FILES:
        (tmp_path / name).unlink()
    report = ensure_workspace(tmp_path, NOW)
    assert (report.vanished, report.created) == (True, ())
    assert not any((tmp_path / name).exists() for name in SEED_FILES)


def test_without_seeding_only_the_folder_is_made(tmp_path: Path) -> None:
    ensure_workspace(tmp_path / "w", NOW, seed=False)
    assert list((tmp_path / "w").iterdir()) == []


def test_front_matter_without_an_end_is_text() -> None:
    assert strip_front_matter("---\ntitle: x\n") == "---\ntitle: x\n"
