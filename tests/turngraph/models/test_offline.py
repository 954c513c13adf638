"""The offline model: searches, reads, quotes; and what it says when it cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import assistant, result, user
from turngraph.messages import Message
from turngraph.models.model import Delta, Finished, ModelRequest, ToolSpec
from turngraph.models.offline import OfflineModel, answer, open_items
from turngraph.tokens import EstimateCounter

COUNTER = EstimateCounter()
MEMORY = (ToolSpec("memory_search", "", {}), ToolSpec("memory_get", "", {}))
NOTE = "# Dentist\n\n- Appointment on 3 March at 10:00\n- Bring the card\n\n# Car\n- The car is in the garage\n"


def hit(path: str, start: int, end: int, score: float = 0.9, **fields: Any) -> dict[str, Any]:
    return {
        "path": path,
        "startLine": start,
        "endLine": end,
        "score": score,
        "snippet": "",
        "source": "memory",
    } | fields


def found(*hits: dict[str, Any], files: int = 4, **fields: Any) -> dict[str, Any]:
    return {"results": list(hits), "searched": {"files": files, "chunks": 9}, "citations": "auto"} | fields


def ask(*messages: Message, tools: tuple[ToolSpec, ...] = MEMORY, **fields: Any) -> Message:
    return answer(ModelRequest("", messages, tools, **fields), COUNTER)


class Loop:
    """Runs the calls of the model against prepared results until it answers."""

    def __init__(self, search: Mapping[str, Any], files: Mapping[str, str] | None = None) -> None:
        self.search = search
        self.files = files or {}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def say(self, question: str, *before: Message, tools: tuple[ToolSpec, ...] = MEMORY) -> str:
        messages = [*before, user(question)]
        for _ in range(4):
            said = ask(*messages, tools=tools)
            if not said.tool_calls:
                return said.text
            messages.append(said)
            for call in said.tool_calls:
                self.calls.append((call.name, dict(call.arguments)))
                messages.append(result(call.id, json.dumps(self.result(call.name, call.arguments)), name=call.name))
        raise AssertionError("the model went on calling tools")

    def result(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "memory_search":
            return self.search
        path, start, count = arguments["path"], arguments["from"], arguments["lines"]
        if path not in self.files:
            return {"status": "not_found", "path": path, "text": "", "missing": True}
        lines = self.files[path].split("\n")[start - 1 : start - 1 + count]
        return {"status": "ok", "path": path, "from": start, "lines": len(lines), "text": "\n".join(lines)}


def test_it_searches_reads_the_hit_and_quotes_it_with_its_source() -> None:
    loop = Loop(found(hit("memory/a.md", 1, 7)), {"memory/a.md": NOTE})
    said = loop.say("When is my dentist appointment?")
    assert loop.calls == [
        ("memory_search", {"query": "When is my dentist appointment?"}),
        ("memory_get", {"path": "memory/a.md", "from": 1, "lines": 7}),
    ]
    assert said == (
        "This is what my notes say:\n\n"
        "> - Appointment on 3 March at 10:00\nSource: memory/a.md#L3\n\n"
        "> - Bring the card\nSource: memory/a.md#L4"
    )


def test_a_second_hit_is_read_when_it_is_nearly_as_good() -> None:
    files = {"memory/a.md": "alpha beta", "memory/b.md": "alpha gamma"}
    near = Loop(found(hit("memory/a.md", 1, 1, 1.0), hit("memory/b.md", 1, 1, 0.8)), files)
    assert "memory/b.md#L1" in near.say("alpha?")
    far = Loop(found(hit("memory/a.md", 1, 1, 1.0), hit("memory/b.md", 1, 1, 0.79)), files)
    assert "memory/b.md" not in far.say("alpha?")
    assert len(far.calls) == 2


def test_no_more_than_40_lines_are_read_and_400_characters_searched() -> None:
    loop = Loop(found(hit("memory/a.md", 10, 500)), {"memory/a.md": "x\n" * 500})
    loop.say("語" * 500)
    assert loop.calls[0][1] == {"query": "語" * 400}
    assert loop.calls[1][1] == {"path": "memory/a.md", "from": 10, "lines": 40}


def test_a_session_hit_is_quoted_from_its_snippet_and_not_read() -> None:
    snippet = "User: my bike is in the cellar\nAssistant: noted"
    loop = Loop(found(hit("sessions/s.jsonl", 12, 13, source="sessions", snippet=snippet)))
    said = loop.say("Where is my bike?")
    assert said.endswith("> User: my bike is in the cellar\nSource: sessions/s.jsonl#L12")
    assert [name for name, _ in loop.calls] == ["memory_search"]


def test_a_note_that_has_gone_is_quoted_from_its_snippet() -> None:
    loop = Loop(found(hit("memory/gone.md", 3, 3, snippet="bike: cellar")))
    assert loop.say("bike?").endswith("> bike: cellar\nSource: memory/gone.md#L3")


def test_quotes_stay_as_they_are_are_cut_at_300_and_stand_once() -> None:
    note = "bike " + "x" * 400 + "\n**bike**  `red`\n**bike**  `red`\nbike\nbike bike"
    said = Loop(found(hit("memory/a.md", 1, 5)), {"memory/a.md": note}).say("bike")
    quotes = [line for line in said.split("\n") if line.startswith("> ")]
    assert quotes == ["> " + ("bike " + "x" * 400)[:300], "> **bike**  `red`", "> bike"]


def test_a_hit_by_meaning_gives_its_first_line() -> None:
    said = Loop(found(hit("memory/a.md", 1, 3)), {"memory/a.md": "# Vehicles\n\nThe bicycle is red."}).say("velo?")
    assert said.endswith("> The bicycle is red.\nSource: memory/a.md#L3")


def test_without_citations_there_is_no_source() -> None:
    said = Loop(found(hit("memory/a.md", 1, 1), citations="off"), {"memory/a.md": "bike"}).say("bike")
    assert said == "This is what my notes say:\n\n> bike"


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (found(files=7), "I found nothing about this in my notes; files searched: 7."),
        (found(files=0), "No notes are indexed yet, so there was nothing to search."),
        (
            found(partial={"pending": 3}),
            "My notes are still being indexed (pending: 3), so something may be missing.",
        ),
        (
            {"results": [], "disabled": True, "reason": "Memory is private."},
            "Memory is not available here: Memory is private.",
        ),
        (
            {"results": [], "disabled": True, "unavailable": True, "error": "insufficient_quota"},
            "I could not search my memory: insufficient_quota",
        ),
    ],
)
def test_what_was_not_found_is_told_apart_from_what_could_not_be_searched(search: Any, said: str) -> None:
    assert Loop(search).say("bike?") == said


def test_an_error_result_and_one_that_was_cut_are_failures_and_not_nothing() -> None:
    call = assistant({"type": "toolCall", "id": "t1", "name": "memory_search", "arguments": {"query": "x"}})
    failed = result("t1", "The index is busy.", name="memory_search").evolve(isError=True)
    assert ask(user("bike?"), call, failed).text == "I could not search my memory: The index is busy."
    cut = result("t1", '{"results": [{"pa', name="memory_search")
    assert ask(user("bike?"), call, cut).text == 'I could not search my memory: {"results": [{"pa'


def test_a_partial_index_is_mentioned_behind_what_was_found() -> None:
    said = Loop(found(hit("memory/a.md", 1, 1), partial={"pending": 2}), {"memory/a.md": "bike"}).say("bike")
    assert said.endswith("(pending: 2), so something may be missing.")
    assert "> bike" in said


def test_without_memory_tools_it_says_so() -> None:
    assert ask(user("bike?"), tools=(ToolSpec("read", "", {}),)).text.startswith("Memory cannot be searched here")


def test_markers_prefixes_and_notes_are_no_part_of_the_question() -> None:
    def query(*texts: str) -> Any:
        asked = user([{"type": "text", "text": text} for text in texts])
        return ask(asked).tool_calls[0].arguments["query"]

    marker = f"[media attached: media/{'a' * 64}.png (image/png) | a.png]"
    assert query(f"{marker}\nWhere is my bike?") == "Where is my bike?"
    assert query("[cron:1 daily] Where is my bike?") == "Where is my bike?"
    assert query("Where is my bike?", "Current time: Tuesday", "System: door open") == "Where is my bike?"
    assert query("an earlier summary", "Where is my bike?") == "Where is my bike?"


def test_a_picture_alone_asks_nothing() -> None:
    marker = f"[media attached: media/{'a' * 64}.png (image/png)]\n[User sent media without caption]"
    assert ask(user(marker)).text == "There is no question in this message that I could look up."


def test_half_a_character_in_the_history_is_no_fault() -> None:
    assert ask(user("bike \ud83d?")).tool_calls[0].name == "memory_search"


def test_an_earlier_answer_is_not_taken_for_that_of_a_new_question() -> None:
    old = [
        user("bike?"),
        assistant({"type": "toolCall", "id": "t0", "name": "memory_search", "arguments": {"query": "bike?"}}),
        result("t0", json.dumps(found()), name="memory_search"),
        assistant("nothing"),
    ]
    assert ask(*old, user("car?")).tool_calls[0].arguments == {"query": "car?"}


def test_the_same_messages_give_the_same_bytes_and_usage_is_counted() -> None:
    request = ModelRequest("system", (user("Where is my bike?"),), MEMORY)
    first, second = answer(request, COUNTER), answer(request, COUNTER)
    assert json.dumps(first.raw) == json.dumps(second.raw)
    assert first.raw["usage"]["totalTokens"] == first.raw["usage"]["input"] + first.raw["usage"]["output"] > 10
    assert (first.stop_reason, first.raw["provider"]) == ("toolUse", "offline")


def test_it_streams_by_words() -> None:
    async def events() -> list[Any]:
        request = ModelRequest("", (user("bike?"),), ())
        return [event async for event in OfflineModel(COUNTER).stream(request)]

    *deltas, last = asyncio.run(events())
    assert isinstance(last, Finished)
    assert len(deltas) > 5
    assert "".join(delta.text for delta in deltas if isinstance(delta, Delta)) == last.message.text


HEARTBEAT = (
    "# Project Context\n\n## HEARTBEAT.md\n\n# Heartbeat\n\n<!-- one line\na task -->\n- [x] done\n- \n{items}"
    "\n\n## Heartbeats\nIf nothing needs you, reply HEARTBEAT_OK.\n\n## Runtime\nRuntime: thinking=off"
)


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ("", "HEARTBEAT_OK"),
        ("## Later\n```\n```\n", "HEARTBEAT_OK"),
        ("- [ ] Check the mail\n- call", "- [ ] Check the mail\nSource: HEARTBEAT.md#L7"),
        ("检查邮箱", "检查邮箱\nSource: HEARTBEAT.md#L7"),
    ],
)
def test_a_heartbeat_is_ok_unless_a_task_is_open(items: str, said: str) -> None:
    request = ModelRequest(HEARTBEAT.format(items=items), (user("heartbeat"),), MEMORY, purpose="heartbeat")
    assert answer(request, COUNTER).text == said


def test_another_file_behind_heartbeat_md_is_not_read_as_its_tasks() -> None:
    assert open_items("## HEARTBEAT.md\n\n# Heartbeat\n\n## MEMORY.md\n\n- a fact") == []
    assert open_items("no such file") == []


def test_a_flush_writes_facts_once_and_is_silent() -> None:
    write = (ToolSpec("write", "", {}), ToolSpec("read", "", {}))
    prompt = user("Save lasting facts to memory/2026-02-02.md now.")
    history = (user("Remember that my bike is in the cellar."), assistant("Noted."))
    said = ask(*history, prompt, tools=write, purpose="flush")
    (call,) = said.tool_calls
    assert call.name == "write"
    assert call.arguments["path"] == "memory/2026-02-02.md"
    assert "bike" in call.arguments["content"]
    after = ask(*history, prompt, said, result(call.id, "Appended", name="write"), tools=write, purpose="flush")
    assert after.text == "NO_REPLY"
    assert ask(user("What time is it?"), prompt, tools=write, purpose="flush").text == "NO_REPLY"


def test_other_purposes() -> None:
    assert ask(user("Name this session"), purpose="slug").text == ""
    greeting = ask(user("A new session was started."), purpose="greeting")
    assert (greeting.text[:6], greeting.tool_calls) == ("Hello!", ())
    assert ask(user("Where is my bike?"), purpose="cron").tool_calls[0].name == "memory_search"
    summary = ask(
        user("Summarise.\n<conversation>\n[User]: We decided to use DuckDB.\n\n[Assistant]: Agreed.\n</conversation>"),
        purpose="summary",
    )
    assert "DuckDB" in summary.text
    assert "Summarise." not in summary.text
