"""ask: put a question to the summariser, or to the next one when it fails (spec/compaction.md 3, known-faults 5.6)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodes.compaction.instructions import SYSTEM
from nodes.compaction.usage import add_usage
from turngraph.clock import Clock
from turngraph.errors import ModelError
from turngraph.messages import text_block, user_message
from turngraph.models.model import Finished, Model, ModelRequest
from turngraph.text import js_trim

ATTEMPTS = 3
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 5.0
_PLACEHOLDER = re.compile(r"\W*(?:the )?summary (?:is )?(?:currently )?(?:unavailable|not available)\b", re.IGNORECASE)


@dataclass(slots=True)
class Summariser:
    """Models that summarise, in the order in which they are tried.

    Attributes:
        models: at least one.
        answered_by: names of those that gave an answer, in order of their first one.
        failures: one line for each model that was given up.
        calls: requests made.
        usage: what the answers used, summed.
    """

    models: Sequence[Model]
    clock: Clock
    thinking: str = "low"
    answered_by: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    calls: int = 0
    usage: dict[str, float] = field(default_factory=dict)

    @property
    def window_tokens(self) -> int:
        """The smallest window among the models, so that a fallback can take what the first one was given."""
        return min(model.facts.context_window for model in self.models)

    async def ask(self, prompt: str, max_output_tokens: int) -> str:
        """Return the answer to ``prompt``.

        Raises:
            ModelError: every model failed; the error is that of the last one.
        """
        last: ModelError | None = None
        for model in self.models:
            try:
                text = await self._with_retries(model, prompt, max_output_tokens)
            except ModelError as error:
                self.failures.append(f"{model.facts.name}: {error.kind}")
                last = error
                continue
            if model.facts.name not in self.answered_by:
                self.answered_by.append(model.facts.name)
            return text
        assert last is not None
        raise last

    async def _with_retries(self, model: Model, prompt: str, max_output_tokens: int) -> str:
        delay_s = FIRST_DELAY_S
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._once(model, prompt, max_output_tokens)
            except ModelError as error:
                wait_s = delay_s if error.retry_after_s is None else error.retry_after_s
                if not error.retryable or attempt == ATTEMPTS or wait_s > LONGEST_DELAY_S:
                    raise
                await asyncio.sleep(wait_s)
                delay_s = min(delay_s * 2, LONGEST_DELAY_S)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, model: Model, prompt: str, max_output_tokens: int) -> str:
        facts = model.facts
        message = user_message([text_block(prompt)], self.clock.now())
        self.calls += 1
        request = ModelRequest(
            system=SYSTEM,
            messages=(message,),
            max_output_tokens=min(max_output_tokens, facts.max_output_tokens or max_output_tokens),
            thinking=self.thinking if facts.reasoning else "off",
            purpose="summary",
        )
        async for event in model.stream(request):
            if isinstance(event, Finished):
                add_usage(self.usage, event.message.usage)
                return _usable(event, facts.name)
        raise ModelError(f"{facts.name} gave no summary", kind="other")


def _usable(event: Finished, name: str) -> str:
    text = js_trim(event.message.text)
    if event.message.stop_reason in ("error", "aborted"):
        raise ModelError(f"Summarization failed: {name} reported an error", kind="other")
    if not text or _PLACEHOLDER.match(text):
        raise ModelError(f"Summarization failed: {name} gave no summary", kind="other")
    return text
