"""Bisect: which one setting makes a fact disappear from the model's sight.

Source: spec/seeing.md 5.4.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turngraph.config import AgentSettings
from turngraph.errors import ConfigError, NotFound
from turngraph.replay.driver import replay_session
from turngraph.replay.source import RecordedSession

ABSENT = "(default)"


@dataclass(frozen=True, slots=True)
class Culprit:
    """The setting after which the fact is not visible any more.

    Attributes:
        path: of the setting. good, bad: its values, :data:`ABSENT` where a file does not set it.
        tried: replays it took.
    """

    path: str
    good: Any
    bad: Any
    tried: int


def read_flat(path: Path) -> dict[str, Any]:
    """Read a settings file as flat paths to values.

    Raises:
        ConfigError: it cannot be read.
    """
    import pyjson5

    try:
        tree = pyjson5.decode(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, pyjson5.Json5Exception) as error:
        raise ConfigError(f"{path}: cannot be read as JSON5 ({error})") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: settings are an object")
    flat: dict[str, Any] = {}
    _flatten(tree, "", flat)
    return flat


def _flatten(tree: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            _flatten(value, path, into)
        else:
            into[path] = value


def differing(good: Mapping[str, Any], bad: Mapping[str, Any]) -> list[str]:
    """Return the paths whose values differ, in the order in which they stand."""
    missing = object()
    return [path for path in {**good, **bad} if good.get(path, missing) != bad.get(path, missing)]


def bisect(good: Mapping[str, Any], bad: Mapping[str, Any], holds: Callable[[Mapping[str, Any]], bool]) -> Culprit:
    """Find the one setting whose change from good to bad breaks ``holds``.

    The settings that differ are taken over one after another, and half of what is left is looked at in each step; so
    the named one breaks it on top of those before it.

    Args:
        good, bad: flat settings.
        holds: whether the fact is visible under flat settings.

    Raises:
        NotFound: it does not hold under the good settings, holds under the bad ones, or nothing differs.
    """
    changed = differing(good, bad)
    if not changed:
        raise NotFound("the two settings files do not differ")
    if not holds(good):
        raise NotFound("the fact is not visible under the good settings either")
    if holds(bad):
        raise NotFound("the fact is still visible under the bad settings")
    low, high, tried = 0, len(changed), 2  # visible with the first `low` changes, not visible with the first `high`
    while high - low > 1:
        middle = (low + high) // 2
        tried += 1
        if holds(_mixed(good, bad, changed[:middle])):
            low = middle
        else:
            high = middle
    path = changed[high - 1]
    return Culprit(path, good.get(path, ABSENT), bad.get(path, ABSENT), tried)


def _mixed(good: Mapping[str, Any], bad: Mapping[str, Any], taken: Sequence[str]) -> dict[str, Any]:
    mixed = dict(good)
    for path in taken:
        if path in bad:
            mixed[path] = bad[path]
        else:
            mixed.pop(path, None)
    return mixed


def fact_visible(
    session: RecordedSession, settings: AgentSettings, fact: str, turn: int, *, window_tokens: int
) -> bool:
    """Replay up to ``turn`` and return whether the model saw the fact in one of its calls there.

    Args:
        fact: a text, or the id of an entry of the record: then each line of it counts.

    Raises:
        NotFound: the turn made no model call.
    """
    entry = next((m.text for t in session.turns for m in (t.user, *t.answers, *t.results) if m.entry_id == fact), None)
    wanted = (entry or fact).strip()
    shortened = replace(session, turns=session.turns[:turn])
    work = Path(tempfile.mkdtemp(prefix="turngraph-bisect-"))
    try:
        turns = replay_session(shortened, work / "home", settings, window_tokens=window_tokens)
    finally:
        shutil.rmtree(work)
    calls = turns[-1].calls if turns else ()
    if not calls:
        raise NotFound(f"turn {turn} made no model call in the replay")
    own = session.turns[turn - 1].user.text
    return any(wanted in text for call in calls for text in _texts(call.request.messages) if text != own) or any(
        wanted in call.request.system for call in calls
    )


def _texts(messages: Sequence[Any]) -> list[str]:
    from turngraph.replay.evidence import evidence_text

    return [evidence_text(message) for message in messages]
