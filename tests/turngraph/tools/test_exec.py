"""``exec``: real processes, their order of output, their limits and their end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stores.media import MediaStore
from tests.turngraph.tools.calls import Call, text_of
from turngraph.tools.exec import ExecTool, child_environment, present
from turngraph.tools.output_buffer import OutputBuffer, plain_text
from turngraph.tools.read import ReadTool
from turngraph.tools.tool import ToolContext, ToolResult

EXEC = ExecTool(grace_s=0.2)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def gone_soon(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.01)  # another process is being reaped: nothing tells us when
    return False


def test_output_and_errors_come_in_their_order(call: Call) -> None:
    result = call(EXEC, command="echo one; echo two >&2; echo three")
    assert text_of(result) == "one\ntwo\nthree\n"
    details = dict(result.details)
    assert isinstance(details.pop("durationMs"), int)
    assert details == {"status": "completed", "exitCode": 0, "workdir": "."}
    assert not result.is_error


def test_a_command_that_says_nothing(call: Call) -> None:
    assert text_of(call(EXEC, command="true")) == "(no output)"


def test_a_failing_command_is_an_error_with_its_code(call: Call) -> None:
    result = call(EXEC, command="echo nearly; exit 3")
    assert text_of(result) == "nearly\n\nCommand exited with code 3"
    assert (result.is_error, result.details["status"], result.details["exitCode"]) == (True, "failed", 3)
    assert text_of(call(EXEC, command="grep nothing /dev/null")) == "(no output)\n\nCommand exited with code 1"


def test_what_cannot_be_passed_to_a_shell_is_refused(call: Call) -> None:
    for command in ("echo a\x00b", "echo \ud83d"):
        assert call(EXEC, command=command).details["code"] == "BAD_ARGUMENT"


def test_a_signal_is_named(call: Call) -> None:
    result = call(EXEC, command="kill -9 $$")
    assert text_of(result) == "(no output)\n\nCommand ended by signal 9"
    assert (result.details["exitCode"], result.details["signal"]) == (None, "SIGKILL")


def test_it_runs_in_the_workspace_or_a_folder_inside(workspace: Path, call: Call) -> None:
    (workspace / "inner").mkdir()
    assert text_of(call(EXEC, command="pwd -P")).strip() == os.path.realpath(workspace)
    result = call(EXEC, command="pwd -P", workdir="inner")
    assert text_of(result).strip().endswith("/inner")
    assert result.details["workdir"] == "inner"
    assert call(EXEC, command="pwd", workdir="..").details["code"] == "NOT_ALLOWED"
    assert call(EXEC, command="pwd", workdir="none").details["code"] == "NOT_FOUND"


def test_input_is_closed_and_background_is_refused(call: Call) -> None:
    assert text_of(call(EXEC, command="cat; echo end")) == "end\n"
    result = call(EXEC, command="sleep 1", background=True, yieldMs=10)
    assert "foreground" in text_of(result)
    assert result.is_error


def test_secrets_and_own_settings_are_not_passed_on(tmp_path: Path) -> None:
    environ = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "x",
        "GH_TOKEN": "x",
        "db_password": "x",
        "MY_SECRET": "x",
        "PGPASSWD": "x",
        "TURNGRAPH__MODEL": "x",
        "TURNGRAPH_HOME": "/h",
        "KEYBOARD": "de",
    }
    env = child_environment(environ, {"API_TOKEN": "asked for"}, tmp_path)
    assert env == {
        "PATH": "/bin",
        "TURNGRAPH_HOME": "/h",
        "KEYBOARD": "de",
        "API_TOKEN": "asked for",
        "TURNGRAPH_MEDIA": str(tmp_path),
    }


def test_the_command_sees_the_environment_of_the_call(call: Call, tmp_path: Path) -> None:
    result = call(EXEC, command='echo "$A $TURNGRAPH_MEDIA"', env={"A": "日本"})
    assert text_of(result) == f"日本 {tmp_path / 'media'}\n"
    assert call(EXEC, command="true", env={"A=B": "x"}).details["code"] == "BAD_ARGUMENT"


def test_at_the_limit_the_whole_group_ends(workspace: Path, call: Call) -> None:
    started = time.monotonic()
    command = "sleep 60 & echo $! > child; trap '' TERM; echo before; sleep 60; sleep 60"
    result = call(ExecTool(grace_s=0.2), command=command, timeout=1)
    assert time.monotonic() - started < 10
    assert text_of(result) == "before\n\nCommand timed out after 1 seconds"
    assert (result.details["status"], result.details["exitCode"]) == ("timeout", None)
    assert gone_soon(int((workspace / "child").read_text()))


def test_a_command_may_end_politely_at_the_limit(call: Call) -> None:
    result = call(EXEC, command="trap 'echo bye; exit 0' TERM; echo hi; sleep 60 & wait", timeout=1)
    assert text_of(result) == "hi\nbye\n\nCommand timed out after 1 seconds"


def test_the_turn_has_less_time_left_than_the_command_wants(new_context: Callable[..., ToolContext]) -> None:
    async def run() -> ToolResult:
        return await EXEC.execute({"command": "sleep 60", "timeout": 60}, new_context(deadline_s=0.3))

    assert text_of(asyncio.run(run())).endswith("Command timed out after 0.3 seconds")


def test_cancelling_ends_the_command(workspace: Path, new_context: Callable[..., ToolContext]) -> None:
    async def run() -> ToolResult:
        context = new_context()
        started = asyncio.Event()
        context.update = lambda _: started.set()
        task = asyncio.create_task(EXEC.execute({"command": "echo $$ > pid; echo on; sleep 60"}, context))
        await asyncio.wait_for(started.wait(), 10)
        context.cancel.set()
        return await asyncio.wait_for(task, 10)

    result = asyncio.run(run())
    assert text_of(result) == "on\n\nOperation aborted"
    assert (result.is_error, result.details["status"]) == (True, "aborted")
    assert gone_soon(int((workspace / "pid").read_text()))


def test_a_cancelled_task_leaves_no_process(workspace: Path, new_context: Callable[..., ToolContext]) -> None:
    async def run() -> None:
        context = new_context()
        started = asyncio.Event()
        context.update = lambda _: started.set()
        task = asyncio.create_task(EXEC.execute({"command": "echo $$ > pid; echo on; sleep 60"}, context))
        await asyncio.wait_for(started.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert gone_soon(int((workspace / "pid").read_text()))


def test_a_process_left_behind_with_the_output_open_is_ended_and_named(workspace: Path, call: Call) -> None:
    result = call(EXEC, command="sleep 60 & echo $! > child; echo done")
    assert text_of(result).startswith("done\n\n[processes that the command left behind")
    assert not result.is_error
    assert gone_soon(int((workspace / "child").read_text()))


def test_control_sequences_are_removed() -> None:
    raw = b"\x1b[1;31mred\x1b[0m\x1b[2K\r\x1b]0;title\x07 \x1b]8;;http://x\x1b\\link\x1b(B\x08 "
    raw += b"\xe6\x97\xa5\xff\x9b\n\ttab"
    assert plain_text(raw) == ("red\r link 日\ufffd\ufffd\n\ttab", 2)


def test_long_output_shows_its_end_and_keeps_the_rest(workspace: Path, tmp_path: Path, call: Call) -> None:
    result = call(EXEC, command="seq 1 100000")
    text = text_of(result)
    assert len(text.encode()) <= 51_200
    full = result.details["fullOutput"]
    assert text.startswith("98001\n98002\n")
    assert text.endswith(f"99999\n100000\n\n[last 2000 lines of 100000; all of it: {full['path']}]")
    assert full["droppedBytes"] == 0
    assert result.details["truncation"]["truncatedBy"] == "lines"
    assert (tmp_path / full["path"]).read_text() == "".join(f"{n}\n" for n in range(1, 100_001))
    page = call(ReadTool(), path=full["path"], offset=50_000, limit=2)
    assert text_of(page).startswith("50000\n50001\n\n[lines 50000-50001 of 100000;")


def test_the_byte_limit_holds_for_one_long_line(call: Call) -> None:
    text = text_of(call(EXEC, command="head -c 300000 /dev/zero | tr '\\0' x"))
    assert len(text.encode()) <= 51_200
    assert "[last 1 lines of 1; all of it: media/" in text


def test_of_endless_output_the_middle_is_dropped_and_counted(tmp_path: Path, call: Call) -> None:
    result = call(EXEC, command="head -c 20000000 /dev/zero | tr '\\0' y")
    full = result.details["fullOutput"]
    assert full["droppedBytes"] == 20_000_000 - 5 * 1024 * 1024
    assert full["bytes"] < 5 * 1024 * 1024 + 100
    assert f"[{full['droppedBytes']} bytes dropped here]" in (tmp_path / full["path"]).read_text()
    assert f"{full['droppedBytes']} bytes of its middle were dropped" in text_of(result)


def test_live_output_goes_out_at_most_ten_times_a_second(new_context: Callable[..., ToolContext]) -> None:
    seen: list[str] = []

    async def run() -> None:
        context = new_context()
        context.update = seen.append
        await EXEC.execute({"command": "for i in $(seq 1 300); do echo $i; sleep 0.001; done"}, context)

    started = time.monotonic()
    asyncio.run(run())
    assert 1 <= len(seen) <= 10 * (time.monotonic() - started) + 1
    assert seen[0].startswith("1")


@pytest.mark.parametrize("pieces", [[b"abc"], [b"a"] * 50, [b"x" * 7, b"", b"y" * 30]])
def test_the_buffer_keeps_both_ends_in_bounded_memory(pieces: list[bytes]) -> None:
    buffer = OutputBuffer(limit=20)
    for piece in pieces:
        buffer.add(piece)
    whole = b"".join(pieces)
    dropped = max(0, len(whole) - 20)
    assert buffer.dropped_bytes == dropped
    assert buffer.data.startswith(whole[:10])
    assert buffer.data.endswith(whole[-10:])
    assert buffer.end(5) == whole[-5:]
    assert dropped or buffer.data == whole


def test_what_is_shown_never_goes_beyond_the_limit(tmp_path: Path) -> None:
    for unit in ("語\n", "👩‍👩‍👧 ", "x" * 199 + "\n", "\n"):
        output = OutputBuffer()
        output.add((unit * 60_000).encode())
        report: Any = present(output, MediaStore(tmp_path / "media"))
        assert len(report.text.encode()) <= 51_200
        assert "\ufffd" not in report.text
