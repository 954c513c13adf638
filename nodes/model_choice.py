"""model_choice: the model that a user names behind ``/new``, as in ``/new opus write a poem``. Pure.

Only models that the settings name can be chosen, so that an ordinary word is never taken for one.
Source: spec/sessions.md 2.1 (text after the trigger).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turngraph.config.fields import canonical_model, canonical_provider
from turngraph.text import JS_SPACE, js_trim

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

SHORTEST_GUESS_CHARS = 6  # a shorter word must be a provider to be matched loosely

_WORD = re.compile(f"[^{JS_SPACE}]+")
_PART = re.compile(r"[-./:_]+")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A chosen model (``provider:model``), and the text without the words that chose it."""

    model: str | None
    text: str


def choose_model(text: str, known: Collection[str], aliases: Mapping[str, str]) -> ModelChoice:
    """Read a model off the beginning of ``text``.

    In this order: a provider and a model as two words, ``provider/model`` or an alias as one, and a part of the name
    of exactly one known model.

    Args:
        text: what stands behind the command.
        known: models that may be chosen, as ``provider:model``.
        aliases: lower-case alias to model.

    >>> choose_model("sonnet tell me", ["anthropic:claude-sonnet-4-5", "openai:gpt-5"], {})
    ModelChoice(model='anthropic:claude-sonnet-4-5', text='tell me')
    """
    words = [match for match, _ in zip(_WORD.finditer(text), range(2), strict=False)]
    if not words:
        return ModelChoice(None, text)
    first = words[0][0]
    provider = canonical_provider(first)
    if len(words) == 2 and (pair := f"{provider}:{words[1][0]}") in known:
        return ModelChoice(pair, js_trim(text[words[1].end() :]))
    found = _named(first, known, aliases) or _guessed(first, known)
    return ModelChoice(found, js_trim(text[words[0].end() :]) if found else text)


def _named(word: str, known: Collection[str], aliases: Mapping[str, str]) -> str | None:
    if alias := aliases.get(word.casefold()):
        return alias
    name = canonical_model(word) if re.fullmatch(r"[^:/]+[:/].+", word) else word
    return name if name in known else None


def _guessed(word: str, known: Collection[str]) -> str | None:
    provider = canonical_provider(word)
    if not any(name.startswith(f"{provider}:") for name in known) and len(word) < SHORTEST_GUESS_CHARS:
        return None
    matching = [name for name in known if any(part.startswith(word.casefold()) for part in _parts(name))]
    return matching[0] if len(matching) == 1 else None


def _parts(name: str) -> Iterator[str]:
    """Return the name and its ends that begin at a part: ``sonnet-4`` is found in ``claude-sonnet-4-5``."""
    folded = name.casefold()
    yield folded
    for match in _PART.finditer(folded):
        yield folded[match.end() :]


def known_models(settings: AgentSettings) -> tuple[frozenset[str], dict[str, str]]:
    """Return the models that the settings name, and their aliases in lower case."""
    listed = {f"{name}:{entry.id}" for name, provider in settings.models.providers.items() for entry in provider.models}
    chain = (settings.model.primary, *settings.model.fallbacks)
    known = frozenset({*listed, *settings.model_choices, *(name for name in chain if ":" in name)})
    aliases = {choice.alias.casefold(): name for name, choice in settings.model_choices.items() if choice.alias}
    return known, aliases
