from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodes.compaction.preparation import NotPrepared, Preparation, prepare_compaction
from nodes.compaction.settings import effective_limits
from stores.transcript_context import message_of, visible_entries
from stores.transcript_entries import Entry, entry_of
from tests.builders import assistant, call, result, user
from turngraph.messages import Message
from turngraph.tokens import EstimateCounter, total

COUNTER = EstimateCounter()


def limits(window: int = 16_000, keep: int = 20_000, recent: int = 3, reserve: int = 20_000) -> Any:
    return effective_limits(
        window_tokens=window,
        reserve_tokens=0,
        reserve_tokens_floor=reserve,
        keep_recent_tokens=keep,
        recent_turns_preserve=recent,
    )


def path(*messages: Message) -> list[Entry]:
    entries = []
    for index, message in enumerate(messages):
        raw = {"type": "message", "id": f"e{index}", "parentId": f"e{index - 1}" if index else None}
        entries.append(entry_of(raw | {"timestamp": "2026-03-16T12:00:00.000Z", "message": dict(message.raw)}))
    return entries


def compaction(entry_id: str, kept: str, summary: str = "S", **fields: Any) -> Entry:
    raw = {"type": "compaction", "id": entry_id, "parentId": None, "timestamp": "2026-03-16T12:00:00.000Z"}
    return entry_of(raw | {"summary": summary, "firstKeptEntryId": kept, "tokensBefore": 9} | fields)


def prepared(entries: list[Entry], **changes: Any) -> Preparation:
    plan = prepare_compaction(entries, limits(**changes), COUNTER)
    assert isinstance(plan, Preparation)
    return plan


def test_what_the_first_compaction_kept_is_folded_or_kept_by_the_second() -> None:
    """known-faults 2.6: A, B, compaction (kept from B), C."""
    a, b = path(user("A" * 400), user("B" * 400))
    c = path(user("A"), user("B"), user("C" * 400))[2]
    plan = prepared([a, b, compaction("k", b.id, "summary of A"), c], keep=10, recent=0)
    assert [message.text[0] for message in (*plan.all_folded, *plan.kept)] == ["B", "C"]
    assert plan.previous_summary == "summary of A"


def test_the_last_three_user_turns_stay_whole_when_they_fit_a_quarter_of_the_window() -> None:
    turns = [m for i in range(12) for m in (user(f"ask {i} " + "x" * 400), assistant(f"answer {i}" + "y" * 400))]
    plan = prepared(path(*turns), keep=1)
    assert [m.text.split()[1] for m in plan.kept if m.role == "user"] == ["9", "10", "11"]
    assert plan.cut_turns == ()


def test_turns_above_a_quarter_of_the_window_are_folded_and_marked_as_cut() -> None:
    big = "x" * 3 * 4_000  # 3,000 tokens, a quarter is 4,000
    plan = prepared(path(user("old " * 200), user(f"one {big}"), user(f"two {big}"), user("three")), keep=1)
    assert [m.text[:3] for m in plan.kept] == ["two", "thr"]
    assert [m.text[:3] for m in plan.cut_turns] == ["one"]
    assert plan.cut_turns[0] in plan.folded


def test_the_cut_never_separates_a_call_from_its_result() -> None:
    turns = [
        user("go"),
        assistant(call("t1")),
        result("t1", "r" * 90_000),
        assistant(call("t2")),
        result("t2", "s" * 9),
    ]
    plan = prepared(path(*turns), keep=1, recent=0)
    assert [m.role for m in plan.kept] == ["assistant", "toolResult"]
    assert [m.role for m in plan.prefix] == ["user", "assistant", "toolResult"]


def test_a_huge_last_result_does_not_keep_everything() -> None:
    turns = [user("a" * 4000), assistant("b" * 4000), user("go"), assistant(call("t1")), result("t1", "r" * 90_000)]
    plan = prepared(path(*turns), keep=100, recent=0)
    assert [m.role for m in plan.kept] == ["assistant", "toolResult"]


