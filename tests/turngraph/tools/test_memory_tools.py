"""The memory tools of a session, and the offline model that uses them, on a real index."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from stores.memory.index import MemoryIndex
from tests.turns import MAIN, TurnBench
from turngraph.models.offline import OfflineModel
from turngraph.tools.memory_tools import memory_tools
from turngraph.tools.offered import offered_tools

GROUP = "agent:main:telegram:group:7"
NOTE = "# 自行车\n\n- 蓝色的自行车在地下室\n- 钥匙在门口\n"


async def ask(bench: TurnBench, index: MemoryIndex, question: str, key: str = MAIN) -> str:
    bench.tools, _ = offered_tools(
        bench.settings,
        key,
        "user",
        workspace=bench.home.workspace("main", bench.settings),
        memory_tools=lambda: memory_tools(index, bench.settings, session_key=key),
    )
    outcome = await bench.turn(question, key=key, model=OfflineModel(bench.counter))
    assert outcome.reply is not None
    return outcome.reply.text


async def test_the_offline_model_answers_from_the_notes_with_file_and_line(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, sets=("memorySearch.provider=none",))
    notes = bench.home.workspace("main", bench.settings) / "memory"
    notes.mkdir(parents=True)
    (notes / "2026-03-01.md").write_text(NOTE)
    with closing(MemoryIndex.open(bench.home, "main", bench.settings, clock=bench.clock)) as index:
        index.sync()
        said = await ask(bench, index, "蓝色的自行车在哪里?")
        assert said.startswith("我的笔记里是这样写的：\n\n> - 蓝色的自行车在地下室\nSource: memory/2026-03-01.md#L3")
        assert "memory is not available in group chats" in await ask(bench, index, "Where is my bike?", GROUP)
        assert (await ask(bench, index, "zzzqqq xxyyzz?")).startswith("I found nothing about this in my notes")
