"""Runs the shared vectors through adapters and holds the outcome against the list of deviations.

An adapter module under ``tests/vectors/adapters`` names its ``TOPIC`` (stem of the vector file) and maps each
``function`` of a case to a callable in ``ADAPTERS``; ``COMPARE`` may hold another comparison for a function.
Source: design.md "What binds, and how".
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REASONS = (
    "other release",
    "defect of the original",
    "UTF-16 only",
    "another issue",
    "outside",
    "replaced by ours",
)
FLOAT_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a vector file, decoded; ``raw`` is the case as it stands in the file."""

    topic: str
    function: str
    name: str
    version: str
    input: Any
    config: Any
    expected: Any
    raw: Mapping[str, Any]


Adapter = Callable[[Case], Any]
Comparison = Callable[[Case, Any, Any], bool]


@dataclass(frozen=True, slots=True)
class Deviation:
    """One entry of ``deviations.toml``: a single case by name, or a rule for all failing cases of a function."""

    topic: str
    function: str
    name: str | None
    version: str | None
    reason: str
    instead: str

    def covers(self, case: Case) -> bool:
        return (
            self.topic == case.topic
            and self.function == case.function
            and self.name in (None, case.name)
            and self.version in (None, case.version)
            and (self.reason != "UTF-16 only" or _has_astral(case.raw))
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What running one case gave; ``problem`` is ``None`` when it matched."""

    case: Case
    problem: str | None
    deviation: Deviation | None


def load_cases(path: Path) -> list[Case]:
    """Read a vector file and decode its encodings."""
    data = json.loads(path.read_text(encoding="utf-8"))
    cases = []
    for raw in data.get("cases", ()):
        if isinstance(raw.get("config"), dict) and raw["config"].get("documentationOnly"):
            continue
        cases.append(
            Case(
                topic=path.stem,
                function=raw["function"],
                name=raw["name"],
                version=_release(raw),
                input=decode(raw.get("input")),
                config=decode(raw.get("config", {})),
                expected=decode(raw["wanted"] if "wanted" in raw else raw["expected"]),
                raw=raw,
            )
        )
    return cases


def load_deviations(path: Path = HERE / "deviations.toml") -> list[Deviation]:
    """Read the list of deviations; a reason that is not one of :data:`REASONS` is an error."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("deviation", [])
    deviations = []
    for entry in entries:
        if entry["reason"] not in REASONS:
            raise ValueError(f"{path.name}: {entry['function']}: unknown reason {entry['reason']!r}")
        deviations.append(
            Deviation(
                topic=entry["topic"],
                function=entry["function"],
                name=entry.get("name"),
                version=entry.get("version"),
                reason=entry["reason"],
                instead=entry.get("instead", ""),
            )
        )
    return deviations


def load_adapters() -> tuple[dict[tuple[str, str], Adapter], dict[tuple[str, str], Comparison]]:
    """Import every adapter module and return its functions by topic and function name."""
    adapters: dict[tuple[str, str], Adapter] = {}
    comparisons: dict[tuple[str, str], Comparison] = {}
    for module_info in pkgutil.iter_modules([str(HERE / "adapters")]):
        module = importlib.import_module(f"tests.vectors.adapters.{module_info.name}")
        for function, adapter in module.ADAPTERS.items():
            key = (module.TOPIC, function)
            if key in adapters:
                raise ValueError(f"{module.__name__}: {key} has two adapters")
            adapters[key] = adapter
        for function, comparison in getattr(module, "COMPARE", {}).items():
            comparisons[(module.TOPIC, function)] = comparison
    return adapters, comparisons


def run_cases(cases: Sequence[Case], deviations: Sequence[Deviation]) -> Iterator[Outcome]:
    """Run ``cases`` and say for each whether it matched and which deviation covers it."""
    adapters, comparisons = load_adapters()
    for case in cases:
        key = (case.topic, case.function)
        problem = _problem(case, adapters.get(key), comparisons.get(key, _default_comparison))
        covering = [deviation for deviation in deviations if deviation.covers(case)]
        covering.sort(key=lambda deviation: deviation.name is None)
        yield Outcome(case, problem, covering[0] if covering else None)


def unused_deviations(outcomes: Sequence[Outcome], deviations: Sequence[Deviation]) -> list[Deviation]:
    """Return the entries that no failing case needs: a listed case that passes is a fault of the list."""
    topics = {outcome.case.topic for outcome in outcomes}
    needed = {id(outcome.deviation) for outcome in outcomes if outcome.problem is not None and outcome.deviation}
    return [entry for entry in deviations if entry.topic in topics and id(entry) not in needed]


def reason_counts(outcomes: Sequence[Outcome]) -> Counter[str]:
    """Count the failing cases that are listed, by reason."""
    return Counter(o.deviation.reason for o in outcomes if o.problem is not None and o.deviation is not None)


def _problem(case: Case, adapter: Adapter | None, compare: Comparison) -> str | None:
    if adapter is None:
        return "no adapter"
    wants_error = isinstance(case.expected, dict) and case.expected.get("error") is True
    try:
        got = adapter(case)
    except Exception as error:  # any error is a failed case, and says which
        return None if wants_error else f"raised {type(error).__name__}: {error}"
    if wants_error and not (isinstance(got, dict) and got.get("error")):
        return f"should have raised, gave {_short(got)}"
    return (
        None
        if wants_error or compare(case, got, case.expected)
        else f"wanted {_short(case.expected)}, got {_short(got)}"
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 600 else text[:600] + "…"


def _default_comparison(case: Case, got: Any, wanted: Any) -> bool:
    return same(got, wanted)


def same(got: Any, wanted: Any) -> bool:
    """Compare deeply: ``None`` equals an absent key, floats agree within 1e-9, long texts are held by digest."""
    if isinstance(wanted, dict) and set(wanted) == {"$digest"}:
        return isinstance(got, str) and sha256(got.encode()).hexdigest() == wanted["$digest"]["sha256"]
    if isinstance(got, Mapping) and isinstance(wanted, dict):
        keys = {k for k, v in got.items() if v is not None} | {k for k, v in wanted.items() if v is not None}
        return all(same(got.get(key), wanted.get(key)) for key in keys)
    if isinstance(got, (list, tuple)) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(same(a, b) for a, b in zip(got, wanted, strict=True))
    if isinstance(got, bool) or isinstance(wanted, bool):
        return got is wanted
    if isinstance(got, (int, float)) and isinstance(wanted, (int, float)):
        return math.isclose(got, wanted, rel_tol=0.0, abs_tol=FLOAT_TOLERANCE)
    return bool(got == wanted)


def decode(value: Any) -> Any:
    """Expand the encodings of the vector files: ``$text``, ``$splat``/``$rep``, ``repeat`` and ``contentRepeat``."""
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            if isinstance(item, dict) and set(item) == {"$splat"}:
                template, count = item["$splat"]["$rep"]
                items.extend(decode(_fill(template, index)) for index in range(count))
            else:
                items.append(decode(item))
        return items
    if not isinstance(value, dict):
        return value
    if set(value) == {"$text"}:
        return "".join(text * count for text, count in value["$text"])
    if "repeat" in value and set(value) <= {"repeat", "prefix"}:
        text, count = value["repeat"]
        return value.get("prefix", "") + text * count
    decoded = {key: decode(item) for key, item in value.items() if key != "contentRepeat"}
    if "contentRepeat" in value:
        text, count = value["contentRepeat"]
        decoded["content"] = text * count
    return decoded


def _fill(template: Any, index: int) -> Any:
    if isinstance(template, str):
        return template.replace("{{i}}", str(index))
    if isinstance(template, list):
        return [_fill(item, index) for item in template]
    if isinstance(template, dict):
        return {_fill(key, index): _fill(item, index) for key, item in template.items()}
    return template


def _release(raw: Mapping[str, Any]) -> str:
    label = str(raw.get("version") or raw.get("variant") or raw.get("peer") or "")
    if label.startswith("pi-") or ("2026.3" in label and "2026.9" not in label):
        return "2026.3"
    if "2026.9" in label and "2026.3" not in label:
        return "2026.9"
    if label:
        return label
    return "2026.9" if str(raw["function"]).endswith("@2026.9") else "2026.3"


def _has_astral(value: Any) -> bool:
    if isinstance(value, str):
        return any(ord(char) > 0xFFFF for char in value)
    if isinstance(value, list):
        return any(_has_astral(item) for item in value)
    if isinstance(value, dict):
        return any(_has_astral(item) for pair in value.items() for item in pair)
    return False
