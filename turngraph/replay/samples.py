"""The sample home of the demo: a workspace, recorded sessions, and settings under which every policy has work to do."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

SETTINGS = """\
// Written by `turngraph demo`. All keys: docs/settings.md.
{
  agents: {
    defaults: {
      userTimezone: "Asia/Shanghai",
      contextTokens: 32000, // a small window, so that limit, guard, pruning, flush and compaction all have work
      contextPruning: { mode: "cache-ttl", ttl: "5m", eligible: "always" },
      bootstrapMaxChars: 6000,
    },
  },
  session: {
    dmScope: "per-channel-peer",
    reset: { mode: "daily", atHour: 4 },
    maintenance: { pruneAfter: "3650d" }, // the samples were spoken in March 2026 and stay
  },
  channels: { telegram: { dmHistoryLimit: 8 } },
}
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One recorded session of the sample home.

    Attributes:
        file: transcript, below ``agents/main/sessions``.
        session_key: key under which it is replayed.
        about: one line for the table.
    """

    file: str
    session_key: str
    about: str


def write_sample_home(root: Path) -> None:
    """Create the sample home; files that are there already are replaced by the packaged ones.

    Raises:
        OSError: the folder cannot be written.
    """
    root.mkdir(parents=True, exist_ok=True)
    with as_file(files("turngraph").joinpath("data/samples/home")) as packaged:
        shutil.copytree(packaged, root, dirs_exist_ok=True)
    (root / "turngraph.json5").write_text(SETTINGS, encoding="utf-8")


def sample_sessions(root: Path) -> list[Sample]:
    """Return the recorded sessions of the sample home in the order in which they were spoken."""
    import orjson

    listed = orjson.loads((root / "samples.json").read_bytes())
    return [Sample(item["file"], item["sessionKey"], item["about"]) for item in listed]