def test_a_small_session_has_nothing_to_compact() -> None:
    plan = prepare_compaction(path(user("hi"), assistant("hello")), limits(), COUNTER)
    assert plan == NotPrepared("Nothing to compact (session too small)")


def test_a_session_whose_newest_entry_is_a_compaction_is_already_compacted() -> None:
    entries = path(user("hi"))
    plan = prepare_compaction([*entries, compaction("k", "e0")], limits(), COUNTER)
    assert plan == NotPrepared("Already compacted")


def test_files_of_the_earlier_summary_are_carried_on_unless_an_extension_made_it() -> None:
    earlier = {"readFiles": ["r.md"], "modifiedFiles": ["m.md"]}
    later = path(user("q" * 400), assistant(call("t", "edit", path="b.py")), result("t"), user("last"))
    plan = prepared([compaction("k", "none", details=earlier), *later], keep=1, recent=0)
    assert plan.files.read_files == ["r.md"]
    assert plan.files.modified_files == ["b.py", "m.md"]
    plan = prepared([compaction("k", "none", details=earlier, fromHook=True), *later], keep=1, recent=0)
    assert plan.files.read_files == []


texts = st.text("ab 你好👩\u200d👩\u200d👧\n", max_size=400).map(lambda text: text * 12)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    for turn in range(draw(st.integers(1, 8))):
        messages.append(user(f"ask {turn} {draw(texts)}"))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"c{turn}-{step}-{number}" for number in range(draw(st.integers(1, 2)))]
            messages.append(assistant(*(call(call_id) for call_id in ids), stop="toolUse"))
            messages += [result(call_id, draw(texts)) for call_id in ids]
        if draw(st.booleans()):
            messages.append(assistant(f"answer {turn} {draw(texts)}"))
    return messages


@given(histories(), st.sampled_from([8_000, 16_000, 32_000, 200_000]), st.integers(1, 4_000), st.integers(0, 4))
def test_folded_and_kept_together_are_the_visible_history_once(
    history: list[Message], window: int, keep: int, recent: int
) -> None:
    entries = path(*history)
    for _ in range(3):  # several compactions in a row
        plan = prepare_compaction(entries, limits(window, keep, recent), COUNTER)
        if isinstance(plan, NotPrepared):
            return
        visible = [m for m in (message_of(e) for e in visible_entries(entries)) if m.role != "compactionSummary"]
        assert [m.raw for m in (*plan.all_folded, *plan.kept)] == [m.raw for m in visible]
        entries = [*entries, compaction(f"k{len(entries)}", plan.first_kept_id)]
        again = [m.raw for m in (message_of(e) for e in visible_entries(entries)) if m.role != "compactionSummary"]
        assert again == [m.raw for m in plan.kept]


@given(histories(), st.sampled_from([8_000, 16_000, 64_000]), st.integers(1, 4_000), st.integers(0, 4))
def test_the_last_turns_are_whole_or_marked_as_cut(history: list[Message], window: int, keep: int, recent: int) -> None:
    plan = prepare_compaction(path(*history), limits(window, keep, recent), COUNTER)
    if isinstance(plan, NotPrepared):
        return
    asks = [m.raw for m in history if m.role == "user"]
    last = asks[-recent:] if recent else []
    cut = {id(m) for m in plan.cut_turns}
    assert all(ask in [m.raw for m in (*plan.kept, *plan.cut_turns)] for ask in last)
    assert all(id(m) in cut for m in plan.all_folded if m.role == "user" and m.raw in last)
    assert plan.kept and plan.kept[0].role != "toolResult"


@given(histories())
def test_turns_that_fit_a_quarter_are_never_cut(history: list[Message]) -> None:
    plan = prepare_compaction(path(*history), limits(200_000, 1, 2), COUNTER)
    assert isinstance(plan, NotPrepared) or total(COUNTER, history) > 50_000 or plan.cut_turns == ()
