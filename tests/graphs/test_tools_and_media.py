"""Tools and files in whole turns: what the model gets, and what the transcript keeps."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from tests.builders import call
from tests.turns import MAIN, TurnBench, whats
from turngraph.config import AgentSettings
from turngraph.inbound import Attachment, Inbound
from turngraph.models.model import ModelRequest, ToolSpec
from turngraph.models.offline import OfflineModel
from turngraph.tools.offered import offered_tools
from turngraph.tools.tool import Tool, ToolContext, ToolResult

GROUP = "agent:main:telegram:group:7"


def png(width: int = 8) -> bytes:
    out = io.BytesIO()
    # Noise, so that the picture has about as many bytes as pixels.
    Image.effect_noise((width, width), 50).save(out, "PNG")
    return out.getvalue()


def tools(settings: AgentSettings, workspace: Path, key: str = MAIN) -> tuple[Tool, ...]:
    return offered_tools(settings, key, "user", workspace=workspace)[0]


def bench(root: Path, key: str = MAIN, sets: tuple[str, ...] = ()) -> TurnBench:
    made = TurnBench(root, sets)
    workspace = made.home.workspace("main", made.settings)
    workspace.mkdir(parents=True, exist_ok=True)
    made.tools = tools(made.settings, workspace, key)
    return made


def calls(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"content": list(blocks), "stopReason": "toolUse"}


def shape(request: ModelRequest) -> list[list[str]]:
    return [[str(block["type"]) for block in message.blocks] for message in request.messages]


def disk_lines(made: TurnBench, key: str = MAIN) -> list[str]:
    return made.transcript(key).path.read_text().splitlines()


async def test_a_turn_may_bring_files_alone(tmp_path: Path) -> None:
    made = bench(tmp_path)
    photo = png()
    await made.turn(Inbound(session_key=MAIN, attachments=(Attachment(photo, "cat.png"),)), ["a cat"])
    (_, text), _ = made.spoken()
    marker, caption = text.split("\n")
    assert marker.startswith("[media attached: media/")
    assert caption == "[User sent media without caption]"
    assert shape(made.model.requests[0]) == [["text", "image"]]
    entry = made.transcript().entries()[0]
    (fact,) = entry.raw["turngraph"]["media"]
    assert (tmp_path / "agents/main/sessions" / fact["path"]).read_bytes() == photo


async def test_a_caption_that_is_a_trigger_begins_a_session_with_the_photo_in_it(tmp_path: Path) -> None:
    made = bench(tmp_path)
    await made.turn("hello", ["hi"])
    before = made.entry()["sessionId"]
    await made.turn(Inbound("/new", session_key=MAIN, attachments=(Attachment(png(), "a.png"),)), ["new"])
    assert made.entry()["sessionId"] != before
    assert made.spoken()[0][1].startswith("[media attached: media/")


async def test_image_bytes_never_reach_the_transcript_and_the_model_sees_the_image(tmp_path: Path) -> None:
    made = bench(tmp_path)
    photo = png(900)
    workspace = made.home.workspace("main", made.settings)
    (workspace / "photo.png").write_bytes(photo)
    assert len(photo) > 500_000
    await made.turn("look", [calls(call("t1", "read", path="photo.png")), "seen"])
    assert max(map(len, disk_lines(made))) < 20_000
    assert shape(made.model.requests[1])[-1] == ["text", "text", "image"]


async def test_an_image_goes_out_of_sight_after_three_more_turns(tmp_path: Path) -> None:
    made = bench(tmp_path)
    await made.turn(Inbound("one", session_key=MAIN, attachments=(Attachment(png(), "a.png"),)), ["1"])
    for number in ("2", "3", "4"):
        await made.turn(number, [number])
    assert shape(made.model.requests[2])[0] == ["text", "image"]
    last = await made.turn("five", ["5"])
    assert shape(made.model.requests[-1])[0] == ["text"]
    first = made.model.requests[-1].messages[0].text
    assert first == "[media reference removed - already processed by model]\none"
    assert ("attachments", "kept") not in whats(last.trace)


async def test_only_the_newest_images_are_sent(tmp_path: Path) -> None:
    made = bench(tmp_path, sets=("media.imagesInContext=2",))
    photos = tuple(Attachment(png(size), f"{size}.png") for size in (8, 9, 10))
    outcome = await made.turn(Inbound("which?", session_key=MAIN, attachments=photos), ["the last two"])
    assert shape(made.model.requests[0]) == [["text", "image", "image"]]
    (choice,) = (d for _, d in outcome.trace.decisions if (d.node, d.what) == ("attachments", "kept"))
    assert (choice.count_before, choice.count_after) == (3, 2)


async def test_files_are_written_edited_read_and_used_in_one_turn(tmp_path: Path) -> None:
    made = bench(tmp_path)
    await made.turn(
        "work",
        [
            calls(
                call("t1", "write", path="notes/a.md", content="hello\nworld\n"),
                call("t2", "edit", file_path="notes/a.md", old_string="world", new_string="世界"),
                call("t3", "read", path="./notes/a.md"),
            ),
            calls(call("t4", "bash", cmd="cat notes/a.md; exit 2")),
            "done",
        ],
    )
    said = [text for role, text in made.spoken() if role == "toolResult"]
    assert said == [
        "Wrote 12 bytes to notes/a.md (new)",
        "Edited notes/a.md: lines 2-2",
        "hello\n世界",
        "hello\n世界\n\nCommand exited with code 2",
    ]


async def test_a_group_cannot_read_private_memory(tmp_path: Path) -> None:
    made = bench(tmp_path, GROUP)
    workspace = made.home.workspace("main", made.settings)
    (workspace / "MEMORY.md").write_text("Birthday: 1 March")
    await made.turn("when?", [calls(call("t1", "read", path="MEMORY.md")), "I cannot say"], key=GROUP)
    assert "1 March" not in json.dumps(disk_lines(made, GROUP))
    assert "memory is not available in group chats" in dict(made.spoken(GROUP))["toolResult"]


@dataclass
class Notes:
    """Memory tools over one note."""

    name: str
    text: str

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "", {"type": "object", "properties": {}})

    def file_argument(self, arguments: Any) -> str | None:
        return None

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult([{"type": "text", "text": self.text}])


async def test_the_offline_model_answers_a_turn_from_memory(tmp_path: Path) -> None:
    hit = {"path": "memory/a.md", "startLine": 2, "endLine": 3, "score": 1.0, "source": "memory"}
    read = {"status": "ok", "path": "memory/a.md", "from": 2, "lines": 2, "text": "- 自行车在地下室\n- 钥匙在包里"}
    made = bench(tmp_path)
    made.tools = (
        Notes("memory_search", json.dumps({"results": [hit], "searched": {"files": 1}})),
        Notes("memory_get", json.dumps(read)),
    )
    outcome = await made.turn("我的自行车在哪里?", model=OfflineModel(made.counter))
    assert outcome.reply is not None
    assert outcome.reply.text == "我的笔记里是这样写的：\n\n> - 自行车在地下室\nSource: memory/a.md#L2"
    assert [role for role, _ in made.spoken()] == ["user", *("assistant", "toolResult") * 2, "assistant"]
