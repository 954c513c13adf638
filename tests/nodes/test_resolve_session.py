from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodes.resolve_session import resolve_session
from nodes.state import SessionFacts, TurnContext
from stores.home import Home
from stores.lock_files import start_ticks
from stores.media import MediaStore
from stores.sessions import SessionStore
from tests.builders import assistant, user
from tests.turn_home import Runtime, scripted
from turngraph.clock import DerivedIds, FixedClock, iso_ms, to_ms
from turngraph.config import AgentSettings, load_settings
from turngraph.errors import SessionBusy, StoreError
from turngraph.hook_calls import Handler
from turngraph.hooks import Hooks
from turngraph.inbound import Attachment, Inbound
from turngraph.tokens import EstimateCounter

MAIN = "agent:main:main"
REPOSITORY = Path(__file__).parents[2]


@dataclass
class Bench:
    """A home in which messages come in; each gets an answer, so that there is something to lose."""

    root: Path
    sets: tuple[str, ...] = ()
    live: bool = True
    hooks: Hooks = field(default_factory=Hooks.empty)
    clock: FixedClock = field(default_factory=lambda: FixedClock(datetime(2026, 7, 16, 22, 0, tzinfo=UTC)))
    ids: DerivedIds = field(default_factory=lambda: DerivedIds("bench"))

    def __post_init__(self) -> None:
        (self.root / "turngraph.json5").write_text("{}")
        self.settings: AgentSettings = load_settings(self.root, sets=self.sets, env={}).agent("main")
        self.store = SessionStore.of_agent(Home(self.root), self.settings, self.clock, self.ids)
        self.last: dict[str, Any] = {}

    def context(self) -> TurnContext:
        home = Home(self.root)
        return TurnContext(
            home=home,
            agent_id="main",
            settings=self.settings,
            clock=self.clock,
            ids=self.ids,
            counter=EstimateCounter(),
            model=scripted(),
            sessions=self.store,
            media=MediaStore(home.media_dir("main")),
            hooks=self.hooks,
            live=self.live,
        )

    def at(self, day: int, hour: int, minute: int = 0) -> Bench:
        self.clock.at = datetime(2026, 7, day, hour, minute, tzinfo=UTC)
        return self

    def send(self, text: str = "hi", **facts: Any) -> SessionFacts:
        return asyncio.run(self.turn(text, **facts))

    async def turn(self, text: str = "hi", **facts: Any) -> SessionFacts:
        context = self.context()
        self.last = await resolve_session({"inbound": Inbound(text=text, **facts)}, Runtime(context))  # type: ignore[arg-type]
        session: SessionFacts = self.last["session"]
        if self.last["route"] == "turn":
            context.opened.append_message(user(self.last["text"]))
            context.opened.append_message(assistant("ok"))
        context.opened.close()
        return session

    def whys(self) -> str:
        return "\n".join(decision.why for decision in self.last["decisions"])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def visible(bench: Bench, session: SessionFacts) -> list[str]:
    from stores.transcripts import Transcript

    opened = Transcript.open(session.path, session_id=session.session_id, clock=bench.clock, ids=bench.ids)
    return [message.text for message in opened.context().messages]


def test_messages_continue_the_session_for_days_when_nothing_is_set(bench: Bench) -> None:
    first = bench.at(16, 23).send("one")
    second = bench.at(17, 9).send("two")
    assert (first.is_new, second.is_new) == (True, False)
    assert first.session_id == second.session_id
    assert visible(bench, second) == ["one", "ok", "two", "ok"]


@pytest.mark.parametrize("mode", ["none", "off"])
def test_automatic_resets_can_be_switched_off(tmp_path: Path, mode: str) -> None:
    bench = Bench(tmp_path, (f"session.reset.mode={mode}",))
    assert bench.at(16, 23).send().session_id == bench.at(17, 9).send().session_id


