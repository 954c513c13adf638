"""Options that many commands share, and how a command reports."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stores.home import Home
from turngraph.errors import NotFound, TurngraphError

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console
    from rich.table import Table

    from turngraph.config import Settings

HomeOption = Annotated[
    Path | None, typer.Option("--home", help="Home folder; else TURNGRAPH_HOME, else ~/.turngraph.", show_default=False)
]
AgentOption = Annotated[str | None, typer.Option("--agent", help="Agent id; else the default agent.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="PATH=VALUE: a setting for this run; may be repeated.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def new_app(help_text: str) -> typer.Typer:
    """Make a command group without rich panels, which would cost a third of a second at start."""
    return typer.Typer(
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        add_completion=False,
    )


def find_home(flag: Path | None) -> Home:
    """Return the home that the flag or the environment names."""
    return Home.find(flag, os.environ)


def read_settings(home: Home, sets: list[str] | None = None) -> Settings:
    """Load the settings of a home; notices go to stderr, one line each.

    Raises:
        ConfigError: the settings have problems; all are listed.
    """
    from turngraph.config import load_settings

    settings = load_settings(home.root, sets=tuple(sets or ()), env=os.environ)
    for note in settings.notes:
        warn(note)
    return settings


def pick_agent(settings: Settings, agent: str | None) -> str:
    """Return the agent a command works for.

    Raises:
        NotFound: there is no agent of that id.
    """
    from turngraph.session_keys import normalize_agent_id

    if agent is None:
        return settings.default_agent_id
    wanted = normalize_agent_id(agent)
    if wanted not in settings.agent_ids:
        raise NotFound(f"no agent {agent!r} in the settings; there are: {', '.join(settings.agent_ids)}")
    return wanted


def print_json(value: Any) -> None:
    """Print ``value`` as indented JSON on stdout."""
    import orjson

    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE, default=str))
    sys.stdout.buffer.flush()


def warn(text: str) -> None:
    """Print one line on stderr."""
    print(text, file=sys.stderr)


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; rich is imported only by commands that print tables."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def table(*columns: str, title: str | None = None, right: tuple[str, ...] = ()) -> Table:
    """Make a plain table; columns named in ``right`` are right-aligned."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def guarded(run: Callable[[], None]) -> int:
    """Run the command line; errors meant for users become one message and an exit code, without a traceback.

    Exit codes: 0 fine, 1 the answer is no, 2 wrong use, 3 could not do it (spec/style.md section 5).
    """
    _end_like_any_exit("SIGTERM", "SIGQUIT", "SIGABRT")
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        run()
    except TurngraphError as error:
        if debug:
            raise
        warn(f"turngraph: {error}")
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        warn("turngraph: interrupted")
        return 130
    except OSError as error:
        if debug:
            raise
        warn(f"turngraph: {error.strerror or error}: {error.filename or ''}".rstrip(": "))
        return 3
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    return 0


def _end_like_any_exit(*signals: str) -> None:
    """Let a signal end the program as an exit does: turns are traced, lock files go (spec/sessions.md 3.5)."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (getattr(signal, name, None) for name in signals):
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)
