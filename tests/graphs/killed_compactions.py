"""One turn as a process, to be killed by ``test_killed_compactions.py``: nearly every turn flushes and compacts.

    python tests/graphs/killed_compactions.py HOME NUMBER

Prints ``ready`` once everything is imported, then each event with its role, after it happened.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

from graphs.turn import turn_graph
from turngraph import open_home
from turngraph.models.model import ModelFacts, ModelRequest
from turngraph.models.scripted import ScriptedModel
from turngraph.summary_sections import build_sections

SETS = (
    "agents.defaults.compaction.keepRecentTokens=500",
    "agents.defaults.compaction.recentTurnsPreserve=1",
    "agents.defaults.memorySearch.enabled=false",
)
TOLD = {"memory_flush_start", "memory_flush_end", "auto_compaction_start", "auto_compaction_end", "message_end"}
KEY = "agent:main:main"
FILLER = "one of many words " * 700


class Slow(ScriptedModel):
    """Takes a moment before and behind each answer, so that a kill meets every phase."""

    async def stream(self, request: ModelRequest) -> Any:
        await asyncio.sleep(0.03)
        async for event in super().stream(request):
            yield event
        await asyncio.sleep(0.01)


def one_turn(home: Path, number: int) -> None:
    """Run turn ``number`` and tell what happens."""

    def answer(request: ModelRequest) -> Any:
        if request.purpose == "summary":
            return build_sections(asks=f"question {number} of many words")
        if request.purpose != "flush":
            return f"answer {number} {FILLER}"
        if request.messages[-1].role == "toolResult":
            return "NO_REPLY"
        cycle = agent.sessions().get(KEY).get("compactionCount") or 0
        day = re.search(r"memory/[\d-]+\.md", request.messages[-1].text)
        assert day is not None
        arguments = {"path": day.group(), "content": f"- fact of cycle {cycle}\n"}
        return {"content": [{"type": "toolCall", "id": f"f{number}", "name": "write", "arguments": arguments}]}

    model = Slow(then=answer, facts=ModelFacts("scripted", "slow", context_window=16_000))
    agent = open_home(home, sets=SETS, env={}).agent(model=model)

    async def run() -> None:
        turn_graph()
        print("ready", flush=True)
        async for event in agent.stream(f"question {number}\n{FILLER}"):
            if event["type"] in TOLD:
                print(event["type"], event.get("message", {}).get("role", ""), flush=True)

    asyncio.run(run())


if __name__ == "__main__":
    one_turn(Path(sys.argv[1]), int(sys.argv[2]))
