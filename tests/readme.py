"""``python -m tests.readme README.md``: every command and settings key that a document names must exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from turngraph.config import known_keys

_COMMAND = re.compile(r"^\s*(?:\$ )?turngraph ((?:[a-z]+ ?)+)", re.MULTILINE)
_MAKE = re.compile(r"^\s*(?:\$ )?make ([a-z-]+)", re.MULTILINE)
_KEY = re.compile(r"`([a-z][A-Za-z]+(?:\.[a-z][A-Za-z0-9]+)+)`")
_NOT_KEYS = re.compile(r"\.(py|md|json|json5|jsonl|toml|html|yaml|duckdb|parquet|lock)$")


def problems(text: str, makefile: str) -> list[str]:
    """Return one line for each command, make target or settings key in ``text`` that does not exist."""
    found = []
    for match in _COMMAND.finditer(text):
        words = match.group(1).split()
        if not command_exists(words):
            found.append(f"no such command: turngraph {' '.join(words)}")
    for match in _MAKE.finditer(text):
        if not re.search(rf"^{match.group(1)}:", makefile, re.MULTILINE):
            found.append(f"no such target: make {match.group(1)}")
    keys = known_keys()
    for match in _KEY.finditer(text):
        name = match.group(1)
        if _NOT_KEYS.search(name) or name.split(".")[0] in ("turngraph", "tests", "stores", "nodes", "graphs", "flows"):
            continue
        if not any(key == name or key.endswith(f".{name}") or key.startswith(f"{name}.") for key in keys):
            found.append(f"no such settings key: {name}")
    return found


def command_exists(words: list[str]) -> bool:
    """Tell whether ``turngraph WORDS...`` is a command; words behind a plain command are its arguments."""
    from typer.testing import CliRunner

    from turngraph.cli.main import COMMANDS, app

    if not words or words[0] not in COMMANDS:
        return False
    asked = words[:2] if COMMANDS[words[0]][1] == "app" else words[:1]
    return CliRunner().invoke(app, [*asked, "--help"]).exit_code == 0


def main(arguments: list[str]) -> int:
    """Check the named documents."""
    makefile = Path("Makefile").read_text(encoding="utf-8")
    found = [f"{name}: {line}" for name in arguments for line in problems(Path(name).read_text("utf-8"), makefile)]
    print("\n".join(found) or f"{len(arguments)} documents name only what exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
