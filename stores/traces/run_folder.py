"""The traces of one replay: one Parquet file a table, and the texts of its prompts beside them.

Source: spec/seeing.md 1.2, design decision 13.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from stores.traces.blobs import transcript_holds
from stores.traces.rows import Row, text_digest, to_rows
from stores.traces.tables import TABLES, TEXTS, from_tables, read_table, to_table, to_tables, write_table
from turngraph.decisions import TurnTrace


def write_run(
    traces: Iterable[TurnTrace], folder: Path, *, store_text: Literal["segments", "all", "none"] = "all"
) -> None:
    """Write the traces of a run to ``folder``; the turns come last and make the rest visible.

    Each text stands once in ``texts.parquet``. Equal traces give equal files, but for the column ``duration_ms``.

    Raises:
        OSError: when a file cannot be written.
    """
    kept = list(traces)
    shown = {id(segment): segment for trace in kept for segment in trace.segments}.values()
    texts = {
        text_digest(segment): segment.text
        for segment in shown
        if segment.text and (store_text == "all" or (store_text == "segments" and not transcript_holds(segment)))
    }
    records = [{"sha256": digest, "text": texts[digest]} for digest in sorted(texts)]
    write_table(to_table(TEXTS, records), folder / f"{TEXTS}.parquet")
    for name, table in to_tables(to_rows(kept)).items():
        write_table(table, folder / f"{name}.parquet")


def is_run_folder(folder: Path) -> bool:
    """Return whether a folder holds the traces of one replay."""
    return (folder / "turns.parquet").is_file()


def run_rows(folder: Path) -> list[Row]:
    """Return the rows of a run, in the order in which they were written.

    Raises:
        StoreError: for a damaged file, or one of a newer schema version.
    """
    return from_tables({name: read_table(folder / f"{name}.parquet") for name in TABLES})


def run_texts(folder: Path) -> dict[str, str]:
    """Return the texts of a run by their digests; none where the folder is not that of a run."""
    return {record["sha256"]: record["text"] for record in read_table(folder / f"{TEXTS}.parquet")}
