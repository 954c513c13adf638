"""Build the context of a live turn: model, tools, stores and hooks as settings and caller say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from nodes.chat_commands import asked_of
from nodes.state import Collector, TurnContext
from stores.media import MediaStore
from turngraph.errors import ModelError
from turngraph.hooks import Hooks
from turngraph.inbound import Inbound
from turngraph.models.model import Model, ModelFacts
from turngraph.models.played import PLAYERS
from turngraph.models.registry import OFFLINE, make_model, split_name
from turngraph.session_routing import inbound_key
from turngraph.tokens import default_counter
from turngraph.tools.offered import offered_tools
from turngraph.tools.tool import Tool

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from stores.memory.results import SearchResult
    from stores.sessions import SessionStore
    from turngraph.api import Agent


def build_context(agent: Agent, inbound: Inbound) -> TurnContext:
    """Return a fresh context for one turn of ``agent``.

    Raises:
        ModelError: the model that the settings or the session name cannot be made.
        PluginError: a plugin that the settings name cannot be loaded.
    """
    settings = agent.settings
    store = agent.sessions()
    key = inbound_key(inbound, agent.id, settings.session)
    model, fallbacks = _models(agent, store, key, inbound)
    loop_time = asyncio.get_running_loop().time() if _in_loop() else None
    collector = Collector()
    tools, unavailable = offered_tools(
        settings,
        key,
        inbound.kind,
        workspace=agent.home.workspace(agent.id, settings),
        memory_tools=_memory_tools(agent, key, collector),
    )
    if agent.custom_tools is not None:
        tools, unavailable = tuple(agent.custom_tools), {}
    return TurnContext(
        home=agent.home,
        agent_id=agent.id,
        settings=settings,
        clock=agent.clock,
        ids=agent.ids,
        counter=default_counter(),
        model=model,
        fallbacks=fallbacks,
        summariser=_named(settings.compaction.model.primary if settings.compaction.model else None, agent),
        flush_model=_named(settings.compaction.memory_flush.model, agent),
        sessions=store,
        transcripts=agent.transcripts,
        media=MediaStore(agent.home.media_dir(agent.id)),
        hooks=agent.hooks or Hooks.load(settings, agent.home),
        collector=collector,
        tools=tools,
        unavailable_tools=unavailable,
        deadline=None if loop_time is None else loop_time + settings.timeout_seconds,
        file_changed=agent.note_change,
        session_changed=agent.note_session,
        session_key=key,
    )


def _memory_tools(agent: Agent, key: str, collector: Collector) -> Callable[[], Sequence[Tool]]:
    def make() -> Sequence[Tool]:
        from turngraph.tools.memory_search import recalled
        from turngraph.tools.memory_tools import memory_tools

        def on_search(query: str, result: SearchResult) -> None:
            collector.note([recalled(query, result)])

        return memory_tools(agent.memory, agent.settings, session_key=key, on_search=on_search)

    return make


def as_model(model: Model | BaseChatModel | str, agent: Agent) -> Model:
    """Turn what a caller gave as model into one of ours."""
    if isinstance(model, str):
        return _make(model, agent)
    if hasattr(model, "facts"):
        return cast("Model", model)
    from turngraph.models.langchain_model import LangChainModel

    name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)
    return LangChainModel(model, ModelFacts("langchain", name), clock=agent.clock)


def _models(agent: Agent, store: SessionStore, key: str, inbound: Inbound) -> tuple[Model, tuple[Model, ...]]:
    if agent.model is not None:
        return as_model(agent.model, agent), ()
    if (asked := asked_of(inbound, agent.settings).model) is not None:
        return _make(asked, agent), ()
    entry = store.get(key)
    override, provider = entry.get("modelOverride"), entry.get("providerOverride")
    if isinstance(override, str) and override:
        name = f"{provider}:{override}" if isinstance(provider, str) and provider else override
        return _make(name, agent), ()
    chain = agent.settings.model
    return _make(chain.primary, agent), tuple(_available(chain.fallbacks, agent))


def _make(name: str, agent: Agent) -> Model:
    provider = split_name(agent.settings.unaliased(name))[0]
    if provider in PLAYERS:
        # The next turn of this process goes on where the last one ended.
        if name not in agent.playing:
            agent.playing[name] = make_model(name, agent.settings)
        return agent.playing[name]
    if provider != OFFLINE:
        return make_model(name, agent.settings)
    from stores.memory.tokenizer import count_terms
    from turngraph.models.offline import OfflineModel

    # The offline model quotes the lines that share most words with the question, as the keyword search counts words.
    return OfflineModel(terms=lambda text: set(count_terms(text).counts))


def _available(names: tuple[str, ...], agent: Agent) -> list[Model]:
    models = []
    for name in names:
        try:
            models.append(_make(name, agent))
        except ModelError as error:
            if error.kind not in ("missing", "auth"):
                raise
    return models


def _named(name: str | None, agent: Agent) -> Model | None:
    return _make(name, agent) if name else None


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
