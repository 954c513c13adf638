"""Chat models by name: ``offline``, or ``provider:model`` through the provider's own package."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from turngraph.errors import ModelError
from turngraph.models.model import Model, ModelFacts

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

OFFLINE = "offline"
DEFAULT_WINDOW_TOKENS = 200_000
PROVIDER_ALIASES = {"google": "google_genai", "gemini": "google_genai", "mistral": "mistralai"}


@dataclass(frozen=True, slots=True)
class Provider:
    """How to make a chat model of one provider.

    Attributes:
        module, class_name: of the langchain package; extra: our extra that installs it.
        api: message protocol; key: usual environment variable of its key.
        model_argument: name of the constructor's model argument.
    """

    module: str
    class_name: str
    extra: str
    api: str
    key: str | None
    model_argument: str = "model"


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("langchain_openai", "ChatOpenAI", "openai", "openai-completions", "OPENAI_API_KEY"),
    "openai-compatible": Provider("langchain_openai", "ChatOpenAI", "openai", "openai-completions", "OPENAI_API_KEY"),
    "anthropic": Provider(
        "langchain_anthropic", "ChatAnthropic", "anthropic", "anthropic-messages", "ANTHROPIC_API_KEY"
    ),
    "google_genai": Provider(
        "langchain_google_genai", "ChatGoogleGenerativeAI", "google", "google-generative-ai", "GOOGLE_API_KEY"
    ),
    "mistralai": Provider("langchain_mistralai", "ChatMistralAI", "mistral", "openai-completions", "MISTRAL_API_KEY"),
    "ollama": Provider("langchain_ollama", "ChatOllama", "ollama", "ollama", None),
}


def split_name(name: str, aliases: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Split ``provider:model`` or ``provider/model`` at the first of the two signs; an alias is looked up first.

    >>> split_name("google/gemini-3-pro")
    ('google_genai', 'gemini-3-pro')
    """
    name = (aliases or {}).get(name, name)
    cut = min((index for index in (name.find(":"), name.find("/")) if index > 0), default=-1)
    if cut < 0:
        return name, name
    provider = name[:cut].lower()
    return PROVIDER_ALIASES.get(provider, provider), name[cut + 1 :]


def model_facts(name: str, settings: AgentSettings) -> ModelFacts:
    """Return what is known of a model: the packaged table with the settings laid over it.

    Source: spec/settings.md section 3.
    """
    from turngraph.models.table import packaged_facts

    aliases = {entry.alias: key for key, entry in settings.model_choices.items() if entry.alias}
    provider, model_id = split_name(name, aliases)
    known = PROVIDERS.get(provider)
    facts = packaged_facts(provider, model_id) or ModelFacts(
        provider, model_id, known.api if known else None, DEFAULT_WINDOW_TOKENS
    )
    configured = settings.models.providers.get(provider)
    if configured is None:
        return facts
    entry = next((model for model in configured.models if model.id == model_id), None)
    return replace(
        facts,
        api=configured.api or facts.api,
        context_window=(entry and entry.context_window) or facts.context_window,
        max_output_tokens=(entry and entry.max_tokens) or facts.max_output_tokens,
        images="image" in entry.input if entry and entry.input else facts.images,
        reasoning=entry.reasoning if entry and entry.reasoning is not None else facts.reasoning,
    )


def make_model(name: str, settings: AgentSettings, env: Mapping[str, str] | None = None) -> Model:
    """Make the chat model of that name.

    Raises:
        ModelError: the provider is unknown, its package is not installed, or it has no key; kind "missing".
    """
    provider, _ = split_name(name)
    if provider == OFFLINE:
        from turngraph.models.offline import OfflineModel

        return OfflineModel()
    facts = model_facts(name, settings)
    how = PROVIDERS.get(facts.provider)
    if how is None:
        known = ", ".join((OFFLINE, *PROVIDERS))
        raise ModelError(f"no provider {facts.provider!r} for model {name!r}; known: {known}", kind="missing")
    try:
        chat_class: Callable[..., Any] = getattr(import_module(how.module), how.class_name)
    except ImportError as error:
        advice = f"pip install 'turngraph[{how.extra}]'"
        raise ModelError(f"model {name!r} needs a package that is not installed: {advice}", kind="missing") from error
    from turngraph.models.langchain_model import LangChainModel
    from turngraph.models.request_shape import shaper

    arguments = _arguments(facts, how, settings, os.environ if env is None else env)
    return LangChainModel(chat_class(**arguments), facts, shape=shaper(facts))


def _arguments(facts: ModelFacts, how: Provider, settings: AgentSettings, env: Mapping[str, str]) -> dict[str, Any]:
    configured = settings.models.providers.get(facts.provider)
    arguments: dict[str, Any] = {how.model_argument: facts.model_id}
    if how.module != "langchain_ollama":
        arguments["max_retries"] = 0  # the loop retries, with a Decision for each
    key = (configured and configured.api_key) or (env.get(how.key) if how.key else None)
    if how.key and not key:
        where = f"models.providers.{facts.provider}.apiKey or {how.key}"
        raise ModelError(f"no key for {facts.name}; set {where}", kind="auth")
    if key and how.key:
        arguments["api_key"] = key
    if configured and configured.base_url:
        arguments["base_url"] = configured.base_url
    if configured and configured.headers and how.extra in ("openai", "anthropic"):
        arguments["default_headers"] = dict(configured.headers)
    if how.class_name == "ChatOpenAI":
        arguments["stream_usage"] = True
    return arguments
