"""Overhead of one turn on a large working set, by node, and of the graph machinery itself.

    python benchmarks/turn.py [--messages 2000] [--turns 20] [--json]

A scripted model answers at once, so what is measured is ours. "machinery" is wall time outside the nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

from graphs.run_turn import run_turn
from graphs.turn import turn_graph
from tests.builders import assistant, call, result, user
from tests.turns import MAIN, TurnBench
from turngraph.inbound import Inbound
from turngraph.tokens import default_counter


async def fill(bench: TurnBench, messages: int) -> None:
    """Write a session of ``messages`` messages: user, answer with a call, result, answer."""
    await bench.turn("start", ["ready"])
    from stores.transcripts import Transcript

    entry = bench.entry()
    transcript = Transcript.open(
        bench.sessions.transcript_of(entry), session_id=str(entry["sessionId"]), clock=bench.clock, ids=bench.ids
    )
    for index in range(messages // 4):
        transcript.append_message(user(f"question {index}: what does part {index % 17} do?"))
        transcript.append_message(assistant("Let me look.", call(f"c{index}", "read", path=f"src/part_{index}.py")))
        transcript.append_message(result(f"c{index}", f"def part_{index}():\n    return {index}\n" * 6))
        transcript.append_message(assistant(f"Part {index % 17} returns its number."))


async def measure(messages: int, turns: int) -> dict[str, float]:
    """Return the median milliseconds of each node, of the machinery and of the whole turn."""
    with tempfile.TemporaryDirectory() as folder:
        bench = TurnBench(Path(folder), window=1_000_000, counter=default_counter())
        await fill(bench, messages)
        turn_graph()
        samples: dict[str, list[float]] = {}
        for number in range(turns + 1):
            bench.model.enqueue("noted")
            context = bench.context()
            inbound = Inbound(text=f"turn {number}", session_key=MAIN)
            started = perf_counter()
            outcome = await run_turn(inbound, context, sink=bench.sink, lock=nullcontext())
            wall_ms = (perf_counter() - started) * 1000
            if number == 0:
                continue  # the first turn counts tokens and reads files that later ones have in their caches
            nodes: dict[str, float] = {}
            for run in outcome.trace.nodes:
                nodes[run.node] = nodes.get(run.node, 0.0) + run.duration_ms
            inner = sum(ms for name, ms in nodes.items() if name.startswith("prompt:"))
            nodes["prompt"] -= inner
            nodes["machinery and trace"] = wall_ms - sum(nodes.values())
            nodes["whole turn"] = wall_ms
            for name, ms in nodes.items():
                samples.setdefault(name, []).append(ms)
    return {name: round(statistics.median(values), 2) for name, values in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.messages, options.turns))
    small = asyncio.run(measure(8, options.turns))
    if options.json:
        print(json.dumps({"messages": options.messages, "median_ms": figures, "median_ms_8_messages": small}))
        return
    print(f"{'node':24} {'8 messages':>12} {options.messages:>8} messages   (median ms of {options.turns} turns)")
    for name, ms in figures.items():
        print(f"{name:24} {small.get(name, 0.0):12.2f} {ms:17.2f}")


if __name__ == "__main__":
    main()
