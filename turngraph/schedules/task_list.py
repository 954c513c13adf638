"""The ``tasks:`` list that a HEARTBEAT.md of an older release may hold, each with an interval of its own.

Source: spec/scheduling.md A3, Tasks block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from turngraph.config.units import parse_duration_ms
from turngraph.schedules.schedule import LEAST_EVERY_MS
from turngraph.text import js_trim

_BLOCK = re.compile(r"^tasks:[ \t]*\n(?:(?:[ \t]*|[ \t]+\S.*|-[ \t].*)(?:\n|\Z))*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HeartbeatTask:
    """One entry: a name, how often, and what the agent is asked."""

    name: str
    every_ms: int
    prompt: str


@dataclass(frozen=True, slots=True)
class TaskList:
    """The entries of a file; ``problems`` says what is wrong with those that cannot be used, one line each."""

    tasks: tuple[HeartbeatTask, ...] = ()
    problems: tuple[str, ...] = ()


def read_tasks(content: str) -> TaskList:
    """Read the ``tasks:`` list of a task file; what stands around it is left alone.

    >>> read_tasks("tasks:\\n- name: mail\\n  interval: 30m\\n  prompt: Check the mail\\n").tasks
    (HeartbeatTask(name='mail', every_ms=1800000, prompt='Check the mail'),)
    """
    import yaml

    block = _BLOCK.search(content.replace("\r\n", "\n"))
    if block is None:
        return TaskList()
    try:
        rows = yaml.safe_load(block[0])["tasks"]
    except yaml.YAMLError as error:
        return TaskList((), (f"the list cannot be read: {getattr(error, 'problem', None) or type(error).__name__}",))
    tasks, problems = [], []
    for number, row in enumerate(rows if isinstance(rows, list) else [], start=1):
        found = _task(row)
        if isinstance(found, str):
            problems.append(f"entry {number}: {found}")
        else:
            tasks.append(found)
    return TaskList(tuple(tasks), tuple(problems))


def _task(row: Any) -> HeartbeatTask | str:
    given = row if isinstance(row, dict) else {}
    name, prompt = (js_trim(str(given.get(key) or "")) for key in ("name", "prompt"))
    if not name or not prompt:
        return "it needs a name and a prompt"
    try:
        every_ms = parse_duration_ms(str(given.get("interval") or ""), "m")
    except ValueError:
        return f"its interval {given.get('interval')!r} is no duration; write it as 30m or 2h"
    if every_ms < LEAST_EVERY_MS:
        return f"its interval is {every_ms} ms; it must be at least {LEAST_EVERY_MS}"
    return HeartbeatTask(name, every_ms, prompt)
