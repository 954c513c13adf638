"""Reads traces: open days, the merged data set and the output folder of a replay are one to the caller.

Reading never writes. Segments come with digest and size; :meth:`TraceReader.segment_text` finds the text.
Source: spec/seeing.md 1.2 and 1.6.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import date
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from stores.traces.blobs import Blobs
from stores.traces.merged import MergedDays
from stores.traces.open_days import OpenDays
from stores.traces.rows import Row, Wanted, from_row, text_digest
from stores.traces.run_folder import is_run_folder, run_rows, run_texts
from stores.traces.tables import DamagedTable
from turngraph.decisions import Segment, TurnTrace
from turngraph.errors import NotFound

_log = logging.getLogger(__name__)
TranscriptText = Callable[[str, int | None], str | None]


class TraceReader:
    """The traces below ``root``: ``<home>/traces``, or the trace folder of a replay."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open = OpenDays(root / "open")
        self._merged = MergedDays(root / "merged")
        self._blobs = Blobs(root / "blobs")

    def turns(
        self, session_key: str | None = None, agent: str | None = None, limit: int | None = None
    ) -> list[TurnTrace]:
        """Return traces, oldest first; with ``limit`` the newest ones. Reads days from the newest back.

        Raises:
            StoreError: for rows of a newer schema version. A damaged file is one warning, its traces are missing.
        """
        rows: list[Row] = []
        for day in self._newest_days(Wanted(session_key=session_key, newest=limit), agent):
            rows = day + rows
            if limit is not None and len(rows) >= limit:
                rows = rows[len(rows) - limit :]
                break
        return [from_row(row, str(self.root)) for row in rows]

    def trace(self, trace_id: str) -> TurnTrace:
        """Return one trace.

        Raises:
            NotFound: there is none with this id.
        """
        row = self._newest(Wanted(trace_id=trace_id))
        if row is None:
            raise NotFound(f"no trace {trace_id} in {self.root}")
        return from_row(row, str(self.root))

    def has(self, trace_id: str) -> bool:
        """Return whether a trace is kept."""
        return self._newest(Wanted(trace_id=trace_id)) is not None

    def trace_of_turn(self, session_key: str, turn: int) -> TurnTrace:
        """Return the newest trace of a turn of a session, counted from 1.

        Raises:
            NotFound: the turn left no trace.
        """
        row = self._newest(Wanted(session_key=session_key, turn=turn, newest=1))
        if row is not None:
            return from_row(row, str(self.root))
        raise NotFound(f"no trace of turn {turn} of session {session_key!r} in {self.root}")

    def segment_text(self, segment: Segment, transcript: TranscriptText | None = None) -> str | None:
        """Return the text of a segment as it was sent; ``None`` when it can no longer be found.

        Args:
            segment: of a trace that was read.
            transcript: gives the text of an entry's block, as prompt segments write it; asked for what no blob
                holds. What it gives is believed only when the digest agrees.
        """
        if segment.sha256 is None or segment.chars == 0:
            return segment.text
        text = self._run_texts.get(segment.sha256) if self._is_run else self._blobs.get(segment.sha256)
        if text is None and transcript is not None and segment.origin.entry_id is not None:
            text = transcript(segment.origin.entry_id, segment.block)
        if text is None or sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != text_digest(segment):
            return None
        return text

    @cached_property
    def _run_texts(self) -> dict[str, str]:
        return run_texts(self.root)

    @property
    def _is_run(self) -> bool:
        return is_run_folder(self.root)

    def _newest(self, wanted: Wanted) -> Row | None:
        return next((rows[-1] for rows in self._newest_days(wanted, None)), None)

    def _newest_days(self, wanted: Wanted, agent: str | None) -> Iterator[list[Row]]:
        """Yield the wanted rows of each day that has some, newest day first, each day oldest first."""
        if self._is_run:
            rows = wanted.select(row for row in run_rows(self.root) if agent in (None, row["agent_id"]))
            if rows:
                yield rows
            return
        agents = [agent] if agent else sorted({*self._open.agents(), *self._merged.agents()})
        days = {(day, name) for name in agents for day in (*self._open.days(name), *self._merged.days(name))}
        for day in sorted({day for day, _ in days}, reverse=True):
            found = [row for name in agents if (day, name) in days for row in self._day(name, day, wanted)]
            if found:
                yield wanted.select(found)

    def _day(self, agent: str, day: date, wanted: Wanted) -> list[Row]:
        # Open first: what a merge moves meanwhile is then found in the data set.
        rows = self._open.rows(agent, day, wanted)
        known = {row["trace_id"] for row in rows}
        return rows + [row for row in self._merged_day(agent, day, wanted) if row["trace_id"] not in known]

    def _merged_day(self, agent: str, day: date, wanted: Wanted) -> list[Row]:
        if not self._merged.path("turns", agent, day).exists():
            return []
        try:
            return self._merged.rows(agent, day, wanted)
        except DamagedTable as error:
            _log.warning("%s", error)
            return []
