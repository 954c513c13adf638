"""Embedders of providers by name: which langchain class, and what it is told of the settings.

Source: spec/memory.md 3.2 and 3.9; spec/settings.md sections 3 and 11.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any

from turngraph.errors import ModelError
from turngraph.models.embedder_remote import BATCH_LIMIT_S, LangChainEmbeddings, RemoteEmbedder

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

Options = Callable[[Any], dict[str, Any]]


def _default_headers(headers: Mapping[str, str]) -> dict[str, Any]:
    return {"default_headers": headers}


def _in_body(kind: str) -> dict[str, Any]:
    return {"extra_body": {"input_type": kind}}


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """How to make the embedder of a provider: its langchain class, our extra, key, default model, argument names.

    Attributes:
        headers: arguments of the class for request headers. input_type: options of a call for the kind of text, such
            as ``query``. ``None`` where the package has no way to say it.
        batch_limit_s: how long a call may take; a local server may have to load its model.
    """

    module: str
    class_name: str
    extra: str
    key: str | None
    default_model: str
    key_argument: str = "api_key"
    address_argument: str = "base_url"
    dimensions_argument: str | None = None
    headers: Options | None = None
    input_type: Options | None = None
    batch_limit_s: float = BATCH_LIMIT_S


PROVIDERS: Mapping[str, EmbeddingProvider] = {
    "openai": EmbeddingProvider(
        "langchain_openai",
        "OpenAIEmbeddings",
        "openai",
        "OPENAI_API_KEY",
        "text-embedding-3-small",
        dimensions_argument="dimensions",
        headers=_default_headers,
        input_type=_in_body,
    ),
    "google_genai": EmbeddingProvider(
        "langchain_google_genai",
        "GoogleGenerativeAIEmbeddings",
        "google",
        "GOOGLE_API_KEY",
        "gemini-embedding-001",
        key_argument="google_api_key",
        dimensions_argument="output_dimensionality",
        headers=lambda headers: {"additional_headers": headers},
        input_type=lambda kind: {"task_type": kind},
    ),
    "voyageai": EmbeddingProvider(
        "langchain_voyageai",
        "VoyageAIEmbeddings",
        "voyage",
        "VOYAGE_API_KEY",
        "voyage-4-large",
        dimensions_argument="output_dimension",
    ),
    "mistralai": EmbeddingProvider(
        "langchain_mistralai",
        "MistralAIEmbeddings",
        "mistral",
        "MISTRAL_API_KEY",
        "mistral-embed",
        address_argument="endpoint",
    ),
    "ollama": EmbeddingProvider(
        "langchain_ollama",
        "OllamaEmbeddings",
        "ollama",
        None,
        "nomic-embed-text",
        dimensions_argument="dimensions",
        headers=lambda headers: {"client_kwargs": {"headers": headers}},
        batch_limit_s=600.0,
    ),
    "openai-compatible": EmbeddingProvider(
        "langchain_openai",
        "OpenAIEmbeddings",
        "openai",
        None,
        "text-embedding-3-small",
        dimensions_argument="dimensions",
        headers=_default_headers,
        input_type=_in_body,
    ),
}


def make_remote(name: str, settings: AgentSettings, env: Mapping[str, str]) -> RemoteEmbedder:
    """Make the embedder of a provider as the settings describe it.

    Raises:
        ModelError: unknown provider or missing package (kind "missing"), missing key (kind "auth"), or a setting that
            the package does not take (kind "bad_request").
    """
    how = PROVIDERS.get(name)
    if how is None:
        raise ModelError(
            f"no embedding provider {name!r}; known: auto, none, hash, {', '.join(PROVIDERS)}", kind="missing"
        )
    try:
        made: Callable[..., LangChainEmbeddings] = getattr(import_module(how.module), how.class_name)
    except ImportError as error:
        advice = f"pip install 'turngraph[{how.extra}]'"
        raise ModelError(f"embedding provider {name!r} needs a package: {advice}", kind="missing") from error
    search = settings.memory_search
    model = search.model or how.default_model
    arguments = _arguments(name, how, model, settings, env)
    document_type = search.document_input_type or search.input_type
    query_type = search.query_input_type or search.input_type
    variant = (search.output_dimensionality, document_type, _place(name, settings))
    document_options, query_options = _typed(name, how, document_type), _typed(name, how, query_type)
    try:
        inner = made(**arguments)
    except ValueError as error:
        reason = str(error).split("\n", 1)[0]
        raise ModelError(f"embeddings of {name} cannot be set up like this: {reason}", kind="bad_request") from error
    return RemoteEmbedder(
        inner,
        name,
        model,
        variant=",".join(str(part) for part in variant if part),
        document_options=document_options,
        query_options=query_options,
        batch_limit_s=how.batch_limit_s,
    )


def _typed(name: str, how: EmbeddingProvider, kind: str | None) -> Mapping[str, Any]:
    if kind is None:
        return {}
    if how.input_type is None:
        raise _not_taken(name, "input type", "inputType, documentInputType and queryInputType")
    return how.input_type(kind)


def _not_taken(name: str, what: str, keys: str) -> ModelError:
    return ModelError(f"embeddings of {name} take no {what}; remove memorySearch.{keys}", kind="bad_request")


def _place(name: str, settings: AgentSettings) -> str | None:
    """Name where a model of this name is asked: at another address, or under other headers, it may be another one."""
    address, headers = _address(name, settings), _headers(name, settings)
    headers = {key: value for key, value in sorted(headers.items()) if key.lower() != "authorization"}
    if address is None and not headers:
        return None
    return sha256(json.dumps([address, headers]).encode()).hexdigest()[:8]


def _address(name: str, settings: AgentSettings) -> str | None:
    configured = settings.models.providers.get(name)
    return settings.memory_search.remote.base_url or (configured.base_url if configured else None)


def _headers(name: str, settings: AgentSettings) -> dict[str, str]:
    configured = settings.models.providers.get(name)
    secret = settings.memory_search.remote.headers or (configured.headers if configured else {})
    return {key: value.get_secret_value() for key, value in secret.items()}


def _arguments(
    name: str, how: EmbeddingProvider, model: str, settings: AgentSettings, env: Mapping[str, str]
) -> dict[str, Any]:
    search = settings.memory_search
    configured = settings.models.providers.get(name)
    arguments: dict[str, Any] = {"model": model}
    key = search.remote.api_key or (configured and configured.api_key) or (env.get(how.key) if how.key else None)
    if how.key and not key:
        where = f"memorySearch.remote.apiKey, models.providers.{name}.apiKey or {how.key}"
        raise ModelError(f"no key for embeddings of {name}; set {where}", kind="auth")
    if how.module != "langchain_ollama":
        arguments[how.key_argument] = key or "none"
    address = _address(name, settings)
    if name == "openai-compatible" and not address:
        raise ModelError("openai-compatible needs an address; set memorySearch.remote.baseUrl", kind="missing")
    if address:
        arguments[how.address_argument] = address
    if how.module == "langchain_openai":
        arguments["max_retries"] = 0
        arguments["check_embedding_ctx_length"] = name == "openai"
    if headers := _headers(name, settings):
        if how.headers is None:
            raise _not_taken(name, "headers", "remote.headers")
        arguments |= how.headers(headers)
    if search.output_dimensionality:
        if how.dimensions_argument is None:
            raise _not_taken(name, "dimensions", "outputDimensionality")
        arguments[how.dimensions_argument] = search.output_dimensionality
    return arguments
