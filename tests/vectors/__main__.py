"""``python -m tests.vectors FILE...``: run vector files and print what differs."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.vectors.runner import load_cases, load_deviations, reason_counts, run_cases, unused_deviations


def main(arguments: list[str]) -> int:
    """Run the files; exit 1 when a failing case is not listed or a listed case passes."""
    if not arguments:
        print("usage: python -m tests.vectors FILE...", file=sys.stderr)
        return 2
    missing = [name for name in arguments if not Path(name).is_file()]
    if missing:
        print(f"no such vector file: {', '.join(missing)}", file=sys.stderr)
        return 2
    deviations = load_deviations()
    outcomes = list(run_cases([case for name in arguments for case in load_cases(Path(name))], deviations))
    failed = [outcome for outcome in outcomes if outcome.problem is not None]
    unlisted = [outcome for outcome in failed if outcome.deviation is None]
    for outcome in unlisted:
        case = outcome.case
        print(f"FAIL {case.topic} {case.function} [{case.version}] {case.name}\n     {outcome.problem}")
    unused = unused_deviations(outcomes, deviations)
    for entry in unused:
        print(f"LISTED BUT PASSING {entry.topic} {entry.function} {entry.name or '(whole function)'}")
    for reason, count in sorted(reason_counts(outcomes).items()):
        print(f"{count:5d} {reason}")
    print(f"{len(outcomes) - len(failed)} passed, {len(unlisted)} failed")
    return 1 if unlisted or unused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
