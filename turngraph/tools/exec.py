"""``exec``: run a shell command in the workspace.

Source: spec/tools.md section 5.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stores.media import MediaStore
from turngraph.clock import monotonic_ms
from turngraph.models.model import ToolSpec
from turngraph.tools.line_limits import MAX_BYTES, MAX_LINES, last_lines, split_lines, truncation_facts, utf8_bytes
from turngraph.tools.output_buffer import OutputBuffer, plain_text
from turngraph.tools.paths import place_in_workspace
from turngraph.tools.process_group import GRACE_S, Ended, run_in_group
from turngraph.tools.result import ABORTED_TEXT, NO_OUTPUT, ToolFailure, answered, text_result
from turngraph.tools.tool import ToolContext, ToolResult

DEFAULT_TIMEOUT_S = 120  # spec/settings.md section 6
MAX_TIMEOUT_S = 1800
MEDIA_VARIABLE = "TURNGRAPH_MEDIA"
_SECRET_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD")
_OWN_SETTINGS = "TURNGRAPH__"
_UPDATE_EVERY_MS = 100.0
_NOTICE_BYTES = 160  # room for the notice inside the limit


class ExecTool:
    """Run shell commands.

    Args:
        timeout_s: limit of a command that names none.
        grace_s: seconds from TERM to KILL, and for processes that outlive their command.
        environ: environment to hand on, without its secrets; ``None`` for that of the process.
    """

    spec = ToolSpec(
        "exec",
        "Run a shell command in the workspace and wait for its end; no input, no terminal, no background. Shown are "
        "the last 2,000 lines or 51,200 bytes of its output; the rest stays in media/<sha256>.txt for read. Without "
        "timeout it is stopped at the configured limit (120 s unless set). A code other than 0 is an error result. "
        "Variables that look like secrets are not passed on.",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1},
                "timeout": {"type": "integer", "minimum": 1, "description": "seconds"},
                "workdir": {"type": "string", "description": "folder inside the workspace"},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["command"],
        },
    )

    def __init__(
        self,
        timeout_s: int = DEFAULT_TIMEOUT_S,
        *,
        grace_s: float = GRACE_S,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._environ = environ

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return None

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await answered(self._run(arguments, context), arguments["command"])

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if arguments.get("background") is True:
            raise ToolFailure("BAD_ARGUMENT", "Not allowed: background. Commands run in the foreground; set a timeout.")
        command = arguments["command"]
        if not _can_be_passed(command):
            raise ToolFailure("BAD_ARGUMENT", "Not allowed: the command has a NUL or half a character.")
        folder, name = _folder(arguments.get("workdir"), context.workspace)
        if context.cancel.is_set():
            raise ToolFailure("ABORTED", ABORTED_TEXT)
        timeout_s = self._limit(arguments.get("timeout"), context.deadline_s)
        output = OutputBuffer()
        started = monotonic_ms()
        ended = await run_in_group(
            [*shell(), "-c", command],
            folder,
            child_environment(self._environ, arguments.get("env") or {}, context.media),
            on_output=_live(output, context.update),
            cancel=context.cancel,
            timeout_s=timeout_s,
            grace_s=self._grace_s,
        )
        report = await asyncio.to_thread(present, output, MediaStore(context.media))
        return _result(report, ended, timeout_s, name, round(monotonic_ms() - started))

    def _limit(self, asked_s: float | None, left_s: float | None) -> float:
        limit = min(asked_s or self._timeout_s, max(MAX_TIMEOUT_S, self._timeout_s))
        return limit if left_s is None else max(0.0, min(limit, left_s))


def shell() -> list[str]:
    """Return the shell that runs commands: bash where there is one."""
    return [shutil.which("bash") or "/bin/sh"]


def child_environment(environ: Mapping[str, str] | None, added: Mapping[str, str], media: Path) -> dict[str, str]:
    """Return the environment of a command: no secrets, no settings of ours, what the call adds, the media folder."""
    inherited = os.environ if environ is None else environ
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.upper().endswith(_SECRET_ENDINGS) and not name.startswith(_OWN_SETTINGS)
    }
    for name, value in added.items():
        if not name or "=" in name or not _can_be_passed(name + value):
            raise ToolFailure("BAD_ARGUMENT", f"Not allowed: {name!r} is no variable, or its value has a NUL.")
    return kept | dict(added) | {MEDIA_VARIABLE: str(media)}


def _can_be_passed(text: str) -> bool:
    return not any(char == "\x00" or "\ud800" <= char <= "\udfff" for char in text)


def _folder(given: str | None, workspace: Path) -> tuple[Path, str]:
    if not given:
        return workspace, "."
    place = place_in_workspace(given, workspace)
    folder = place.root.joinpath(*place.parts)
    if not folder.is_dir():
        raise ToolFailure("NOT_FOUND", f"File not found: {given} is no folder of the workspace.")
    return folder, place.name


def _live(output: OutputBuffer, update: Callable[[str], None] | None) -> Callable[[bytes], None]:
    """Return the sink of a running command: keeps its output and shows its end, at most ten times a second."""
    shown_at = -_UPDATE_EVERY_MS

    def take(data: bytes) -> None:
        nonlocal shown_at
        output.add(data)
        if update is not None and (now := monotonic_ms()) - shown_at >= _UPDATE_EVERY_MS:
            shown_at = now
            text, _ = plain_text(output.end(MAX_BYTES))
            update(last_lines(split_lines(text), MAX_LINES, MAX_BYTES).text)

    return take


@dataclass(frozen=True, slots=True)
class Report:
    """Output as a result shows it, with the facts for its details."""

    text: str
    details: Mapping[str, Any]


def present(output: OutputBuffer, media: MediaStore) -> Report:
    """Cut output to what is shown; what is longer goes to the media store whole, as far as it was kept."""
    text, invalid = plain_text(output.data)
    lines = split_lines(text)
    details: dict[str, Any] = {"invalidBytes": invalid} if invalid else {}
    cut = last_lines(lines, MAX_LINES, MAX_BYTES)
    if cut.cut_by is None and not output.dropped_bytes:
        return Report(text, details)
    stored = media.put(text.encode("utf-8"), media_type="text/plain")
    cut = last_lines(lines, MAX_LINES, MAX_BYTES - _NOTICE_BYTES)
    full_output = {"path": stored.path, "bytes": stored.bytes, "droppedBytes": output.dropped_bytes}
    facts = truncation_facts(cut, len(lines), utf8_bytes(text))
    details |= {"truncation": facts | {"truncatedBy": cut.cut_by or "bytes"}, "fullOutput": full_output}
    dropped = f"; {output.dropped_bytes} bytes of its middle were dropped" if output.dropped_bytes else ""
    notice = f"[last {cut.lines} lines of {len(lines)}; all of it: {stored.path}{dropped}]"
    return Report(f"{cut.text}\n\n{notice}", details)


def _result(report: Report, ended: Ended, timeout_s: float, workdir: str, duration_ms: int) -> ToolResult:
    code = ended.exit_code if ended.exit_code is not None and ended.exit_code >= 0 else None
    details: dict[str, Any] = {"status": ended.how, "exitCode": code, "durationMs": duration_ms, "workdir": workdir}
    notes = []
    if ended.left_behind:
        notes.append("[processes that the command left behind still held its output and were ended]")
    if ended.how == "timeout":
        notes.append(f"Command timed out after {timeout_s:g} seconds")
    elif ended.how == "aborted":
        notes.append(ABORTED_TEXT)
        details["code"] = "ABORTED"
    elif ended.exit_code:
        details["status"] = "failed"
        notes.append(f"Command exited with code {code}" if code else f"Command ended by signal {-ended.exit_code}")
    if ended.exit_code is not None and ended.exit_code < 0:
        details["signal"] = _signal_name(-ended.exit_code)
    text = "\n\n".join([report.text.removesuffix("\n") or NO_OUTPUT, *notes]) if notes else report.text
    return text_result(text, details | dict(report.details), is_error=details["status"] != "completed")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name of their own
        return str(number)
