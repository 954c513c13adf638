"""Forgetting reaches the texts that traces keep (design decision 14)."""

from __future__ import annotations

from pathlib import Path

from stores.memory.index import MemoryIndex
from stores.traces import TraceStore
from turngraph import open_home
from turngraph.models.scripted import ScriptedModel

SECRET = "The spare key lies under the third stone from the left."


def test_a_forgotten_note_is_gone_from_index_and_trace_texts(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text(f"# Home\n\n- {SECRET}\n- Bread is in the cupboard.\n", encoding="utf-8")
    home = open_home(tmp_path, env={})
    agent = home.agent(model=ScriptedModel(["noted"]))
    agent.run("good morning")
    kept = [path for path in (tmp_path / "traces" / "blobs").iterdir() if SECRET in path.read_text("utf-8")]
    assert kept, "the bootstrap file as it was injected is kept in the trace"
    index: MemoryIndex = agent.memory
    index.sync("test")
    store = TraceStore(home.home.traces_dir)
    planned = index.forget(path="MEMORY.md")
    assert set(store.forget(planned.texts, dry_run=True)) >= set(kept)
    assert all(path.exists() for path in kept)
    store.forget(index.forget(path="MEMORY.md", confirmed=True).texts)
    assert not any(path.exists() for path in kept)
    assert (workspace / "MEMORY.md").exists()
    assert not index.search("spare key").hits
