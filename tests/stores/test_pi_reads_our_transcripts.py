"""Pi's session manager and ours see the same messages in the same file.

Needs Node 20.6 or newer and the npm package @mariozechner/pi-coding-agent, in the folder that TURNGRAPH_NODE_MODULES
names or in ./node_modules (``make setup-extra``).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stores.transcript_forks import create_branched_session
from stores.transcripts import Transcript
from tests.builders import assistant, call, result, user
from turngraph.clock import RandomIds, SystemClock

ROOT = Path(__file__).parents[2]
PACKAGE = Path("@mariozechner/pi-coding-agent/dist/core/session-manager.js")  # the part of the package that is meant
REAL = ROOT.parent / "shared" / "data" / "transcripts" / "coding-session-v1.jsonl"
SCRIPT = """
const { SessionManager } = await import(process.argv[1]);
const manager = SessionManager.open(process.argv[2]);
const steps = JSON.parse(process.argv[3]);
for (const [name, ...values] of steps) manager[name](...values);
const context = manager.buildSessionContext();
console.log(JSON.stringify({ ...context, leaf: manager.getLeafId(), name: manager.getSessionName() ?? null }));
"""


def _node_is_new_enough(node: str) -> bool:
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= (20, 6)


@pytest.fixture(scope="module")
def pi() -> Callable[..., dict[str, Any]]:
    """Open a file with Pi, do some steps with it, and return what it sees."""
    node = shutil.which("node")
    folders = [Path(os.environ.get("TURNGRAPH_NODE_MODULES", "")), ROOT / "node_modules"]
    package = next((folder / PACKAGE for folder in folders if (folder / PACKAGE).is_file()), None)
    if node is None or package is None or not _node_is_new_enough(node):
        pytest.skip("Pi reads our transcripts: needs Node 20.6+ and @mariozechner/pi-coding-agent (make setup-extra)")

    def see(path: Path, *steps: list[Any]) -> dict[str, Any]:
        command = [node, "--input-type=module", "-e", SCRIPT, "--", package.as_uri(), str(path), json.dumps(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen

    return see


def opened(path: Path, **options: Any) -> Transcript:
    return Transcript.open(path, session_id="sess-1", clock=SystemClock(), ids=RandomIds(), cwd="/work", **options)


def assert_same(seen: dict[str, Any], path: Path) -> None:
    for transcript in (opened(path), opened(path, first_block=1), opened(path, full=True)):
        context = transcript.context()
        assert json.loads(json.dumps([message.raw for message in context.messages])) == seen["messages"]
        assert context.thinking_level == seen["thinkingLevel"]
        model = {"provider": context.model[0], "modelId": context.model[1]} if context.model else None
        assert model == seen["model"]
        assert context.name == seen["name"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A transcript of ours with tool calls, settings, and text in several scripts."""
    transcript = opened(tmp_path / "s.jsonl")
    transcript.append_model_change("anthropic", "claude-test")
    transcript.append_thinking_level("medium")
    transcript.append_session_info("名字 👩‍👩‍👧")
    for turn in range(4):
        for message in (
            user(f"问题 {turn} \u2028 and more"),
            assistant("looking", call(f"t{turn}", path="a.py"), stop="toolUse"),
            result(f"t{turn}", f"result {turn}"),
            assistant(f"答案 {turn}"),
        ):
            transcript.append_message(message)
        transcript.append_custom("openclaw.cache-ttl", {"timestamp": turn})
        transcript.append_custom_message("note", f"note {turn}", display=False)
    return transcript.path


def test_a_plain_session(path: Path, pi: Callable[..., dict[str, Any]]) -> None:
    before = path.read_bytes()
    seen = pi(path)
    assert len(seen["messages"]) == 20
    assert_same(seen, path)
    assert path.read_bytes() == before


def test_two_compactions(path: Path, pi: Callable[..., dict[str, Any]]) -> None:
    transcript = opened(path)
    for back in (9, 3):
        kept = transcript.branch()[-back]
        transcript.append_compaction(f"summary {back}", kept.id, 1_000, details={"readFiles": ["a.py"]})
        transcript.append_message(user(f"after {back}"))
    seen = pi(path)
    assert seen["messages"][0]["role"] == "compactionSummary"
    assert_same(seen, path)


def test_a_moved_leaf_and_a_branch_summary(path: Path, pi: Callable[..., dict[str, Any]]) -> None:
    transcript = opened(path)
    transcript.move_leaf(transcript.branch()[6].id)
    assert_same(pi(path), path)
    transcript.append_message(user("another way"))
    assert_same(pi(path), path)
    transcript.append_branch_summary(transcript.branch()[3].id, "tried another way")
    assert_same(pi(path), path)
    transcript.move_leaf(None)
    assert_same(pi(path), path)


def test_a_rewritten_branch_and_a_branched_file(path: Path, pi: Callable[..., dict[str, Any]]) -> None:
    transcript = opened(path)
    transcript.append_label(transcript.branch()[4].id, "here")
    answer = transcript.append_message(assistant("end"))
    transcript.rewrite_branch({transcript.branch()[5].id: result("t0", "cut")})
    seen = pi(path)
    assert "cut" in json.dumps(seen["messages"])
    assert_same(seen, path)
    copy = create_branched_session(transcript, answer.id, clock=SystemClock(), ids=RandomIds())
    assert_same(pi(copy), copy)


def test_a_mended_file(path: Path, pi: Callable[..., dict[str, Any]]) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[8] = lines[8][:30]
    path.write_bytes(b"\n".join(lines) + b'{"type":"torn')
    opened(path).append_message(user("go on"))
    assert_same(pi(path), path)


def test_what_pi_appended_to_our_file(path: Path, pi: Callable[..., dict[str, Any]]) -> None:
    entries = opened(path).branch()
    answer = {"role": "assistant", "content": [{"type": "text", "text": "from Pi"}], "provider": "p", "model": "m"}
    seen = pi(
        path,
        ["appendMessage", {"role": "user", "content": "from Pi", "timestamp": 5}],
        ["appendCompaction", "Pi's summary", entries[12].id, 500],
        ["appendThinkingLevelChange", "high"],
        ["branch", entries[-1].id],
        ["appendMessage", answer],
        ["appendCompaction", "another", entries[14].id, 500],
        ["appendSessionInfo", "renamed"],
    )
    assert_same(seen, path)


def test_a_real_session_of_version_1(tmp_path: Path, pi: Callable[..., dict[str, Any]]) -> None:
    if not REAL.exists():
        pytest.skip("the shared transcripts are not here")
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    for copy in (ours, theirs):
        shutil.copyfile(REAL, copy)
    assert_same(pi(theirs), ours)
    opened(ours).append_message(user("go on"))
    assert_same(pi(ours), ours)