def test_a_reset_has_happened_when_it_says_so(bench: Bench) -> None:
    old = [bench.send(f"turn {n}") for n in range(4)][-1]
    new = bench.send("/reset")
    assert new.reset_reason == "reset"
    assert new.bare_reset
    assert new.session_id != old.session_id
    assert not old.path.exists()
    assert new.archived is not None
    assert new.archived.name == f"{old.session_id}.jsonl.reset.2026-07-16T22-00-00.000Z"
    assert "turn 0" not in visible(bench, new)
    assert new.previous is not None
    assert new.previous["sessionId"] == old.session_id
    assert bench.store.get(MAIN)["resetReason"] == "reset"
    assert bench.store.get(MAIN)["previousSessionId"] == old.session_id


def test_new_as_the_very_first_message_greets_as_well(bench: Bench) -> None:
    session = bench.send("/new")
    assert (session.reset_reason, session.bare_reset, session.archived) == ("new", True, None)
    assert "previousSessionId" not in session.entry


def test_the_text_behind_a_reset_opens_the_new_session(bench: Bench) -> None:
    bench.send()
    session = bench.send("/new first line\nsecond line")
    assert (session.bare_reset, bench.last["command"]) == (False, "new")
    assert visible(bench, session) == ["first line\nsecond line", "ok"]


def test_a_caption_that_resets_keeps_its_photo_as_the_first_message(bench: Bench) -> None:
    bench.send()
    session = bench.send("/new", attachments=(Attachment(b"\x89PNG"),))
    assert session.reset_reason == "new"
    assert not session.bare_reset


def test_a_reset_that_cannot_archive_fails_and_the_old_session_works(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = bench.send("precious")

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(StoreError, match="goes on as it was"):
            bench.send("/reset")
    again = bench.send("still there?")
    assert (again.session_id, again.is_new) == (old.session_id, False)
    assert visible(bench, again)[0] == "precious"
    assert not list(bench.store.folder.glob("*.reset.*"))


def test_an_automatic_reset_that_cannot_archive_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, ("session.reset.mode=daily",))
    old = bench.at(16, 22).send()

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        assert bench.at(17, 9).send().session_id == old.session_id
    assert "could not be archived" in bench.whys()
    assert bench.at(17, 10).send().reset_reason == "daily"


