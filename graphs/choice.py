"""The choice at a conditional edge: what the node before it left in the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig


class Choice(Runnable[Mapping[str, Any], str]):
    """Reads the choice under one key of the state.

    A plain function in its place would run on a thread of its own with callbacks around it, which takes longer than
    most nodes.
    """

    def __init__(self, key: str) -> None:
        self.name = self._key = key

    def invoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **_: Any) -> str:
        choice: str = input[self._key]
        return choice

    async def ainvoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **_: Any) -> str:
        return self.invoke(input)
