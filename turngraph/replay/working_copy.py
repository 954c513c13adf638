"""Settings of a working copy: no path in them leads out of it.

Pure. Source: spec/seeing.md 4.1 and 4.2.
"""

from __future__ import annotations

from turngraph.config import AgentSettings


def contained(settings: AgentSettings) -> AgentSettings:
    """Return ``settings`` with workspace, session store and index where a home has them by default.

    A home may name folders of its own, also outside it; what a replay writes belongs into its working copy.
    """
    search = settings.memory_search
    root = settings.root
    return settings.model_copy(
        update={
            "workspace": None,
            "memory_search": search.model_copy(
                update={"extra_paths": (), "store": search.store.model_copy(update={"path": None})}
            ),
            "root": root.model_copy(update={"session": root.session.model_copy(update={"store": None})}),
        }
    )
