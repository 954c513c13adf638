"""Traces of turns on disk: spools of running turns, open days, the merged data set, texts, and replay folders.

pyarrow is imported only where Parquet is read or written.
Source: spec/seeing.md section 1, design decision 13, spec/spike.md section 6.
"""

from stores.traces.reader import TraceReader
from stores.traces.run_folder import write_run
from stores.traces.spool import Spool, SpoolRows, read_spool, spools
from stores.traces.store import StoreText, Swept, TraceStore

__all__ = [
    "Spool",
    "SpoolRows",
    "StoreText",
    "Swept",
    "TraceReader",
    "TraceStore",
    "read_spool",
    "spools",
    "write_run",
]
