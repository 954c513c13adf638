"""Turns against a provider on loopback, through the provider's own package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.gemini_generate import GeminiGenerate
from tests.providers.ollama_chat import OllamaChat
from tests.providers.openai_chat import OpenAIChat
from tests.providers.protocol_server import KEY, ProtocolServer, WireProtocol
from tests.turns import TurnBench
from turngraph.models.registry import make_model
from turngraph.tokens import Counter
from turngraph.tools.tool import Tool


@dataclass(frozen=True)
class Provider:
    """A provider under test: its package, its model, where its interface begins below the address."""

    name: str
    package: str
    model: str
    protocol: Callable[[], WireProtocol]
    below: str = ""

    @property
    def as_param(self) -> Any:
        missing = find_spec(self.package) is None
        return pytest.param(self, id=self.name, marks=pytest.mark.skipif(missing, reason=f"{self.package} is absent"))


OPENAI = Provider("openai", "langchain_openai", "gpt-4o", OpenAIChat, "/v1")
ANTHROPIC = Provider("anthropic", "langchain_anthropic", "claude-sonnet-5", AnthropicMessages)
GEMINI = Provider("google_genai", "langchain_google_genai", "gemini-2.5-flash", GeminiGenerate)
OLLAMA = Provider("ollama", "langchain_ollama", "llama3.2", OllamaChat)

every_provider = pytest.mark.parametrize("provider", [p.as_param for p in (OPENAI, ANTHROPIC, GEMINI)])


def settings_of(provider: Provider, server: ProtocolServer) -> list[str]:
    """Return the settings that lead the provider's package to the server."""
    below = f"models.providers.{provider.name}"
    address = f"{below}.baseUrl={server.url}{provider.below}"
    return [address] if provider is OLLAMA else [address, f"{below}.apiKey={KEY}"]


class ServedBench(TurnBench):
    """A home whose turns go over HTTP to ``server``."""

    def __init__(
        self,
        root: Path,
        provider: Provider,
        server: ProtocolServer,
        *,
        sets: Sequence[str] = (),
        window: int | None = None,
        streaming: bool = True,
        tools: Sequence[Tool] = (),
        counter: Counter | None = None,
    ) -> None:
        given = [*settings_of(provider, server), *sets]
        if window:
            given.append(
                f'models.providers.{provider.name}.models=[{{id: "{provider.model}", contextWindow: {window}}}]'
            )
        super().__init__(root, given, tools=tools, counter=counter)
        self.served = make_model(f"{provider.name}:{provider.model}", self.settings, env={})
        if not streaming:
            self.served._chat.disable_streaming = True  # type: ignore[attr-defined]
        self.server = server

    def context(self, model: Any = None, **changes: Any) -> Any:
        return super().context(model or self.served, **changes)
