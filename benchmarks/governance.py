"""How long governing a history takes: each function on 1,000, 10,000 and 100,000 messages.

Run: ``python -m benchmarks.governance`` (``--quick`` leaves the largest size out). The history is a coding session:
a user turn, a call, a result of 2,000 characters, an answer, over and over; a tenth of it is damaged. "Whole" is one
pass of sanitize, limit, guard and prune as the turn graph runs them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from time import process_time

from nodes.guard_tools import cap_results, fit_results, guard_results
from nodes.history.provider_policy import resolve_policy
from nodes.history.validators import problems
from nodes.limit_history import limit_and_settle
from nodes.prune import prune_results
from nodes.prune_rules import PruneRules
from nodes.sanitize import prepare_request, repair_history, sanitize_history
from turngraph.decisions import Origin
from turngraph.messages import Message

SIZES = (1_000, 10_000, 100_000)
POLICY = resolve_policy("anthropic", "anthropic-messages", "claude-sonnet-4-5")
NOW_MS = 1_772_000_000_000.0
WINDOW_TOKENS = 200_000
RULES = PruneRules()
_USAGE = {
    "input": 10,
    "output": 5,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 15,
    "cost": {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0},
}
_OUTPUT = "src/module.py:12: some output of a tool\n" * 50


def history(size: int) -> tuple[Message, ...]:
    """Build a history of ``size`` messages; every tenth call has no result or a foreign id."""
    raws: list[dict[str, object]] = []
    for turn in range(size // 4 + 1):
        damaged = turn % 10 == 0
        call_id = f"toolu_{turn}|x" if damaged else f"toolu{turn}"
        answer: dict[str, object] = {"role": "assistant", "usage": _USAGE, "stopReason": "stop"}
        call = {"type": "toolCall", "id": call_id, "name": "read", "arguments": {"path": f"src/{turn}.py"}}
        raws += [
            {"role": "user", "content": f"Please look at file {turn} and tell me what it does."},
            answer | {"content": [{"type": "text", "text": "Reading."}, call], "stopReason": "toolUse"},
            {
                "role": "toolResult",
                "toolCallId": "lost" if turn % 20 == 0 else call_id,
                "toolName": "read",
                "content": [{"type": "text", "text": _OUTPUT}],
                "details": {"lines": 50},
                "isError": False,
            },
            answer | {"content": [{"type": "text", "text": f"File {turn} prints numbers."}]},
        ]
    return tuple(
        Message({**raw, "timestamp": index}, Origin("entry", entry_id=f"e{index}"))
        for index, raw in enumerate(raws[:size])
    )


def whole(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Run sanitize, limit, guard and prune, one after the other."""
    repaired = repair_history(messages, POLICY, NOW_MS).messages
    limited = limit_and_settle(repaired, None, POLICY, NOW_MS).messages
    return prune_results(cap_results(limited, 64_000).messages, WINDOW_TOKENS, RULES).messages


FUNCTIONS: dict[str, Callable[[tuple[Message, ...]], object]] = {
    "sanitize (repair)": lambda m: repair_history(m, POLICY, NOW_MS),
    "limit, pair, turn rules": lambda m: limit_and_settle(m, None, POLICY, NOW_MS),
    "limit to 50 turns": lambda m: limit_and_settle(m, 50, POLICY, NOW_MS),
    "guard: cap": lambda m: cap_results(m, 64_000),
    "guard: fit": lambda m: fit_results(m, 400_000),
    "guard: last resort": lambda m: guard_results(m, WINDOW_TOKENS),
    "prune": lambda m: prune_results(m, WINDOW_TOKENS, RULES),
    "request boundary": lambda m: prepare_request(m, POLICY, NOW_MS),
    "validator": lambda m: problems(m, "anthropic"),
    "whole": whole,
}
AGAIN: dict[str, Callable[[tuple[Message, ...]], object]] = {
    "request boundary, again": lambda m: prepare_request(m, POLICY, NOW_MS),
    "whole, again": whole,
}


def measure_ms(
    function: Callable[[tuple[Message, ...]], object], messages: tuple[Message, ...], times: int, *, again: bool = False
) -> float:
    """Return the least processor time of ``times`` runs after one to warm up; waiting for others does not count.

    Messages remember facts about themselves, so each run gets new ones, unless it is to measure preparing a history
    ``again``, as before every further model call of a turn.
    """
    function(messages)
    taken = []
    for _ in range(times):
        given = messages if again else tuple(Message(message.raw, message.origin) for message in messages)
        started = process_time()
        function(given)
        taken.append((process_time() - started) * 1000)
    return min(taken)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="leave the largest size out")
    sizes = SIZES[:-1] if parser.parse_args().quick else SIZES
    print("| processor milliseconds | " + " | ".join(f"{size:,} messages" for size in sizes) + " |")
    print("|---|" + "---:|" * len(sizes))
    histories = {size: history(size) for size in sizes}
    for name, function in FUNCTIONS.items():
        cells = [measure_ms(function, histories[size], 7 if size < SIZES[-1] else 3) for size in sizes]
        print(f"| {name} | " + " | ".join(f"{cell:,.1f}" for cell in cells) + " |")
    clean = {size: sanitize_history(messages, POLICY, NOW_MS).messages for size, messages in histories.items()}
    cells = [measure_ms(lambda m: sanitize_history(m, POLICY, NOW_MS), clean[size], 3) for size in sizes]
    print("| sanitize, already clean | " + " | ".join(f"{cell:,.1f}" for cell in cells) + " |")
    for name, function in AGAIN.items():
        cells = [measure_ms(function, histories[size], 3, again=True) for size in sizes]
        print(f"| {name} | " + " | ".join(f"{cell:,.1f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
