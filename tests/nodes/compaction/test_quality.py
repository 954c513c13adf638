from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from nodes.compaction.budget import cap_summary, cap_with_suffix
from nodes.compaction.quality import audit_summary, latest_ask, recent_identifiers, reflects_ask
from nodes.compaction.serialize import recent_turn_lines, serialize_conversation
from tests.builders import assistant, result, thinking, user
from turngraph.summary_sections import REQUIRED_HEADINGS, add_identifiers, build_sections, has_required_sections
from turngraph.text import weighted_chars

GOOD = build_sections(asks="Rename the table", identifiers="- a1b9f3c7d2e4")


def test_a_heading_that_stands_twice_is_refused() -> None:
    audit = audit_summary(f"{GOOD}\n\n## Decisions\nagain", identifiers=[], latest_ask=None)
    assert audit.reasons == ["missing_section:## Decisions"]


def test_hexadecimal_identifiers_count_in_either_case() -> None:
    assert audit_summary(GOOD, identifiers=["A1B9F3C7D2E4"], latest_ask=None).ok


def test_a_chinese_request_is_found_in_a_chinese_summary() -> None:
    assert reflects_ask("用户要求重命名数据表", "请重命名数据表")
    assert not reflects_ask("今天天气很好，我们聊了音乐", "请重命名数据表")


def test_identifiers_come_from_the_last_ten_messages() -> None:
    messages = [user("/old/path/x"), *(user(f"n{i}") for i in range(9)), user("/new/path/y")]
    assert recent_identifiers(messages) == ["/new/path/y"]


def test_the_latest_ask_passes_over_messages_without_text() -> None:
    assert latest_ask([user("rename it"), user([{"type": "image", "data": "x"}]), assistant("ok")]) == "rename it"


def test_missing_identifiers_are_added_to_their_section() -> None:
    text = add_identifiers(build_sections(decisions="d"), ["x-1", "x-2"])
    assert text.endswith("## Exact identifiers\n- x-1\n- x-2")
    assert has_required_sections(text)


def test_added_identifiers_stand_before_what_follows_the_section() -> None:
    text = add_identifiers(f"{build_sections()}\n\n## Tool Failures\n- exec: no", ["x-1"])
    assert text.endswith("## Exact identifiers\n- x-1\n\n## Tool Failures\n- exec: no")


bodies = st.lists(st.text("ab 你好👩\u200d👩\u200d👧é\n", max_size=300), min_size=5, max_size=5)


@given(bodies, st.integers(400, 3_000))
@example(["aaaaa你你你你你你", "aaaaa你你你你你你", "aaaa你你你你你", "a" * 17, "a" * 18], 400)
def test_a_structured_summary_keeps_its_headings_within_the_cap(parts: list[str], cap: int) -> None:
    body = "\n\n".join(f"{heading}\n{part}" for heading, part in zip(REQUIRED_HEADINGS, parts, strict=True))
    capped = cap_with_suffix(body, "\n\n## Tool Failures\n- x: y" * 40, cap)
    assert weighted_chars(capped) <= cap
    if cap >= 1_600:
        assert has_required_sections(capped)


@given(st.text(max_size=300), st.integers(0, 300))
def test_a_capped_summary_is_within_its_cap(text: str, cap: int) -> None:
    assert weighted_chars(cap_summary(text, cap)) <= cap


def test_a_suffix_loses_whole_parts_from_its_head() -> None:
    suffix = "\n\n## One\n" + "x" * 300 + "\n\n## Two\n" + "y" * 60
    capped = cap_with_suffix("b" * 300, suffix, 400)
    assert "## One" not in capped and capped.endswith("## Two\n" + "y" * 60)
    assert "left out to fit budget" in capped


def test_thinking_is_not_serialised_and_media_leaves_a_note() -> None:
    messages = [
        user([{"type": "text", "text": "see"}, {"type": "image", "data": "x"}]),
        assistant(thinking("hidden"), "shown"),
    ]
    assert serialize_conversation(messages) == (
        "[User]: see\n[image data omitted from summary input]\n\n[Assistant]: shown"
    )


def test_a_cut_result_keeps_the_error_at_its_end() -> None:
    text = serialize_conversation([result("t", "a" * 3_000 + "\nTraceback: boom")])
    assert text.endswith("Traceback: boom")
    assert "more characters truncated]" in text


def test_the_ninth_message_with_media_gets_the_general_note_and_later_ones_none() -> None:
    image = [{"type": "image", "data": "x"}]
    text = serialize_conversation([user(image) for _ in range(11)])
    assert text.count("image data omitted") == 8
    assert text.count("further non-text data omitted") == 1


def test_recent_lines_are_cut_and_say_so() -> None:
    assert recent_turn_lines([user("x" * 700)], 600) == [f"- User: {'x' * 600}... [cut: 700 characters in all]"]
