"""Writes the sample home of ``turngraph demo``: recorded sessions with the shapes and sizes that real ones have.

    python examples/make_samples.py turngraph/data/samples/home

The texts are invented, the output is the same on every run. What the sessions contain on purpose: tool output from a
few bytes to 45,000 characters, a screenshot, an aborted answer, a line that was cut by a crash, a daily reset, ``/new``,
a topic thread, Chinese and English side by side.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import sys
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MODULES: dict[str, tuple[str, str, str]] = {
    # module: (what it does, its main function, the fault that the session finds in it)
    "berths": ("free berths by length and draught", "find_berth", "a boat as long as the berth is turned away"),
    "tides": ("water level by harmonic constituents", "level_at", "levels are an hour late after the clock change"),
    "invoices": ("monthly invoices with VAT", "make_invoice", "a stay over the month's end is billed twice"),
    "notices": ("mails and texts to skippers", "send_notice", "names with umlauts arrive garbled"),
    "importer": ("bookings from the old spreadsheet", "import_rows", "blank lines end the import in silence"),
    "auth": ("sessions of the harbour office", "check_token", "an expired token is accepted for five minutes more"),
    "reports": ("occupancy per week", "occupancy", "weeks that touch two years are counted in neither"),
    "search": ("boats by name, sail number and owner", "search_boats", "a query with a quote character fails"),
    "pricing": ("season and resident discounts", "price_for", "both discounts are applied to the same day"),
    "sync": ("exchange with the neighbour harbour", "pull_changes", "a change is lost when two arrive in one second"),
    "weather": ("wind warnings from the coast station", "read_bulletin", "gusts are read as mean wind"),
    "export": ("statistics for the port authority", "write_csv", "the file has no header when the month is empty"),
}
STEPS = ("look", "reproduce", "cause", "fix", "test", "review", "commit", "aside")


def png(seed: int, size: int = 40) -> str:
    """Return a small picture as base64."""
    noise = random.Random(seed)
    rows = b"".join(b"\0" + bytes(noise.randrange(256) for _ in range(size * 3)) for _ in range(size))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(picture).decode()


class Recorder:
    """Writes one session: entries in a chain, a clock that runs on, ids that follow from the session id."""

    def __init__(self, session_id: str, start: datetime, model: tuple[str, str, str]) -> None:
        self.session_id = session_id
        self.now = start
        self.provider, self.model, self.api = model
        self.lines: list[str] = []
        self.last: str | None = None
        self.context_tokens = 4_000
        self.random = random.Random(session_id)
        self._calls = 0
        self._raw(
            {"type": "session", "version": 3, "id": session_id, "timestamp": self._iso(), "cwd": "/home/ana/harbour"}
        )
        self.entry("model_change", provider=self.provider, modelId=self.model)
        self.entry("thinking_level_change", thinkingLevel="low")

    def _iso(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.now.microsecond // 1000:03d}Z"

    def _raw(self, value: Json) -> None:
        self.lines.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def entry(self, kind: str, **fields: Any) -> str:
        entry_id = sha256(f"{self.session_id}:{len(self.lines)}".encode()).hexdigest()[:8]
        self._raw({"type": kind, "id": entry_id, "parentId": self.last, "timestamp": self._iso(), **fields})
        self.last = entry_id
        return entry_id

    def _ms(self) -> int:
        return int(self.now.timestamp() * 1000)

    def wait(self, **delta: float) -> None:
        self.now += timedelta(**delta)

    def user(self, text: str, *images: str) -> None:
        self.wait(seconds=self.random.randrange(20, 160))
        blocks: list[Json] = [{"type": "text", "text": text}]
        blocks += [{"type": "image", "data": data, "mimeType": "image/png"} for data in images]
        self.context_tokens += len(text) // 3
        self.entry("message", message={"role": "user", "content": blocks, "timestamp": self._ms()})

    def say(self, *parts: str | Json, stop: str | None = None, error: str | None = None) -> list[str]:
        """Record an answer; texts become text blocks, dicts tool calls. Returns the ids of the calls."""
        self.wait(seconds=self.random.randrange(3, 14))
        blocks: list[Json] = []
        ids = []
        for part in parts:
            if isinstance(part, str):
                blocks.append({"type": "text", "text": part})
                continue
            self._calls += 1
            call_id = f"toolu_{sha256(f'{self.session_id}/{self._calls}'.encode()).hexdigest()[:20]}"
            ids.append(call_id)
            blocks.append({"type": "toolCall", "id": call_id, "name": part["name"], "arguments": part["arguments"]})
        output = sum(len(json.dumps(block)) for block in blocks) // 4
        usage = {
            "input": self.random.randrange(200, 900),
            "output": output,
            "cacheRead": self.context_tokens,
            "cacheWrite": output,
            "totalTokens": self.context_tokens + output + 500,
            "cost": {"input": 0.002, "output": 0.004, "cacheRead": 0.001, "cacheWrite": 0.001, "total": 0.008},
        }
        self.context_tokens += output
        message: Json = {
            "role": "assistant",
            "content": blocks,
            "api": self.api,
            "provider": self.provider,
            "model": self.model,
            "usage": usage,
            "stopReason": stop or ("toolUse" if ids else "stop"),
            "timestamp": self._ms(),
        }
        if error:
            message["errorMessage"] = error
        self.entry("message", message=message)
        return ids

    def result(self, call_id: str, name: str, text: str, *, error: bool = False, image: str | None = None) -> None:
        self.wait(seconds=self.random.randrange(1, 6))
        blocks: list[Json] = [{"type": "text", "text": text}]
        if image:
            blocks.append({"type": "image", "data": image, "mimeType": "image/png"})
        self.context_tokens += len(text) // 4
        raw = {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": blocks}
        self.entry("message", message=raw | {"isError": error, "timestamp": self._ms()})

    def use(
        self, name: str, text: str, *, intro: str = "", error: bool = False, image: str | None = None, **arguments: Any
    ) -> None:
        """Record one tool call with its result."""
        call: Json = {"name": name, "arguments": arguments}
        ids = self.say(*((intro, call) if intro else (call,)))
        self.result(ids[0], name, text, error=error, image=image)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def call(name: str, **arguments: Any) -> Json:
    return {"name": name, "arguments": arguments}


def source(module: str, lines: int, noise: random.Random) -> str:
    """Return a plausible source file of the harbour project."""
    what, function, _ = MODULES[module]
    out = [
        f'"""{module}: {what}."""',
        "",
        "from __future__ import annotations",
        "",
        "from dataclasses import dataclass",
    ]
    out += ["from datetime import date, datetime, timedelta", "", "from harbour.store import Store, rows", ""]
    fields = [
        "boat",
        "owner",
        "berth",
        "start",
        "end",
        "length_cm",
        "draught_cm",
        "sail_number",
        "amount_cents",
        "zone",
    ]
    while len(out) < lines:
        name = (
            noise.choice(("check", "load", "merge", "plan", "split", "format", "count", "apply"))
            + "_"
            + noise.choice(fields)
        )
        left, right = noise.sample(fields, 2)
        out += ["", f"def {name}(store: Store, {left}: str, {right}: int = {noise.randrange(2, 90)}) -> list[dict]:"]
        out += [f'    """Return the {left} rows that {module} needs, newest first."""', "    found = []"]
        out += [f"    for row in rows(store, table={module!r}, where={left!r}):"]
        out += [
            f"        if row[{right!r}] is None or row[{right!r}] < {noise.randrange(1, 400)}:",
            "            continue",
        ]
        out += [
            f"        row = dict(row, {right}=row[{right!r}] + {noise.randrange(1, 9)})",
            "        found.append(row)",
        ]
        out += [f"    return sorted(found, key=lambda row: (row[{left!r}], row[{right!r}]), reverse=True)", ""]
    out += ["", f"def {function}(store: Store, day: date) -> dict:", f'    """Main entry: {what}."""']
    out += ["    plan = {}", f"    for row in rows(store, table={module!r}):"]
    out += ["        if row['start'] <= day < row['end']:", "            plan[row['berth']] = row", "    return plan"]
    return "\n".join(f"{number:5d}\t{line}" for number, line in enumerate(out, start=1))


def test_run(module: str, failing: bool, cases: int, noise: random.Random) -> str:
    """Return the output of a test run."""
    out = [
        "============================= test session starts ==============================",
        "platform linux -- Python 3.12.4, pytest-8.3.2",
    ]
    out += ["rootdir: /home/ana/harbour", f"collected {cases} items", ""]
    for number in range(cases):
        state = "FAILED" if failing and number == cases - 2 else "PASSED"
        out.append(
            f"tests/test_{module}.py::test_{noise.choice(('edge', 'range', 'blank', 'order', 'money', 'zone'))}_{number:02d} {state} [{100 * (number + 1) // cases:3d}%]"
        )
    if failing:
        _, function, fault = MODULES[module]
        out += [
            "",
            "=================================== FAILURES ===================================",
            f"____ test_{function} ____",
            "",
        ]
        out += [
            f"    def test_{function}(store):",
            f">       assert {function}(store, date(2026, 3, 29)) == expected",
            f"E       AssertionError: {fault}",
        ]
        out += [
            f"E         left:  {noise.randrange(10**8):08d}",
            f"E         right: {noise.randrange(10**8):08d}",
            "",
            f"tests/test_{module}.py:{noise.randrange(20, 180)}: AssertionError",
        ]
        out += [
            f"FAILED tests/test_{module}.py::test_{function} - AssertionError",
            f"========================= 1 failed, {cases - 1} passed in {noise.random() * 4:.2f}s =========================",
        ]
    else:
        out.append(
            f"============================== {cases} passed in {noise.random() * 4:.2f}s =============================="
        )
    return "\n".join(out)


def server_log(lines: int, noise: random.Random) -> str:
    """Return a long server log."""
    out = []
    moment = datetime(2026, 3, 29, 1, 58, tzinfo=UTC)
    for _ in range(lines):
        moment += timedelta(milliseconds=noise.randrange(40, 4000))
        level = noise.choices(("INFO", "DEBUG", "WARNING", "ERROR"), (70, 20, 7, 3))[0]
        module = noise.choice(list(MODULES))
        out.append(
            f"{moment:%Y-%m-%d %H:%M:%S},{noise.randrange(1000):03d} {level:7s} harbour.{module} request={noise.randrange(16**8):08x} berth={noise.randrange(1, 240)} took={noise.randrange(2, 900)}ms"
        )
    return "\n".join(out)


def coding_session() -> Recorder:
    """One long English coding session on the harbour project."""
    rec = Recorder(
        "0b7c2f0e-5d1a-4c6e-9a43-2f7be8f1a901",
        datetime(2026, 3, 9, 8, 30, tzinfo=UTC),
        ("anthropic", "claude-sonnet-4-5", "anthropic-messages"),
    )
    noise = rec.random
    rec.user(
        "We have twelve open faults in the harbour project, one per module. Let's go through them one after another. Please read AGENTS.md first and keep a list in TODO.md."
    )
    rec.use(
        "read",
        "# Harbour\n\n- Python 3.12, no new dependencies\n- money is integer cents\n- tests before fixes\n- ask before renaming tables\n- commit messages: module: what changed",
        intro="I start with the rules of the project.",
        path="AGENTS.md",
    )
    todo = "\n".join(f"- [ ] {name}: {fault}" for name, (_, _, fault) in MODULES.items())
    rec.use("write", f"Wrote {len(todo)} bytes to TODO.md (new)", path="TODO.md", content=todo)
    rec.say("TODO.md lists all twelve. I suggest the order in which they stand. First: berths.")
    for index, module in enumerate(MODULES):
        for step in STEPS:
            _work(rec, module, step, index, noise)
        rec.wait(minutes=noise.choice((2, 4, 9, 35)), hours=16 if index in (3, 7) else 0)
    rec.user(
        "Good work. Write the release notes for 2.4.0 and tell me what is still open. The release goes out on Friday 27 March after Ana has signed it off."
    )
    rec.use("read", "\n".join(line.replace("[ ]", "[x]") for line in todo.splitlines()), path="TODO.md")
    rec.say(
        "All twelve faults are fixed and tested. Still open: Ana signs off 2.4.0, and the rename of the table `stays` to `visits`, which you wanted to decide yourself. Release notes are in CHANGELOG.md under 2.4.0."
    )
    cut = len(rec.lines) // 3
    rec.lines[cut] = rec.lines[cut][: len(rec.lines[cut]) // 2]  # the power went off while this line was written
    return rec


def _work(rec: Recorder, module: str, step: str, index: int, noise: random.Random) -> None:
    what, function, fault = MODULES[module]
    commit = sha256(f"{module}{step}".encode()).hexdigest()[:12]
    if step == "look":
        rec.user(f"Next: {module}. The report says: {fault}. Look at the code first, change nothing yet.")
        rec.use(
            "read",
            source(module, noise.randrange(45, 150), noise),
            intro=f"I read {module}.py and where it is used.",
            path=f"src/harbour/{module}.py",
        )
        rec.use(
            "exec",
            "\n".join(
                f"src/harbour/{other}.py:{noise.randrange(5, 200)}: from harbour.{module} import {function}"
                for other in noise.sample(list(MODULES), 4)
            ),
            command=f"grep -rn 'harbour.{module}' src",
        )
        rec.say(
            f"`{module}` does {what}. The suspicious place is `{function}`: it compares with `<` at one end and `<=` at the other."
        )
    elif step == "reproduce":
        rec.user("Can you reproduce it?")
        if index in (1, 9):
            log = server_log(430, noise)
            rec.use(
                "exec",
                log,
                intro="I look for it in the log of the night of the clock change.",
                command="tail -430 var/log/harbour.log",
            )
        rec.use(
            "exec",
            test_run(module, True, noise.randrange(18, 60), noise) + "\n\nCommand exited with code 1",
            error=True,
            command=f"pytest -v tests/test_{module}.py",
        )
        rec.say(f"Yes. One test fails, and it is the fault of the report: {fault}.")
    elif step == "cause":
        rec.user("Why does it happen?" if index % 2 else "What is the cause, in two sentences?")
        if index == 5:
            rec.say("The check compares the expiry with", stop="aborted", error="Request was aborted")
            rec.user("Sorry, I stopped you by accident. Go on please.")
        rec.use("read", source(module, 60, noise), path=f"src/harbour/{module}.py", offset=40, limit=60)
        rec.say(
            f"`{function}` builds its range from local midnight, but the rows hold UTC. Where the two differ, {fault}. The comment in line {noise.randrange(40, 99)} says the opposite of what the code does."
        )
    elif step == "fix":
        rec.user("Fix it with the smallest change that is right.")
        rec.use(
            "edit",
            f"Edited src/harbour/{module}.py: lines {noise.randrange(40, 60)}-{noise.randrange(61, 70)}",
            path=f"src/harbour/{module}.py",
            oldText="if row['start'] <= day < row['end']:",
            newText="if row['start'] <= utc(day) <= row['end']:",
        )
        rec.say(f"Done: the comparison in `{function}` is inclusive now and works in UTC. Nothing else changed.")
    elif step == "test":
        rec.user(
            "Add a test for the edge and run everything of this module."
            if index % 3
            else "Add a test, run the module, then the whole suite."
        )
        ids = rec.say(
            "Test first, then the run.",
            call(
                "edit",
                path=f"tests/test_{module}.py",
                oldText="# edges",
                newText=f"# edges\ndef test_{function}_edge(store): ...",
            ),
            call("exec", command=f"pytest -v tests/test_{module}.py"),
        )
        rec.result(ids[0], "edit", f"Edited tests/test_{module}.py: lines 12-31")
        rec.result(ids[1], "exec", test_run(module, False, noise.randrange(20, 70), noise))
        if index % 3 == 0:
            rec.use("exec", test_run("all", False, noise.randrange(150, 330), noise), command="pytest -v")
        rec.say("All green. The new test fails without the fix, I checked that with `git stash`.")
    elif step == "review":
        picture = png(index) if index in (2, 6) else None
        if picture:
            rec.user(f"This is what the {module} page shows now, is that what you expect?", picture)
            rec.say(
                "Yes: the total in the last column is the one of the test. The second row is yellow because it is not paid."
            )
        else:
            rec.user("Show me the diff.")
            rec.use(
                "exec",
                f"diff --git a/src/harbour/{module}.py b/src/harbour/{module}.py\n--- a/src/harbour/{module}.py\n+++ b/src/harbour/{module}.py\n@@ -51,7 +51,7 @@\n-        if row['start'] <= day < row['end']:\n+        if row['start'] <= utc(day) <= row['end']:\n"
                + "\n".join(source(module, 20, noise).splitlines()[:20]),
                command="git diff",
            )
            rec.say("Two files, nine lines. The rest of the output is context.")
    elif step == "commit":
        rec.user("Commit.")
        rec.use(
            "exec",
            f"[main {commit}] {module}: {fault.split()[0]} no longer\n 2 files changed, 31 insertions(+), 2 deletions(-)",
            command=f"git commit -am '{module}: fix {function}'",
        )
        rec.say(f"Committed as {commit}. TODO.md: {index + 1} of 12 done.")
    elif index % 2 == 0:
        notes = (
            "Remember for later: the table `stays` should be called `visits`, but ask me before renaming.",
            "By the way, invoices go out on the 3rd from now on, not on the 1st.",
            "Please use `https://tracker.harbour.example/t/88` in the notes for this one.",
            "The office closes at 16:00 on Fridays, so no deploys after 15:00.",
            "Keep an eye on src/harbour/limits.py, Ben is working on it.",
            "The neighbour harbour wants the export in the format v2.14.0.",
        )
        rec.user(notes[(index // 2) % len(notes)])
        rec.say("Noted, I will come back to it at the end.")


PLACES = ("杭州", "上海", "苏州", "南京", "宁波", "绍兴")
PEOPLE = ("林晓", "陈默", "Ana", "Ben", "王工", "Grace")


def calendar(day: int, count: int, noise: random.Random) -> str:
    events = [
        {
            "id": f"evt_{noise.randrange(16**10):010x}",
            "start": f"2026-03-{day + number // 5:02d}T{9 + number % 9:02d}:{noise.choice(('00', '15', '30'))}+08:00",
            "title": noise.choice(
                (
                    "项目例会",
                    "Design review",
                    "牙医",
                    "1:1 with Ana",
                    "港口系统上线演练",
                    "团队午饭",
                    "Quarterly planning",
                    "家长会",
                )
            ),
            "with": noise.sample(PEOPLE, 2),
            "place": noise.choice(PLACES),
            "notes": noise.choice(
                ("请带上三月的报表。", "Bring the numbers for March.", "地点改到二楼会议室,提前十分钟到。", "")
            ),
        }
        for number in range(count)
    ]
    return json.dumps(events, ensure_ascii=False, indent=1)


def mails(count: int, noise: random.Random) -> str:
    subjects = (
        "发票已开具",
        "Your ticket PNR 7KQ2XM",
        "关于周五上线的几点提醒",
        "Re: berth plan",
        "快递已到驿站",
        "会议纪要 3月第2周",
        "Invoice 2026-0317",
        "酒店确认单",
    )
    body = (
        "您好,附件是本月的明细,请在周五之前确认,如有出入请直接回复这封邮件。",
        "Hi Lin, the plan looks fine to me; two berths on the east pier are still double booked on the 21st.",
        "上线窗口是周五 14:00 到 15:00,之后请不要再发布。回滚方案在文档第 3 节。",
    )
    return "\n\n".join(
        f"[{number}] From: {noise.choice(PEOPLE)} <{noise.randrange(10**6)}@mail.example>\nSubject: {noise.choice(subjects)}\n{noise.choice(body)}\n{noise.choice(body)}"
        for number in range(1, count + 1)
    )


ASSISTANT_TURNS: tuple[tuple[str, str, str], ...] = (
    # (what the user says, tool, answer)
    (
        "早上好,今天有什么安排?",
        "calendar",
        "今天四件事:九点项目例会,十一点和 Ana 一对一,下午两点上线演练,六点牙医。例会地点改到了二楼。",
    ),
    ("把牙医改到周四下午,要避开例会。", "calendar", "已改到周四 16:30,前后都没有冲突。诊所回复确认了。"),
    (
        "Any mail I need to answer before noon?",
        "mail",
        "Two: Ben needs a yes or no on the east pier berths, and the hotel wants a confirmation. The rest can wait.",
    ),
    (
        "帮我回 Ben:东码头 21 号那两个泊位给 12 米以下的船。",
        "",
        "已回复 Ben:21 日东码头两个泊位留给 12 米以下的船,其余不变。",
    ),
    (
        "订周五去上海的高铁,上午到就行,靠窗。",
        "search",
        "订好了:周五 G7312,杭州东 08:06 开,上海虹桥 08:58 到,05 车 11F 靠窗,票价 73 元。订单号 E820417735。",
    ),
    (
        "How long is the walk from the station to the hotel?",
        "search",
        "About 25 minutes, 1.9 km; the metro line 2 needs 9 minutes with one stop. I put both into your note for Friday.",
    ),
    (
        "记一下:妈妈的生日是 5 月 18 号,她喜欢茉莉花茶。",
        "write",
        "记下了:妈妈 5 月 18 日生日,喜欢茉莉花茶。生日前一周我会提醒你。",
    ),
    ("上次我们说的那家做茉莉花茶的店叫什么?", "memory", "叫“云栖茶事”,在西湖区梅灵北路 8 号,上次的记录是 2 月 14 日。"),
    (
        "Translate the last mail from Ana into Chinese, keep the numbers.",
        "mail",
        "Ana 的邮件:计划没有问题;东码头 21 号有两个泊位重复预订,其中一个是 11.8 米的“海燕”号,另一个 9.4 米。请在周五 12:00 前定下来。",
    ),
    ("周末天气怎么样?想去绍兴。", "weather", "周六多云,11 到 18 度,东北风 3 级;周日下午有小雨。周六去比较合适。"),
    (
        "那就周六,找一家能带狗的民宿。",
        "search",
        "找到三家:1) 仓桥直街的“临河小筑”,一晚 420 元;2) 鲁迅故里旁“百草园里”,380 元;3) 东湖边“听桨”,560 元。前两家小型犬免费。",
    ),
    (
        "第一家,订一晚。",
        "",
        "已订“临河小筑”周六一晚 420 元,确认号 SX-20260321-07,可带一只小型犬,周五 18:00 前可免费取消。",
    ),
    (
        "Remind me about the release on Friday: nothing goes out after 15:00.",
        "write",
        "Reminder set for Friday 13:30: the release window is 14:00 to 15:00, nothing after that. Ana signs it off.",
    ),
    (
        "这个月花了多少钱在打车上?",
        "search",
        "三月到今天共 14 次,合计 386.50 元,比二月同期少 92 元。最贵的一次是 3 月 6 日机场,118 元。",
    ),
    (
        "把这张会议纪要总结成三点。",
        "mail",
        "三点:1) 2.4.0 周五上线,由 Ana 签字;2) stays 表改名先不做,等林晓决定;3) 邻港要 v2.14.0 格式的导出,下周给样例。",
    ),
    ("谢谢,今天就到这儿。", "", "好的,晚安。明早七点半我把日程发给你。"),
)


def assistant_day(session_id: str, start: datetime, turns: int, offset: int) -> Recorder:
    """One day of a personal assistant, Chinese and English."""
    rec = Recorder(session_id, start, ("anthropic", "claude-haiku-4-5", "anthropic-messages"))
    noise = rec.random
    for number in range(turns):
        text, tool, answer = ASSISTANT_TURNS[(offset + number) % len(ASSISTANT_TURNS)]
        if number >= len(ASSISTANT_TURNS):
            text = f"再确认一遍:{text}"
        rec.user(text)
        _errand(rec, tool, start.day, noise)
        rec.say(answer)
        if noise.random() < 0.35:
            rec.wait(minutes=noise.randrange(6, 90))
    return rec


def _errand(rec: Recorder, tool: str, day: int, noise: random.Random) -> None:
    if tool == "calendar":
        rec.use("calendar_list", calendar(day, noise.randrange(14, 40), noise), start=f"2026-03-{day:02d}")
    elif tool == "mail":
        rec.use("mail_list", mails(noise.randrange(12, 34), noise), folder="inbox", unread=True)
    elif tool == "search":
        hits = [
            {
                "title": f"{noise.choice(PLACES)} {noise.choice(('高铁', '酒店', '民宿', '地铁', '账单'))}",
                "url": f"https://{noise.choice(('travel', 'pay', 'map'))}.example/{noise.randrange(16**8):08x}",
                "text": "价格与时间以页面为准。 " * noise.randrange(4, 16),
            }
            for _ in range(noise.randrange(8, 22))
        ]
        rec.use("web_search", json.dumps(hits, ensure_ascii=False, indent=1), query="杭州 上海 周五")
    elif tool == "weather":
        rec.use(
            "exec",
            "\n".join(
                f"{hour:02d}:00 {noise.randrange(8, 19)}°C 东北风{noise.randrange(1, 5)}级 湿度{noise.randrange(40, 95)}%"
                for hour in range(24)
            ),
            command="curl -s wttr.example/shaoxing?format=hourly",
        )
    elif tool == "write":
        rec.use(
            "write",
            "Wrote 214 bytes to memory/2026-03-17.md (replaced 120 bytes)",
            path="memory/2026-03-17.md",
            content="- 妈妈生日 5 月 18 日,喜欢茉莉花茶\n- Release window Friday 14:00-15:00, Ana signs off",
        )
    elif tool == "memory":
        hit = {
            "path": "memory/2026-02-14.md",
            "startLine": 3,
            "endLine": 6,
            "score": 0.83,
            "snippet": "云栖茶事,西湖区梅灵北路 8 号,茉莉花茶 120 元一罐",
        }
        rec.use(
            "memory_search", json.dumps({"results": [hit], "mode": "hybrid"}, ensure_ascii=False), query="茉莉花茶 店"
        )


def topic_thread() -> Recorder:
    """A topic of a group: the release of the harbour system."""
    rec = Recorder(
        "6f1d8c3b-90ab-4e27-8a55-7c3e0d9b2f14",
        datetime(2026, 3, 18, 6, 0, tzinfo=UTC),
        ("anthropic", "claude-haiku-4-5", "anthropic-messages"),
    )
    noise = rec.random
    talk = (
        (
            "Ana: can you list what has to be done before 2.4.0 goes out?",
            "Five things: sign-off, backup, the migration dry run, the notice to the skippers, and the freeze of the booking page.",
        ),
        ("王工:备份什么时候做?", "备份安排在周五 13:00,用时约 20 分钟,完成后我在这里发校验值。"),
        (
            "Ben: the dry run failed for me with exit code 3.",
            "Exit code 3 means the lock file of the last run is still there. Remove var/migrate.lock, then it goes through.",
        ),
        (
            "Ana: who tells the skippers?",
            "The notice goes out on Thursday 18:00 to 214 skippers, in German, English and Chinese. The text is in notices/2.4.0.md.",
        ),
        ("陈默:冻结期间能查询吗?", "可以。冻结只影响新预订,查询和打印都不受影响,预计 14:00 到 14:40。"),
        (
            "Grace: what is the way back if it goes wrong?",
            "Section 3 of the runbook: restore the backup of 13:00, start 2.3.7, tell the office. It takes 12 minutes, tried on Tuesday.",
        ),
    )
    for round_number in range(3):
        for text, answer in talk:
            rec.user(text if round_number == 0 else f"{text} (update {round_number})")
            if noise.random() < 0.5:
                rec.use("exec", server_log(noise.randrange(12, 60), noise), command="tail -60 var/log/harbour.log")
            rec.say(answer)
        rec.wait(hours=5)
    return rec


WORKSPACE = {
    "AGENTS.md": "# How I work here\n\n## Session Startup\n\n- Read USER.md and the newest notes in memory/.\n- Say what you are about to change before you change it.\n\n## Red Lines\n\n- Never send a mail without a yes.\n- Never rename a table without asking.\n- 生产环境的操作必须先得到确认。\n",
    "SOUL.md": "# Voice\n\nShort, friendly, exact. Answers in the language of the question.\n",
    "USER.md": "# Lin\n\n- Lives in Hangzhou (Asia/Shanghai), works on the harbour system.\n- 中文和英文都可以,数字请写清楚。\n",
    "IDENTITY.md": "# Pilot\n\nThe assistant of Lin; keeps calendar, mail and the harbour project in view.\n",
    "TOOLS.md": "# Tools\n\n- calendar_list and mail_list are read only.\n- The harbour project lives in ~/harbour; tests run with pytest.\n",
    "HEARTBEAT.md": "# Heartbeat\n",
    "MEMORY.md": "# What lasts\n\n- Harbour release 2.4.0 goes out on Friday 27 March 2026 between 14:00 and 15:00, after Ana has signed it off.\n- Ana decides about releases; Ben plans the berths; 王工 does backups.\n- 妈妈生日 5 月 18 日,喜欢茉莉花茶。\n- The table `stays` may become `visits`, but only after Lin has decided.\n",
    "memory/2026-02-14.md": "# 2026-02-14\n\n- 和林晓去了云栖茶事(西湖区梅灵北路 8 号),茉莉花茶 120 元一罐,很香。\n- Bought a new windvane for the harbour model.\n",
    "memory/2026-03-10.md": "# 2026-03-10\n\n- Tides: levels were an hour late after the clock change; fixed in 7d1f0c2ab914.\n- Decision: money is integer cents everywhere.\n",
    "memory/2026-03-17.md": "# 2026-03-17\n\n- 周五 G7312 去上海,订单号 E820417735,05 车 11F。\n- 绍兴“临河小筑”周六一晚,确认号 SX-20260321-07。\n",
}


def samples() -> Iterator[tuple[str, str, str, Recorder]]:
    """Yield (file, session key, what it is, recorder), oldest first."""
    yield "0b7c2f0e-5d1a-4c6e-9a43-2f7be8f1a901.jsonl", "agent:main:main", "coding session, English", coding_session()
    direct = "agent:main:telegram:direct:lin"
    first = assistant_day("2c9a51d7-1f3e-4b80-8d61-94be0c7a3d11", datetime(2026, 3, 16, 23, 40, tzinfo=UTC), 30, 0)
    yield (
        f"{first.session_id}.jsonl.reset.2026-03-17T20-12-09.114Z",
        direct,
        "personal assistant until the daily reset",
        first,
    )
    second = assistant_day("9e04b7c2-6a58-4f0d-b3c7-1d2f8e6a5b22", datetime(2026, 3, 17, 23, 50, tzinfo=UTC), 18, 4)
    yield f"{second.session_id}.jsonl.reset.2026-03-18T09-31-44.520Z", direct, "personal assistant until /new", second
    third = assistant_day("b51f3ce8-27d4-4a9b-9c10-6e8d0f4a7c33", datetime(2026, 3, 18, 9, 32, tzinfo=UTC), 20, 9)
    yield f"{third.session_id}.jsonl", direct, "personal assistant, running", third
    topic = topic_thread()
    yield (
        f"{topic.session_id}-topic-42.jsonl",
        "agent:main:telegram:group:-100220:topic:42",
        "topic thread of a group",
        topic,
    )


def main(root: Path) -> None:
    """Write the whole sample home below ``root``."""
    folder = root / "agents" / "main" / "sessions"
    listed, entries = [], {}
    for file, key, about, recorder in samples():
        recorder.write(folder / file)
        listed.append({"file": file, "sessionKey": key, "about": about})
        if ".reset." not in file and key != "agent:main:main":
            ended = int(recorder.now.timestamp() * 1000)
            entries[key] = {
                "sessionId": recorder.session_id,
                "sessionFile": file,
                "updatedAt": ended,
                "lastInteractionAt": ended,
            }
    (folder / "sessions.json").write_text(json.dumps(entries, indent=2), encoding="utf-8")
    (root / "samples.json").write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    for name, text in WORKSPACE.items():
        path = root / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
