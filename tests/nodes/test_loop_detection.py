from __future__ import annotations

from nodes.loop_detection import LoopWatch, call_hash, detect_loop
from turngraph.config.schema_tools import LoopDetection

SAME = {"content": [{"type": "text", "text": "x"}], "details": {}}
RULES = LoopDetection()


def run(watch: LoopWatch, times: int, tool: str = "read", **outcome: object) -> list[str | None]:
    levels: list[str | None] = []
    for _ in range(times):
        verdict = watch.before(tool, {"path": "a"})
        levels.append(verdict.level if verdict else None)
        watch.after(tool, {"path": "a"}, SAME)
    return levels


def test_the_model_is_warned_at_ten_repetitions_and_again_ten_later() -> None:
    levels = run(LoopWatch(RULES), 25)
    assert [index for index, level in enumerate(levels) if level == "warning"] == [10, 20]


def test_the_circuit_breaker_blocks_the_call() -> None:
    watch = LoopWatch(RULES)
    run(watch, 30)
    verdict = watch.before("read", {"path": "a"})
    assert verdict is not None
    assert (verdict.level, verdict.detector) == ("critical", "global_circuit_breaker")
    assert "read" in verdict.message


def test_progress_is_no_loop() -> None:
    watch = LoopWatch(RULES)
    for number in range(40):
        assert watch.before("process", {"action": "poll"}) is None
        watch.after("process", {"action": "poll"}, {"content": [{"type": "text", "text": f"line {number}"}]})


def test_a_tool_that_does_not_exist_is_blocked_after_ten_calls_with_any_arguments() -> None:
    watch = LoopWatch(RULES)
    for number in range(10):
        watch.before("foo", {"n": number})
        watch.after("foo", {"n": number}, None, "Tool foo not found", unknown_tool=True)
    verdict = watch.before("foo", {"n": "again"})
    assert verdict is not None
    assert verdict.detector == "unknown_tool_repeat"


def test_two_calls_in_turn_are_a_ping_pong() -> None:
    watch = LoopWatch(RULES)
    verdicts = []
    for number in range(24):
        tool = "a" if number % 2 == 0 else "b"
        verdicts.append(watch.before(tool, {}))
        watch.after(tool, {}, SAME)
    found = [verdict for verdict in verdicts if verdict is not None]
    assert found[0].detector == "ping_pong"
    assert any(verdict.detector == "ping_pong" and verdict.level == "critical" for verdict in found)


def test_detection_can_be_switched_off() -> None:
    watch = LoopWatch(LoopDetection(enabled=False))
    assert set(run(watch, 40)) == {None}
    assert detect_loop(watch.records, "read", {"path": "a"}, watch.rules) is None


def test_the_order_of_arguments_makes_no_other_call() -> None:
    assert call_hash("read", {"a": [1, {"x": None}], "b": "日"}) == call_hash(
        "read", {"b": "日", "a": [1, {"x": None}]}
    )