def test_heartbeats_all_night_do_not_keep_yesterdays_session(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("session.reset.mode=daily", "session.reset.atHour=4", "agents.defaults.userTimezone=UTC"))
    evening = bench.at(16, 22).send()
    for half_hour in range(1, 22):
        beat = bench.at(16 + (22 + half_hour // 2) // 24, (22 + half_hour // 2) % 24, 30 * (half_hour % 2))
        assert beat.send("HEARTBEAT", kind="heartbeat").session_id == evening.session_id
    morning = bench.at(17, 9).send()
    assert morning.reset_reason == "daily"
    assert bench.store.get(MAIN)["resetReason"] == "daily"


def test_two_messages_at_once_end_a_stale_session_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("session.reset.mode=daily",))
    bench.at(16, 22).send()
    bench.at(17, 9)

    async def both() -> set[str]:
        sessions = await asyncio.gather(*(bench.turn(f"m{n}") for n in range(4)))
        return {session.session_id for session in sessions}

    assert len(asyncio.run(both())) == 1
    assert len(list(bench.store.folder.glob("*.reset.*"))) == 1


def test_heartbeats_do_not_make_up_for_a_pause(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("session.reset.mode=idle", "session.reset.idleMinutes=60"))
    first = bench.at(16, 10).send()
    bench.at(16, 10, 30).send(kind="heartbeat")
    bench.at(16, 11).send(kind="heartbeat")
    assert bench.at(16, 11, 15).send().session_id != first.session_id


def test_the_day_ends_where_the_user_lives(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("session.reset.mode=daily", "agents.defaults.userTimezone=Asia/Shanghai"))
    first = bench.at(16, 19, 30).send()  # 03:30 there
    assert bench.at(16, 19, 50).send().session_id == first.session_id
    assert bench.at(16, 20, 30).send().session_id != first.session_id


def test_what_the_user_chose_stays_and_what_the_session_counted_goes(bench: Bench) -> None:
    bench.send()
    bench.store.update(
        MAIN,
        {
            "thinkingLevel": "high",
            "modelOverride": "big",
            "modelOverrideSource": "user",
            "authProfileOverride": "p",
            "authProfileOverrideSource": "auto",
            "compactionCount": 3,
            "totalTokens": 9,
            "memoryFlushAt": 5,
            "unknown": {"kept": True},
        },
    )
    entry = bench.send("/new").entry
    assert (entry["thinkingLevel"], entry["modelOverride"], entry["unknown"]) == ("high", "big", {"kept": True})
    assert entry["compactionCount"] == 0
    assert not {"totalTokens", "memoryFlushAt", "authProfileOverride"} & set(entry)


def test_a_model_named_behind_new_is_the_users_choice(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("agents.defaults.model=openai/gpt-5",))
    bench.send()
    entry = bench.send("/new openai/gpt-5 hello").entry
    assert (entry["providerOverride"], entry["modelOverride"]) == ("openai", "gpt-5")
    assert entry["modelOverrideSource"] == "user"
    assert bench.last["text"] == "hello"
    assert bench.send("/new").entry["modelOverride"] == "gpt-5"


def test_commands_that_need_no_model_leave_the_session_alone(bench: Bench) -> None:
    session = bench.send()
    assert bench.send("/status").session_id == session.session_id
    assert bench.last["route"] == "command"
    bench.send("/compact the plan")
    assert (bench.last["route"], bench.last["command_text"]) == ("compact now", "the plan")


def test_a_sender_who_may_not_is_read_as_text(bench: Bench) -> None:
    facts: dict[str, Any] = {"channel": "telegram", "chat_type": "group", "peer": "-1", "sender": "7"}
    session = bench.send("hello", **facts)
    assert bench.send("/new", **facts).session_id == session.session_id
    assert bench.last["text"] == "/new"
    assert "may not give commands" in bench.whys()


def test_isolated_runs_begin_anew_each_time_and_archive_nothing(bench: Bench) -> None:
    key = "agent:main:cron:job-1"
    first = bench.send("work", kind="cron", session_key=key)
    second = bench.send("work", kind="cron", session_key=key)
    assert first.session_id != second.session_id
    assert second.reset_reason is None
    assert first.path.exists()


def test_an_entry_of_another_program_is_continued_and_told_when_it_began(bench: Bench) -> None:
    bench.store.folder.mkdir(parents=True)
    began = datetime(2026, 7, 1, tzinfo=UTC)
    header = {"type": "session", "version": 3, "id": "old-1", "timestamp": iso_ms(began), "cwd": "/"}
    (bench.store.folder / "old-1.jsonl").write_text(json.dumps(header) + "\n")
    bench.store.path.write_text(json.dumps({MAIN: {"sessionId": "old-1", "updatedAt": to_ms(bench.clock.at)}}))
    session = bench.send()
    assert (session.session_id, session.entry["sessionStartedAt"]) == ("old-1", to_ms(began))


def test_an_entry_without_a_usable_id_gives_way_to_a_new_session(bench: Bench) -> None:
    bench.store.folder.mkdir(parents=True)
    bench.store.path.write_text(json.dumps({MAIN: {"label": "mine"}}))
    session = bench.send()
    assert session.is_new
    assert session.reset_reason is None
    assert session.entry["label"] == "mine"


def test_a_thread_begins_with_its_parents_history_once(bench: Bench) -> None:
    bench.send("in the room", channel="slack", chat_type="channel", peer="C1")
    room = "agent:main:slack:channel:c1"
    facts: dict[str, Any] = {"channel": "slack", "chat_type": "channel", "peer": "C1", "thread": "17"}
    thread = bench.send("in the thread", **facts, parent_session_key=room)
    assert thread.key == f"{room}:thread:17"
    assert visible(bench, thread) == ["in the room", "ok", "in the thread", "ok"]
    again = bench.send("more", **facts, parent_session_key=room)
    assert again.session_id == thread.session_id
    assert again.entry["forkedFromParent"] is True


def test_a_parent_that_is_too_large_is_not_copied(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("session.parentForkMaxTokens=10",))
    bench.send("long " * 100)
    thread = bench.send("short", session_key="agent:main:main:thread:1", parent_session_key=MAIN)
    assert visible(bench, thread) == ["short", "ok"]
    assert thread.entry["forkedFromParent"] is True
    assert "above the limit of 10" in bench.whys()


def test_plugins_are_told_with_the_archive_in_hand(tmp_path: Path) -> None:
    told: list[tuple[str, Any]] = []
    fields = {
        "before_reset": ("session_file", "messages"),
        "session_end": ("context",),
        "session_start": ("resumed_from", "context"),
    }

    def note(hook: str) -> Handler:
        return Handler("test", lambda **event: told.append((hook, event)), fields[hook])

    bench = Bench(tmp_path, hooks=Hooks({hook: [note(hook)] for hook in fields}))
    first = bench.send("one")
    second = bench.send("/new")
    assert [hook for hook, _ in told] == ["session_start", "before_reset", "session_end", "session_start"]
    reset = told[1][1]
    assert reset["session_file"] == second.archived
    assert [message.text for message in reset["messages"]] == ["one", "ok"]
    assert told[2][1]["context"].session_id == first.session_id
    assert told[3][1]["resumed_from"] == first.session_id


def test_a_transcript_that_openclaw_holds_makes_the_turn_busy_and_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("session.busyTimeoutMs=50",))
    old = bench.send("one")
    lock = old.path.with_name(f"{old.path.name}.lock")
    owner = {"pid": os.getppid(), "createdAt": iso_ms(datetime.now(UTC)), "starttime": start_ticks(os.getppid())}
    lock.write_text(json.dumps(owner))

    async def reset_in_a_turn() -> None:
        async with bench.store.turn(MAIN, timeout_ms=0):
            await bench.turn("/reset")

    with pytest.raises(SessionBusy) as busy:
        asyncio.run(reset_in_a_turn())
    assert busy.value.pid == os.getppid()
    lock.unlink()
    assert bench.send("two").session_id == old.session_id


