"""The seam to a chat model: a request in, a stream of deltas and one finished assistant message out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from turngraph.messages import Message


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told about a tool; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call.

    Attributes:
        system: the system prompt; its first ``stable_system_chars`` characters do not change from turn to turn.
        messages: the working set, oldest first, acceptable to the provider.
        tools: offered tools, in a fixed order.
        max_output_tokens: longest answer, ``None`` for the model's own limit.
        thinking: thinking level.
        purpose: what the call is for; decides how the offline model answers.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    stable_system_chars: int = 0
    max_output_tokens: int | None = None
    thinking: str = "off"
    purpose: Literal["turn", "flush", "summary", "slug", "heartbeat", "cron", "greeting"] = "turn"


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer while it streams."""

    text: str = ""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer: the assistant message as the transcript will hold it (with usage and stop reason)."""

    message: Message


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A recorded or scripted model has nothing more to say: the turn ends without a further message."""

    why: str


ModelEvent = Delta | Finished | Exhausted


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the pipeline must know of a model.

    Attributes:
        provider, model_id: as in ``provider:model``.
        api: message protocol (``anthropic-messages``, ``openai-completions`` ...), decides the provider policy.
        context_window: tokens.
        max_output_tokens: longest answer, if known.
        images: whether it takes image blocks.
        reasoning: whether it thinks.
    """

    provider: str
    model_id: str
    api: str | None = None
    context_window: int = 200_000
    max_output_tokens: int | None = None
    images: bool = True
    reasoning: bool = False
    cost: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model_id}"


class Model(Protocol):
    """A chat model as the turn graph sees it."""

    @property
    def facts(self) -> ModelFacts: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer ``request``: deltas, then exactly one :class:`Finished` (or :class:`Exhausted`).

        Raises:
            ModelError: the provider refused or could not be reached.
        """
        ...
