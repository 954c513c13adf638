"""``turngraph turn`` and ``turngraph chat``: run turns from the terminal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turngraph.cli.options import AgentOption, HomeOption, JsonOption, SetOption, find_home, print_json, read_settings
from turngraph.inbound import Attachment

if TYPE_CHECKING:
    from turngraph.api import Agent, TurnResult

ChannelOption = Annotated[str | None, typer.Option("--channel", help="Channel the message comes from.")]
AccountOption = Annotated[str | None, typer.Option("--account", help="Account of the channel.")]
ChatOption = Annotated[Literal["direct", "group", "channel"], typer.Option("--chat", help="Kind of chat.")]
PeerOption = Annotated[str | None, typer.Option("--peer", help="Who writes, or the id of the group.")]
ThreadOption = Annotated[str | None, typer.Option("--thread", help="Thread or topic id.")]
SessionOption = Annotated[str | None, typer.Option("--session", help="Session key; wins over the other facts.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="Model of this turn, as provider:model.")]
FileOption = Annotated[
    list[Path] | None, typer.Option("--file", exists=True, dir_okay=False, help="Attach a file; may be repeated.")
]


def turn(
    text: Annotated[str, typer.Argument(help="The message; '-' reads it from standard input.")] = "",
    home: HomeOption = None,
    agent: AgentOption = None,
    channel: ChannelOption = None,
    account: AccountOption = None,
    chat: ChatOption = "direct",
    peer: PeerOption = None,
    thread: ThreadOption = None,
    session: SessionOption = None,
    model: ModelOption = None,
    file: FileOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Run one turn and print the reply; what each node decided goes to stderr.

    Example: turngraph turn "When is the deploy?" --channel telegram --peer ana
    """
    message = sys.stdin.read() if text == "-" else text
    attachments = tuple(Attachment(path.read_bytes(), path.name) for path in file or ())
    if not message.strip() and not attachments:
        raise typer.BadParameter("nothing to say: give a text, '-' to read it from standard input, or --file")
    chosen = _agent(home, agent, model, set)
    facts: dict[str, Any] = {"channel": channel, "account": account, "chat_type": chat, "peer": peer, "thread": thread}
    result = chosen.run(message, attachments=attachments, session_key=session, sender=peer, **facts)
    if json:
        print_json(result_json(result))
    else:
        print(result.text)
        print(footer(result), file=sys.stderr)
    if result.kind == "error":
        raise typer.Exit(3)


def chat(
    home: HomeOption = None,
    agent: AgentOption = None,
    channel: ChannelOption = None,
    account: AccountOption = None,
    chat: ChatOption = "direct",
    peer: PeerOption = None,
    thread: ThreadOption = None,
    session: SessionOption = None,
    model: ModelOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Talk to an agent; an empty line or Ctrl-D ends it. With --json each turn is one JSON object.

    Example: turngraph chat --session agent:main:main
    """
    chosen = _agent(home, agent, model, set)
    facts: dict[str, Any] = {"channel": channel, "account": account, "chat_type": chat, "peer": peer, "thread": thread}
    facts |= {"session_key": session, "sender": peer}
    asyncio.run(_converse(chosen, facts, json))


async def _converse(agent: Agent, facts: dict[str, Any], json: bool) -> None:
    interactive = sys.stdin.isatty()
    while True:
        if interactive:
            print("> ", end="", flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line.strip():
            return
        async for event in agent.stream(line.rstrip("\n"), **facts):
            kind = event.get("type")
            if kind == "message_update" and not json:
                print(event.get("text", ""), end="", flush=True)
            elif kind == "tool_execution_start" and not json:
                print(f"[{event['toolName']}] ", end="", file=sys.stderr, flush=True)
            elif kind == "notice" and not json:
                print(event["text"], file=sys.stderr, flush=True)
            elif kind == "result":
                _show_end(event["result"], json)


def _show_end(result: TurnResult, json: bool) -> None:
    if json:
        print_json(result_json(result))
        return
    if result.kind in ("command", "error", "limit"):
        print(result.text, end="")
    print()
    print(footer(result), file=sys.stderr)


def _agent(home: Path | None, agent: str | None, model: str | None, sets: list[str] | None) -> Agent:
    from turngraph.api import Turngraph
    from turngraph.cli.options import pick_agent

    found = find_home(home)
    settings = read_settings(found, sets)
    return Turngraph(found, settings).agent(pick_agent(settings, agent), model=model)


def result_json(result: TurnResult) -> dict[str, Any]:
    """Return the machine-readable form of a turn's result."""
    trace = result.trace
    return {
        "text": result.text,
        "kind": result.kind,
        "sessionKey": result.session_key,
        "sessionId": result.session_id,
        "traceId": trace.trace_id,
        "turn": trace.turn,
        "promptTokens": trace.facts["prompt_tokens"],
        "modelCalls": trace.facts["model_calls"],
        "decisions": [
            {"node": decision.node, "what": decision.what, "why": decision.why} for _, decision in trace.decisions
        ],
    }


def footer(result: TurnResult) -> str:
    """Return one line that says what the turn cost and how to look at it."""
    facts = result.trace.facts
    deciding = len({decision.node for _, decision in result.trace.decisions})
    return (
        f"turn {result.trace.turn} of {result.session_key}: {facts['prompt_tokens']:,} prompt tokens, "
        f"{facts['model_calls']} model calls, {deciding} nodes decided; turngraph context {result.session_key}"
    )
