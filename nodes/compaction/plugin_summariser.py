"""plugin_summariser: a plugin that writes summaries, in the place of a model (``compaction.provider``).

It is tried before the models, so chunks, time limits, audit and caps are those of every summary, and a plugin that
fails is replaced like a model that is out of quota. Source: spec/compaction.md section 0.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from turngraph.clock import Clock, to_ms
from turngraph.hook_results import HookContext
from turngraph.hooks import Hooks
from turngraph.messages import Message, text_block
from turngraph.models.model import Finished, ModelEvent, ModelFacts, ModelRequest

PROVIDER = "plugin"


@dataclass(frozen=True, slots=True)
class PluginSummariser:
    """The plugin ``plugin`` as a :class:`turngraph.models.model.Model`; its window is taken to be the chat model's."""

    plugin: str
    hooks: Hooks
    context: HookContext
    clock: Clock
    window_tokens: int

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(PROVIDER, self.plugin, context_window=self.window_tokens, images=False)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask the plugin for the whole answer at once.

        Raises:
            ModelError: there is no such plugin, it failed, or it had nothing to say.
        """
        text = await self.hooks.write_summary(
            self.plugin,
            self.context,
            system=request.system,
            prompt=request.messages[-1].text,
            max_output_tokens=request.max_output_tokens,
        )
        yield Finished(
            Message(
                {
                    "role": "assistant",
                    "content": [text_block(text)],
                    "provider": PROVIDER,
                    "model": self.plugin,
                    "stopReason": "stop",
                    "timestamp": to_ms(self.clock.now()),
                }
            )
        )