def test_replays_write_the_same_session_without_tidying(tmp_path: Path) -> None:
    bench = Bench(tmp_path, live=False)
    bench.send(kind="replay")
    assert not (bench.store.folder / ".maintained").exists()


RUNNER = """
    import asyncio, sys
    from pathlib import Path
    from types import SimpleNamespace
    from nodes.resolve_session import resolve_session
    from nodes.state import TurnContext
    from stores.home import Home
    from stores.media import MediaStore
    from stores.sessions import SessionStore
    from tests.builders import assistant, user
    from turngraph.clock import RandomIds, SystemClock
    from turngraph.config import load_settings
    from turngraph.hooks import Hooks
    from turngraph.inbound import Inbound
    from turngraph.tokens import EstimateCounter

    home, name = Home(Path(sys.argv[1])), sys.argv[2]
    settings = load_settings(home.root, sets=(), env={}).agent("main")
    clock, ids = SystemClock(), RandomIds()
    store = SessionStore.of_agent(home, settings, clock, ids)

    async def turn(n):
        async with store.turn("agent:main:main", timeout_ms=60_000):
            context = TurnContext(
                home=home, agent_id="main", settings=settings, clock=clock, ids=ids, counter=EstimateCounter(),
                model=None, sessions=store, media=MediaStore(home.media_dir("main")), hooks=Hooks.empty(),
            )
            found = await resolve_session({"inbound": Inbound(text=f"{name}{n}")}, SimpleNamespace(context=context))
            print(found["session"].session_id, flush=True)
            for message in (user(f"{name}{n}"), assistant(f"re {name}{n}")):
                context.opened.append_message(message)
                await asyncio.sleep(0.01)
            context.opened.close()

    async def main():
        for n in range(3):
            await turn(n)

    asyncio.run(main())
"""


def test_two_processes_share_one_session_id_and_take_turns(bench: Bench) -> None:
    code = textwrap.dedent(RUNNER)
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(bench.root), name], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )
        for name in "ab"
    ]
    printed = [run.communicate()[0].split() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    ids = {session_id for lines in printed for session_id in lines}
    assert len(ids) == 1
    assert [path.name for path in bench.store.folder.glob("*.jsonl*")] == [f"{ids.pop()}.jsonl"]
    bench.clock.at = datetime.now(UTC)
    said = visible(bench, bench.send("end"))[:-2]
    asked, answered = said[::2], said[1::2]
    assert sorted(asked) == sorted(f"{name}{n}" for name in "ab" for n in range(3))
    assert answered == [f"re {text}" for text in asked]
