"""One-line notices about settings that are allowed but worth a word.

Source: spec/settings.md sections 3 and 11; spec/sessions.md 1.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turngraph.config.settings import AgentSettings

ROOMY_WINDOW_TOKENS = 16_000  # design decision 1: smaller windows work, with a warning


def notices(agents: Iterable[AgentSettings], name: str) -> tuple[str, ...]:
    """Return the notices about resolved settings, each once; ``name`` is the file they came from."""
    found = (line for agent in agents for line in _of_agent(agent))
    return tuple(dict.fromkeys(f"{name}: {line}" for line in found))


def _of_agent(agent: AgentSettings) -> Iterator[str]:
    for provider, entry in agent.models.providers.items():
        for model in entry.models:
            window = model.context_window
            if window is not None and window < ROOMY_WINDOW_TOKENS:
                yield f"the context window of {provider}:{model.id} is small ({window} tokens); little history will fit"
    yield from _shared_main_session(agent)
    if agent.memory.backend == "qmd":
        yield "memory.backend qmd is not available; the built-in index is used"
    path = agent.memory_search.store.path
    if path and path.suffix == ".sqlite":
        yield f"memorySearch.store.path {path.name} is an index of another format; {agent.index_file} is used"


def _shared_main_session(agent: AgentSettings) -> Iterator[str]:
    """Warn when several people write into one session (spec/sessions.md 1.5, Choice)."""
    people = {
        (channel, sender) for channel, entry in agent.channels.items() for sender in entry.allow_from or () if sender
    }
    everybody = any(sender == "*" for _, sender in people)
    if agent.session.dm_scope == "main" and (len(people) > 1 or everybody):
        who = "everybody" if everybody else f"{len(people)} people"
        yield f"{who} may write and share the main session; session.dmScope separates them"
