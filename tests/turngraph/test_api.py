"""The public API, and what importing it costs."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import turngraph
from turngraph import Attachment, open_home
from turngraph.errors import NotFound
from turngraph.models.scripted import ScriptedModel

ROOT = Path(__file__).parents[2]


def test_every_exported_name_can_be_imported() -> None:
    assert turngraph.__all__ == sorted(turngraph.__all__)
    for name in turngraph.__all__:
        assert getattr(turngraph, name) is not None


def test_importing_turngraph_imports_nothing_heavy() -> None:
    code = "import sys, turngraph; print([m for m in ('langgraph','prefect','duckdb','pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["--help"], ["sessions", "list"]])
def test_help_and_session_lists_import_neither_prefect_nor_langgraph(tmp_path: Path, arguments: list[str]) -> None:
    if "list" in arguments:
        arguments = [*arguments, "--home", str(tmp_path)]
    code = (
        "import sys; from turngraph.cli.main import run\n"
        f"sys.argv = ['turngraph', *{arguments!r}]\n"
        "try:\n    run()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('langgraph', 'prefect', 'langchain_core') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_snippet_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snippet = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert snippet is not None
    (tmp_path / "my-home" / "workspace").mkdir(parents=True)
    (tmp_path / "my-home" / "workspace" / "MEMORY.md").write_text("- We decided to deploy on Fridays at noon.\n")
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    exec(
        compile(snippet.group(1), "README.md", "exec"),
        {"print": lambda *parts: printed.append(" ".join(map(str, parts)))},
    )
    assert "deploy on Fridays at noon" in printed[0]
    assert any(line.startswith("load_history") for line in printed)


def test_a_turn_runs_from_plain_code_and_inside_a_loop(tmp_path: Path) -> None:
    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel(["one", "two"]))
    assert agent.run("first").text == "one"

    async def inside() -> str:
        return agent.run("second").text

    import asyncio

    assert asyncio.run(inside()) == "two"


async def test_a_stream_gives_words_and_then_the_result(tmp_path: Path) -> None:
    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel(["good day to you"]))
    events = [event async for event in agent.stream("hello")]
    words = "".join(event["text"] for event in events if event["type"] == "message_update")
    assert words == "good day to you"
    assert events[-1]["type"] == "result"
    assert events[-1]["result"].text == "good day to you"


async def test_leaving_a_stream_early_cancels_the_turn(tmp_path: Path) -> None:
    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel(["a long answer"]))
    async for event in agent.stream("hello"):
        if event["type"] == "message_start":
            break
    assert agent.run("again", session_key="agent:main:other").kind in ("text", "silent")


def test_a_script_can_stream_too_and_leave_early(tmp_path: Path) -> None:
    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel(["good day", "never heard", "still here"]))
    events = list(agent.run_stream("hello"))
    assert "".join(event["text"] for event in events if event["type"] == "message_update") == "good day"
    assert events[-1]["result"].text == "good day"
    left = agent.run_stream("again")
    assert next(event for event in left if event["type"] == "message_update")
    left.close()
    assert agent.run("and now?").text == "still here"


def test_a_turn_may_bring_only_a_file(tmp_path: Path) -> None:
    model = ScriptedModel(["thanks"])
    agent = open_home(tmp_path, env={}).agent(model=model)
    agent.run("", attachments=(Attachment(b"plain text", "notes.txt"),))
    text = model.requests[-1].messages[-1].text
    assert "notes.txt" in text
    assert "[User sent media without caption]" in text


def test_an_unknown_agent_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="main"):
        open_home(tmp_path, env={}).agent("nobody")


def test_sessions_and_traces_can_be_read_back(tmp_path: Path) -> None:
    home = open_home(tmp_path, env={})
    agent = home.agent(model=ScriptedModel(["日本語の答え"]))
    result = agent.run("質問")
    transcript = agent.transcript(result.session_key)
    assert [message.text for message in transcript.context().messages] == ["質問", "日本語の答え"]
    (trace,) = agent.traces().turns(session_key=result.session_key)
    assert trace.trace_id == result.trace.trace_id
    assert [run.node for run in trace.nodes] == [run.node for run in result.trace.nodes]


def test_the_turn_after_a_killed_one_makes_its_interruption_visible(tmp_path: Path) -> None:
    spooling = (
        "import sys, time; from pathlib import Path; from stores.traces import TraceStore\n"
        "TraceStore(Path(sys.argv[1]) / 'traces').spool('killed', {'agent': 'main', "
        "'session_key': 'agent:main:main', 'started': '2026-03-16T09:41:00+00:00'})\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", spooling, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.kill()
    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel(["hello"]))
    agent.run("hi")
    errors = [turn.facts["error"] for turn in agent.traces().turns(session_key="agent:main:main")]
    assert sorted(errors, key=str) == [None, "interrupted"]


def test_what_a_turn_searched_by_words_gets_its_vectors_behind_it(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "MEMORY.md").write_text("- We deploy on Fridays at noon.\n")
    (tmp_path / "turngraph.json5").write_text('{agents: {defaults: {memorySearch: {provider: "hash"}}}}')
    asked = {"type": "toolCall", "id": "1", "name": "memory_search", "arguments": {"query": "deploy Fridays"}}
    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel([[asked], "on Fridays"]))
    assert agent.run("When do we deploy?").text == "on Fridays"
    ends = time.monotonic() + 20
    while agent.memory.status().pending and time.monotonic() < ends:
        time.sleep(0.02)
    assert agent.memory.search("deploy Fridays").mode == "hybrid"
    agent.memory.close()
