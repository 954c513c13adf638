"""Durations, sizes and the maintenance block of the settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.vectors.runner import Case
from turngraph.config import parse_byte_size, parse_duration_ms
from turngraph.config.checking import repaired
from turngraph.config.fields import ReadAs
from turngraph.config.schema_session import Maintenance

TOPIC = "sessions"


def _ms(span: timedelta | None) -> int | None:
    return None if span is None else span // timedelta(milliseconds=1)


def _maintenance(case: Case) -> dict[str, Any]:
    lenient = ReadAs(lenient=True)
    tree, _ = repaired(Maintenance, case.input["maintenance"] or {}, lenient)
    resolved = Maintenance.model_validate(tree, context=lenient)
    return {
        "mode": resolved.mode,
        "pruneAfterMs": _ms(resolved.prune_after),
        "maxEntries": resolved.max_entries,
        "rotateBytes": resolved.rotate_bytes,
        "resetArchiveRetentionMs": _ms(resolved.reset_archive_retention),
        "maxDiskBytes": resolved.max_disk_bytes,
        "highWaterBytes": resolved.high_water_bytes,
    }


ADAPTERS: dict[str, Callable[[Case], Any]] = {
    "parse_duration_ms": lambda case: parse_duration_ms(case.input["raw"], case.input["defaultUnit"]),
    "parse_byte_size": lambda case: parse_byte_size(case.input["raw"], case.input["defaultUnit"]),
    "resolve_maintenance_config": _maintenance,
}
