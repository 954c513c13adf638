"""The packaged table of context windows and prices, with the dates of both (``turngraph/data/models.json``).

A row without ``cost`` has no known price. The row of ollama is the window that we ask the server for.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from turngraph.models.model import ModelFacts

_APIS = {
    "anthropic": "anthropic-messages",
    "openai": "openai-completions",
    "google_genai": "google-generative-ai",
    "ollama": "ollama",
}


@cache
def packaged_table() -> dict[str, Any]:
    """Return the table as it stands in the package."""
    table: dict[str, Any] = orjson.loads(files("turngraph").joinpath("data/models.json").read_bytes())
    return table


def packaged_facts(provider: str, model_id: str) -> ModelFacts | None:
    """Return the facts of a model that the table knows by the beginning of its id, longest match first."""
    rows = [
        row for row in packaged_table()["models"] if row["provider"] == provider and model_id.startswith(row["prefix"])
    ]
    if not rows:
        return None
    row = max(rows, key=lambda candidate: len(candidate["prefix"]))
    return ModelFacts(
        provider=provider,
        model_id=model_id,
        api=_APIS.get(provider),
        context_window=row["window"],
        max_output_tokens=row["output"],
        images=row["images"],
        reasoning=row["reasoning"],
        cost=row.get("cost", {}),
    )
