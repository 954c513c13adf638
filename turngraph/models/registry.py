"""Chat models by name: ``offline``, a player of a file, or ``provider:model`` through the provider's own package."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from turngraph.config.fields import canonical_provider
from turngraph.errors import ModelError
from turngraph.models.model import Model, ModelFacts
from turngraph.models.played import PLAYERS, played_model

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

OFFLINE = "offline"
OWN_SERVER = "openai-compatible"
NO_KEY = "none"  # what a server that wants no key is sent
# The packages keep connections for later, also beyond the event loop that made them: turns from plain code have a loop
# each, and every second one would fail.
ONE_CONNECTION_A_CALL = {"Connection": "close"}
SHORTEST_SECRET_CHARS = 8  # a shorter header value is a word that errors may hold
DEFAULT_WINDOW_TOKENS = 200_000


@dataclass(frozen=True, slots=True)
class Provider:
    """How to make a chat model of one provider.

    Attributes:
        module, class_name: of the langchain package; extra: our extra that installs it.
        api: message protocol; key: usual environment variable of its key, ``None`` where none is needed.
        address_argument, headers_argument: names of the constructor's arguments.
    """

    module: str
    class_name: str
    extra: str
    api: str
    key: str | None
    address_argument: str = "base_url"
    headers_argument: str | None = "default_headers"


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("langchain_openai", "ChatOpenAI", "openai", "openai-completions", "OPENAI_API_KEY"),
    OWN_SERVER: Provider("langchain_openai", "ChatOpenAI", "openai", "openai-completions", "OPENAI_API_KEY"),
    "anthropic": Provider(
        "langchain_anthropic", "ChatAnthropic", "anthropic", "anthropic-messages", "ANTHROPIC_API_KEY"
    ),
    "google_genai": Provider(
        "langchain_google_genai",
        "ChatGoogleGenerativeAI",
        "google",
        "google-generative-ai",
        "GOOGLE_API_KEY",
        headers_argument="additional_headers",
    ),
    "mistralai": Provider(
        "langchain_mistralai",
        "ChatMistralAI",
        "mistral",
        "openai-completions",
        "MISTRAL_API_KEY",
        address_argument="endpoint",
        headers_argument=None,
    ),
    "ollama": Provider("langchain_ollama", "ChatOllama", "ollama", "ollama", None, headers_argument="client_kwargs"),
}


def split_name(name: str) -> tuple[str, str]:
    """Split ``provider:model`` or ``provider/model`` at the first of the two signs.

    >>> split_name("google/gemini-3-pro")
    ('google_genai', 'gemini-3-pro')
    """
    cut = min((index for index in (name.find(":"), name.find("/")) if index > 0), default=-1)
    if cut < 0:
        return name, name
    return canonical_provider(name[:cut]), name[cut + 1 :]


def model_facts(name: str, settings: AgentSettings) -> ModelFacts:
    """Return what is known of a model, by name or alias: the packaged table with the settings laid over it.

    Source: spec/settings.md section 3.
    """
    from turngraph.models.table import packaged_facts

    provider, model_id = split_name(settings.unaliased(name))
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
    """Make the chat model of that name or alias.

    A provider that is not in the table is taken for a server of its own when the settings give its ``baseUrl``; it
    speaks the protocol of OpenAI's chat completions unless ``api`` says otherwise.

    Raises:
        ModelError: the provider is unknown, its package is not installed or a file cannot be played (kind "missing"),
            or it has no key (kind "auth").
    """
    provider, model_id = split_name(settings.unaliased(name))
    if provider == OFFLINE:
        from turngraph.models.offline import OfflineModel

        return OfflineModel()
    if provider in PLAYERS:
        return played_model(provider, model_id)
    facts = model_facts(name, settings)
    how = _provider(facts, settings)
    if how is None:
        known = ", ".join((OFFLINE, *sorted(PLAYERS), *PROVIDERS))
        advice = f"known: {known}; any other needs models.providers.{facts.provider}.baseUrl"
        raise ModelError(f"no provider {facts.provider!r} for model {name!r}; {advice}", kind="missing")
    try:
        chat_class: Callable[..., Any] = getattr(import_module(how.module), how.class_name)
    except ImportError as error:
        advice = f"pip install 'turngraph[{how.extra}]'"
        raise ModelError(f"model {name!r} needs a package that is not installed: {advice}", kind="missing") from error
    from turngraph.models.langchain_model import LangChainModel
    from turngraph.models.request_shape import shaper

    arguments = _arguments(facts, how, settings, os.environ if env is None else env)
    return LangChainModel(
        chat_class(**arguments), facts, shape=shaper(facts), secrets=_secrets(facts, arguments, settings)
    )


def _provider(facts: ModelFacts, settings: AgentSettings) -> Provider | None:
    known = PROVIDERS.get(facts.provider)
    if known is not None or facts.provider not in settings.models.providers:
        return known
    if not settings.models.providers[facts.provider].base_url:
        return None
    speaks = {"anthropic-messages": "anthropic", "google-generative-ai": "google_genai", "ollama": "ollama"}
    how = PROVIDERS[speaks.get(facts.api or "", OWN_SERVER)]
    return replace(how, key=None)


def _arguments(facts: ModelFacts, how: Provider, settings: AgentSettings, env: Mapping[str, str]) -> dict[str, Any]:
    configured = settings.models.providers.get(facts.provider)
    arguments: dict[str, Any] = {"model": facts.model_id}
    if how.module != "langchain_ollama":
        arguments["max_retries"] = 0  # the loop retries, with a Decision for each
        arguments["api_key"] = _key(facts, how, settings, env)
    if configured and configured.base_url:
        arguments[how.address_argument] = configured.base_url
    if how.headers_argument:
        headers = dict(ONE_CONNECTION_A_CALL)
        if configured:
            headers |= {name: value.get_secret_value() for name, value in configured.headers.items()}
        arguments[how.headers_argument] = {"headers": headers} if how.module == "langchain_ollama" else headers
    if how.class_name == "ChatOpenAI":
        arguments["stream_usage"] = True
        arguments["use_responses_api"] = False  # spoken to as openai-completions, whatever the model's own choice
    return arguments


def _key(facts: ModelFacts, how: Provider, settings: AgentSettings, env: Mapping[str, str]) -> str:
    configured = settings.models.providers.get(facts.provider)
    if configured and configured.api_key:
        return configured.api_key.get_secret_value()
    if how.key and (key := env.get(how.key)):
        return key
    if how.key is None or (facts.provider == OWN_SERVER and configured and configured.base_url):
        return NO_KEY
    where = f"models.providers.{facts.provider}.apiKey or {how.key}"
    raise ModelError(f"no key for {facts.name}; set {where}", kind="auth")


def _secrets(facts: ModelFacts, arguments: Mapping[str, Any], settings: AgentSettings) -> tuple[str, ...]:
    configured = settings.models.providers.get(facts.provider)
    values = [arguments.get("api_key", "")]
    values += [value.get_secret_value() for value in configured.headers.values()] if configured else []
    return tuple(value for value in values if len(value) >= SHORTEST_SECRET_CHARS)
