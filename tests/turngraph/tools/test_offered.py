"""Who gets which tool, and what a call of another is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.turngraph.tools.calls import Call, text_of
from turngraph.config import default_settings
from turngraph.models.model import ToolSpec
from turngraph.tools.offered import FILE_TOOLS, MEMORY_TOOLS, Offer, Run, offer, offered_tools, workspace_access
from turngraph.tools.tool import Tool, ToolContext, ToolResult

ALL = (*FILE_TOOLS, *MEMORY_TOOLS)
MAIN = "agent:main:main"
GROUP = "agent:main:telegram:group:7"


class Named:
    """A tool that only has a name."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name, "", {})

    def file_argument(self, arguments: Any) -> None:
        return None

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult([])


def settings(**changes: Any) -> Any:
    return default_settings().model_copy(update=changes)


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (Run(), ALL),
        (Run(kind="heartbeat"), ALL),
        (Run(kind="cron"), ALL),
        (Run(access="ro"), ("read", *MEMORY_TOOLS)),
        (Run(access="none"), MEMORY_TOOLS),
        (Run(subagent=True), FILE_TOOLS),
        (Run(kind="flush"), ("read", "write")),
        (Run(memory_enabled=False), FILE_TOOLS),
        (Run(chat_type="group"), ALL),
    ],
)
def test_each_run_gets_its_tools(run: Run, names: tuple[str, ...]) -> None:
    made = offer(ALL, run)
    assert made.names == names
    assert {*made.names, *made.unavailable} == set(ALL)


def test_a_reason_completes_the_sentence_that_the_model_is_told() -> None:
    reason = offer(ALL, Run(access="ro")).unavailable["write"]
    assert f"Tool write not found: {reason}." == "Tool write not found: the workspace is read-only."


def test_memory_is_refused_with_a_reason_outside_its_chats_and_stays_in_the_list() -> None:
    assert offer(ALL, Run()).memory_refusal is None
    made = offer(ALL, Run(chat_type="group"))
    assert made.memory_refusal == "memory is not available in group chats"
    assert offer(ALL, Run(chat_type="group", memory_chats=("direct", "group"))).memory_refusal is None


def test_settings_allow_and_deny_by_pattern_and_deny_wins() -> None:
    assert offer(ALL, Run(), allow=["memory_*", "read"]).names == ("read", *MEMORY_TOOLS)
    assert offer(ALL, Run(), allow=["*"], deny=["EXEC", "w*"]).names == ("read", "edit", *MEMORY_TOOLS)
    assert offer(ALL, Run(), allow=["", "  "]).names == ALL
    made = offer(ALL, Run(access="ro"), allow=["write"])
    assert made == Offer((), dict.fromkeys(("read", *MEMORY_TOOLS), "the settings do not allow it") | _changing())


def _changing() -> dict[str, str]:
    return dict.fromkeys(("write", "edit", "exec"), "the workspace is read-only")


def test_a_sandboxed_session_has_the_access_of_its_sandbox(tmp_path: Path) -> None:
    def access(mode: str, rights: str, key: str) -> str:
        sandbox = default_settings().sandbox.model_copy(update={"mode": mode, "workspace_access": rights})
        return workspace_access(settings(sandbox=sandbox), key, tmp_path)

    assert access("off", "none", GROUP) == "rw"
    assert access("non-main", "ro", MAIN) == "rw"
    assert access("non-main", "ro", GROUP) == "ro"
    assert access("all", "none", MAIN) == "none"


def test_a_workspace_that_the_disk_protects_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    assert workspace_access(default_settings(), MAIN, tmp_path) == "ro"
    assert workspace_access(default_settings(), MAIN, tmp_path / "not yet") == "rw"


def test_tools_come_in_a_fixed_order(tmp_path: Path) -> None:
    def memory() -> Sequence[Tool]:
        return [Named(name) for name in reversed(MEMORY_TOOLS)]

    tools, unavailable = offered_tools(default_settings(), GROUP, "user", workspace=tmp_path, memory_tools=memory)
    assert tuple(tool.spec.name for tool in tools) == ALL
    assert unavailable == {}


def test_file_tools_of_a_group_refuse_memory(workspace: Path, call: Call) -> None:
    tools, _ = offered_tools(default_settings(), GROUP, "user", workspace=workspace)
    (workspace / "MEMORY.md").write_text("Birthday: 1 March")
    read, write, edit, _exec = tools
    for result in (
        call(read, path="MEMORY.md"),
        call(write, path="memory/x.md", content="x"),
        call(edit, path="USER.md", oldText="a", newText="b"),
    ):
        assert "memory is not available in group chats" in text_of(result)
        assert result.details["code"] == "NOT_ALLOWED"
