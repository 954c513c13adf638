"""Run as a process by ``test_killed_turns.py``: forks turns and kills them at random moments.

    python tests/graphs/killed_turns.py HOME ROUNDS SEED

Prints one JSON line: what was acknowledged before each kill. The parent imports everything once; each child runs one
turn with a tool loop and reports every recorded message on a pipe, after the append.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from turngraph import open_home
from turngraph.models.model import ToolSpec
from turngraph.models.scripted import ScriptedModel
from turngraph.tools.tool import ToolContext, ToolResult


class Slow:
    """A tool that takes a moment, so that a kill meets every part of the turn."""

    spec = ToolSpec("look", "Look.", {"type": "object", "properties": {}})

    def file_argument(self, arguments: Any) -> str | None:
        return None

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        await asyncio.sleep(0.01)
        return ToolResult([{"type": "text", "text": f"seen by {context.call_id}"}])


def one_turn(home: Path, number: int, pipe: int) -> None:
    """Run turn ``number`` and write a line to ``pipe`` for each message that is in the transcript."""
    calls = [[{"type": "toolCall", "id": f"t{number}c{index}", "name": "look", "arguments": {}}] for index in range(4)]
    model = ScriptedModel([*calls, f"answer {number}"])
    agent = open_home(home, env={}).agent(model=model, tools=[Slow()])

    async def run() -> None:
        async for event in agent.stream(f"question {number}"):
            if event["type"] == "message_end":
                role = event["message"]["role"]
                os.write(pipe, f"{number} {role}\n".encode())

    asyncio.run(run())


def main(home: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    one_turn(home, 0, os.open(os.devnull, os.O_WRONLY))  # warm: imports, graph, workspace
    acknowledged: list[str] = []
    killed = 0
    for number in range(1, rounds + 1):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                one_turn(home, number, writer)
            finally:
                os._exit(0)
        os.close(writer)
        deadline = time.monotonic() + chance.uniform(0.02, 0.4)
        data = b""
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([reader], [], [], left)
            if ready and not (piece := os.read(reader, 65536)):
                break
            data += piece if ready else b""
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        while piece := os.read(reader, 65536):
            data += piece
        os.close(reader)
        acknowledged += [line for line in data.decode().splitlines() if line.split()[1] == "user"]
    one_turn(home, rounds + 1, os.open(os.devnull, os.O_WRONLY))
    print(json.dumps({"acknowledged": acknowledged, "killed": killed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
