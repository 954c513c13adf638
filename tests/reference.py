"""``python -m tests.reference``: the pages in docs/ that are made from the program say what the program does.

``--write`` makes them anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
HELP_COLUMNS = 100

SETTINGS_INTRO = """# Settings

Written by `make docs`. Keys stand in `turngraph.json5` of the home (JSON5: comments and trailing
commas are fine); `openclaw.json` is read when it is absent. `--set KEY=VALUE` sets one for a run, keys below
`agents.defaults` without that prefix. An entry of `agents.list` (`id`, `name`, `default`) or `agents.entries` takes
every key of `agents.defaults` for one agent. `turngraph settings --changed` shows what holds. `<name>` stands for a
free name, `[]` for the elements of a list; an empty default means absent.
"""
COMMANDS_INTRO = """# Commands

Written by `make docs`. Exit codes: 0 fine, 1 the answer is "no" or "differs", 2 wrong use, 3 could
not do it. `--debug` anywhere shows the traceback of an error.
"""


def settings_page() -> str:
    """Return the table of all settings."""
    from turngraph.config.reference import blocks

    parts = [SETTINGS_INTRO]
    for block in blocks():
        rows = "".join(f"| `{row.key}` | {_cell(row.allowed)} | {_code(row.default)} |\n" for row in block.rows)
        about = block.about.replace("``", "`")
        parts.append(f"## {block.path}\n\n{about}\n\n| key | allowed | default |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def commands_page() -> str:
    """Return the help of every command."""
    return "\n".join([COMMANDS_INTRO, *(f"## turngraph {name}\n\n```\n{text}\n```\n" for name, text in _helps())])


def _helps() -> Iterator[tuple[str, str]]:
    import typer
    from typer.main import get_command
    from typer.testing import CliRunner

    from turngraph.cli.main import COMMANDS, app

    root = get_command(app)
    for name in COMMANDS:
        command = root.get_command(typer.Context(root), name)  # type: ignore[attr-defined]
        for own in getattr(command, "commands", None) or [""]:
            words = [name, own] if own else [name]
            told = CliRunner().invoke(app, [*words, "--help"], prog_name="turngraph", terminal_width=HELP_COLUMNS)
            yield " ".join(words), "\n".join(line.rstrip() for line in told.stdout.strip().splitlines())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`" if text and text != "required" else text


PAGES = {"settings.md": settings_page, "commands.md": commands_page}


def main(arguments: list[str]) -> int:
    """Compare the pages with the program, or write them."""
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if "--write" in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"docs/{name} is not what the program says; run `make docs`")
    print("\n".join(stale) or f"{len(PAGES)} pages say what the program does")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
