"""What is remembered of heartbeats between two of them: ``cron/heartbeats.json``, and the seed of their phases.

Source: spec/scheduling.md A2 and A3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from stores.sessions import write_whole

if TYPE_CHECKING:
    from stores.home import Home

KEPT_STARTS = 10  # more than the flood guard looks at


@dataclass(frozen=True, slots=True)
class BeatState:
    """The last heartbeats of one agent.

    Attributes:
        last_start_ms: start of the last beat that ran; ``starts_ms`` the newest of them.
        last_status: ran, skipped or failed; ``last_reason`` why.
        failures: failed beats in a row; ``failed_ms`` when the last one ended.
        sent_text, sent_ms: what was delivered last, to see a repetition.
    """

    last_start_ms: int | None = None
    starts_ms: tuple[int, ...] = ()
    last_status: str | None = None
    last_reason: str | None = None
    last_ms: int | None = None
    failures: int = 0
    failed_ms: int | None = None
    sent_text: str | None = None
    sent_ms: int | None = None

    def started(self, now_ms: int) -> BeatState:
        """Return the state after a beat has begun."""
        return replace(self, last_start_ms=now_ms, starts_ms=(*self.starts_ms, now_ms)[-KEPT_STARTS:])

    def ended(self, status: str, reason: str, now_ms: int) -> BeatState:
        """Return the state after a beat has ended or was left out."""
        known = replace(self, last_status=status, last_reason=reason, last_ms=now_ms)
        if status == "failed":
            return replace(known, failures=self.failures + 1, failed_ms=now_ms)
        return replace(known, failures=0, failed_ms=None) if status == "ran" else known


@dataclass(slots=True)
class BeatStates:
    """The states of all agents of a home; a damaged file counts as empty."""

    home: Home
    _known: dict[str, BeatState] = field(default_factory=dict)

    def read(self) -> Mapping[str, BeatState]:
        """Return the states by agent id."""
        try:
            document = json.loads((self.home.cron_dir / "heartbeats.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return {agent: _state(raw) for agent, raw in document.items()} if isinstance(document, dict) else {}

    def of(self, agent_id: str) -> BeatState:
        """Return the state of one agent."""
        return self.read().get(agent_id, BeatState())

    def write(self, agent_id: str, state: BeatState) -> None:
        """Replace the state of one agent."""
        document = {agent: _plain(known) for agent, known in self.read().items()} | {agent_id: _plain(state)}
        text = json.dumps(document, indent=2, ensure_ascii=False)
        write_whole(self.home.cron_dir / "heartbeats.json", f"{text}\n".encode(), durable=False)


def _plain(state: BeatState) -> dict[str, Any]:
    return {name: value for name, value in asdict(state).items() if value not in (None, ())}


def _state(raw: Any) -> BeatState:
    names = {item.name for item in fields(BeatState)}
    known = {name: value for name, value in raw.items() if name in names} if isinstance(raw, dict) else {}
    known["starts_ms"] = tuple(known.get("starts_ms") or ())
    return BeatState(**known)


def read_seed(home: Home) -> str | None:
    """Return the seed that gives each agent its phase; ``None`` before the first serve of a home."""
    try:
        return (home.cron_dir / "seed").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def ensure_seed(home: Home, fresh: str) -> str:
    """Return the seed of a home, made from ``fresh`` where there is none."""
    known = read_seed(home)
    if known is None:
        write_whole(home.cron_dir / "seed", f"{fresh}\n".encode())
        return fresh
    return known
