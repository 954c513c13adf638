"""Evidence survival on transcripts whose grades can be seen by eye."""

from pathlib import Path

from tests.builders import assistant, user
from tests.recorded import recorded
from turngraph.clock import from_ms
from turngraph.decisions import Decision, Origin, TurnTrace
from turngraph.messages import Message
from turngraph.models.model import ModelRequest
from turngraph.replay.calls import ModelCall
from turngraph.replay.evidence import items_in
from turngraph.replay.source import RecordedSession
from turngraph.replay.survival import Survival, evidence_survival

NOW = from_ms(1_772_000_000_000)


def kept(*messages: Message, system: str = "") -> ModelRequest:
    return ModelRequest(system, tuple(messages))


def shown(text: str, entry: str) -> Message:
    return Message({"role": "user", "content": text}, Origin("entry", entry_id=entry))


def folded(text: str) -> Message:
    return Message({"role": "user", "content": text}, Origin("summary", entry_id="c1", replaced=("00000001",)))


def graded(session: RecordedSession, requests: list[ModelRequest], **options: object) -> Survival:
    answers = [(turn.number, answer) for turn in session.turns for answer in turn.answers]
    notes = options.pop("notes", {})
    calls = [
        ModelCall(number, NOW, request, answer, notes)  # type: ignore[arg-type]
        for (number, answer), request in zip(answers, requests, strict=True)
    ]
    return evidence_survival(session.turns, calls, **options)  # type: ignore[arg-type]


def grades(survival: Survival) -> dict[str, str]:
    return {use.item.text: use.grade for use in survival.uses}


def test_the_four_grades_in_two_scripts(tmp_path: Path) -> None:
    facts = (
        "部署脚本在 /srv/发布/x 与 /srv/app/deploy.sh，工单 TICKET-48213，口令词「蓝色鲸鱼的早餐计划」，哈希 a1b2c3d4e5"
    )
    uses = "run /srv/app/deploy.sh for TICKET-48213 with 「蓝色鲸鱼的早餐计划」 and a1b2c3d4e5"
    session = recorded(
        tmp_path / "s.jsonl",
        [user("记住"), assistant(facts), user("ok"), assistant("好"), user("go"), assistant(uses)],
    )
    nothing = kept(shown("go", "5"))
    last = kept(folded("Files: /srv/app/deploy.sh"), shown("ticket TICKET-48213", "3"), shown("go", "5"))
    survival = graded(session, [nothing, nothing, last])
    found = grades(survival)
    assert found["/srv/app/deploy.sh"] == "summary"
    assert found["TICKET-48213"] == "verbatim"
    # Both stand in an earlier answer of the session, which a search finds.
    assert found["蓝色鲸鱼的早餐计划"] == "searchable"
    assert found["a1b2c3d4e5"] == "searchable"
    assert survival.shares == {"verbatim": 0.25, "summary": 0.25, "searchable": 0.5, "gone": 0.0}


def test_a_tool_result_that_left_the_prompt_is_gone_and_the_decision_is_named(tmp_path: Path) -> None:
    from tests.builders import call, result

    session = recorded(
        tmp_path / "s.jsonl",
        [
            user("look"),
            assistant(call("c1", path="notes"), stop="toolUse"),
            result("c1", "the id is build-77aa12"),
            assistant("done"),
            user("again"),
            assistant("it was build-77aa12"),
        ],
    )
    source = Message({"role": "toolResult", "content": "the id is build-77aa12"}, Origin("entry", entry_id="w3"))
    why = "1 tool result cleared"
    trace = TurnTrace(
        "t", "main", "k", "s", 2, NOW, NOW, {}, (), ((0, Decision("prune", "cleared", why, ("w3",))),), ()
    )
    survival = graded(session, [kept(), kept(source), kept(shown("again", "5"))], traces=[trace])
    (use,) = survival.uses
    assert (use.grade, use.distance) == ("gone", "1 turn")
    assert use.removed_by == "turn 2, prune cleared: 1 tool result cleared"


def test_notes_count_as_searchable_and_bootstrap_text_as_verbatim(tmp_path: Path) -> None:
    from tests.builders import call, result

    session = recorded(
        tmp_path / "s.jsonl",
        [
            user("look"),
            assistant(call("c1", path="p"), stop="toolUse"),
            result("c1", "keys: order_total_cents and HarbourSyncWorker"),
            assistant("ok"),
            user("then"),
            assistant("set order_total_cents in HarbourSyncWorker"),
        ],
    )
    requests = [kept(), kept(), kept(system="# TOOLS.md\nUse HarbourSyncWorker.")]
    survival = graded(session, requests, notes={"memory/2026-03-16.md": "- order_total_cents is the price\n"})
    assert grades(survival) == {"order_total_cents": "searchable", "HarbourSyncWorker": "verbatim"}


def test_later_entries_are_never_searched(tmp_path: Path) -> None:
    from tests.builders import call, result

    session = recorded(
        tmp_path / "s.jsonl",
        [
            user("look"),
            assistant(call("c1", path="p"), stop="toolUse"),
            result("c1", "port 48213"),
            assistant("ok"),
            user("which"),
            assistant("48213"),
            user("sure?"),
            assistant("yes, 48213"),
        ],
    )
    survival = graded(session, [kept()] * 4)
    assert [use.grade for use in survival.uses] == ["gone", "searchable"]


def test_the_user_asking_again_is_no_source_of_its_own(tmp_path: Path) -> None:
    session = recorded(
        tmp_path / "s.jsonl", [user("keep ab12cd34"), assistant("yes"), user("what is ab12cd34?"), assistant("hm")]
    )
    own = session.turns[1].user
    survival = graded(session, [kept(), kept(own)])
    assert [use.grade for use in survival.uses] == ["searchable"]


def test_a_year_and_prose_are_no_evidence() -> None:
    assert items_in("In 2026 we met 12 people at the harbour, 真的很好。") == frozenset()


def test_evidence_is_found_by_kind() -> None:
    text = 'see https://example.org/a?b=1, src/app/main.py, "retry budget", id 9f8e7d6c, max_retry_count, 482130'
    assert {(item.kind, item.text) for item in items_in(text)} == {
        ("url", "https://example.org/a?b=1"),
        ("path", "src/app/main.py"),
        ("quoted", "retry budget"),
        ("id", "9f8e7d6c"),
        ("identifier", "max_retry_count"),
        ("number", "482130"),
    }


def test_huge_lines_are_read_in_time_that_grows_with_their_length() -> None:
    import time

    started = time.process_time()
    for text in (
        "x" * 300_000,
        "a-" * 150_000,
        "a/" * 150_000,
        "a." * 150_000,
        "a_" * 150_000,
        "aB" * 150_000,
        '"a' * 99_000,
    ):
        items_in(text)
    assert time.process_time() - started < 20
