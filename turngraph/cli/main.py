"""The front door: ``turngraph``, with one module a command group, imported when that group is used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from turngraph.cli.options import guarded

# command -> (module, attribute, one line of help); an attribute that is a Typer app is a group.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("turngraph.cli.demo", "demo", "Replay sample transcripts offline and run one live turn."),
    "turn": ("turngraph.cli.turn", "turn", "Run one turn for a message."),
    "chat": ("turngraph.cli.turn", "chat", "Talk to an agent in the terminal."),
    "replay": ("turngraph.cli.replay", "replay", "Replay transcripts through the turn graph."),
    "sessions": ("turngraph.cli.sessions", "app", "List, show, reset and clean up sessions."),
    "turns": ("turngraph.cli.turns", "turns", "List the traced turns of a session."),
    "context": ("turngraph.cli.context", "context", "Show what a turn's prompt was made of."),
    "report": ("turngraph.cli.report", "report", "Write what a turn saw, and why, as one HTML file."),
    "view": ("turngraph.cli.view", "view", "Show a home as a local web page."),
    "export": ("turngraph.cli.export", "export", "Export traces as OpenTelemetry spans."),
    "graph": ("turngraph.cli.graph", "graph", "Draw the compiled turn graph."),
    "memory": ("turngraph.cli.memory", "app", "Index, search and read long-term memory."),
    "compact": ("turngraph.cli.compact", "compact", "Summarise the older part of a session."),
    "cron": ("turngraph.cli.cron", "app", "Make, list, change and run scheduled jobs."),
    "heartbeat": ("turngraph.cli.heartbeat", "app", "Run heartbeats by hand, and see when the next are due."),
    "serve": ("turngraph.cli.serve", "serve", "Run heartbeats, jobs and upkeep until told to stop."),
    "reindex": ("turngraph.cli.reindex", "reindex", "Bring the memory indexes up to date."),
    "maintenance": ("turngraph.cli.maintenance", "maintenance", "Sweep what is past its retention."),
    "status": ("turngraph.cli.status", "status", "Show agents, next runs, last results and indexes."),
    "settings": (
        "turngraph.cli.settings",
        "settings",
        "Show the settings that hold and what is not default.",
    ),
    "doctor": ("turngraph.cli.doctor", "doctor", "Find what will cause trouble in a home or a transcript."),
}


class LazyGroup(TyperGroup):
    """A group that imports a command's module when the command is asked for (spec/spike.md section 4)."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, help_text = COMMANDS[cmd_name]
        target = getattr(import_module(module), attribute)
        if isinstance(target, typer.Typer):
            return get_command(target)
        app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
        app.command(cmd_name, short_help=help_text)(target)
        return get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, _, help_text) in COMMANDS.items()])


app = typer.Typer(
    cls=LazyGroup,
    help="Context memory for long-lived agents: see every turn, schedule runs, replay transcripts.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from importlib.metadata import version as installed

        print(installed("turngraph"))
        raise typer.Exit


def run() -> None:
    """Entry point of the console script."""
    sys.exit(guarded(app))


if __name__ == "__main__":
    run()
