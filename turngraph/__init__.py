"""turngraph: context memory for long-lived agents, one turn graph at a time.

Names are imported when they are first used: ``import turngraph`` costs nothing (spec/spike.md section 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turngraph.api import Agent as Agent
    from turngraph.api import Turngraph as Turngraph
    from turngraph.api import TurnResult as TurnResult
    from turngraph.api import open_home as open_home
    from turngraph.errors import TurngraphError as TurngraphError
    from turngraph.inbound import Attachment as Attachment
    from turngraph.inbound import Inbound as Inbound

_PLACES = {
    "Agent": "turngraph.api",
    "Attachment": "turngraph.inbound",
    "Inbound": "turngraph.inbound",
    "TurnResult": "turngraph.api",
    "Turngraph": "turngraph.api",
    "TurngraphError": "turngraph.errors",
    "open_home": "turngraph.api",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'turngraph' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
