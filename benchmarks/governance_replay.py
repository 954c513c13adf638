"""What each node leaves of a history, and whether every provider would take the requests: replays at four windows.

Run: ``python -m benchmarks.governance_replay [FILE ...]`` (without files: the recorded sessions of the sample home).
Each file is replayed through the real turn graph at 16k, 32k, 64k and 200k tokens. The first table adds up the tokens
of the working set behind each node over all turns, with what was sent by the last call of each turn, and the share of
each request that the one before it had begun with already; the second counts the requests that each provider's
validator refuses, with the graph set to that provider.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from nodes.history.validators import PROVIDERS, Provider, problems
from turngraph.clock import SystemClock
from turngraph.config import AgentSettings, load_settings
from turngraph.models.model import ModelFacts
from turngraph.replay.cache_prefix import common_prefixes, stability
from turngraph.replay.driver import ReplayedTurn, replay_session
from turngraph.replay.samples import sample_sessions, write_sample_home
from turngraph.replay.source import read_session
from turngraph.tokens import default_counter

WINDOWS = (16_000, 32_000, 64_000, 200_000)
NODES = ("load_history", "sanitize", "limit_history", "guard_tools", "prune")
MODELS: dict[Provider, ModelFacts] = {
    "anthropic": ModelFacts("anthropic", "claude-sonnet-4-5", "anthropic-messages"),
    "openai-chat": ModelFacts("openai", "gpt-4.1", "openai-completions"),
    "openai-responses": ModelFacts("openai", "gpt-5", "openai-responses"),
    "gemini": ModelFacts("google", "gemini-2.5-pro", "google-generative-ai"),
    "mistral": ModelFacts("mistral", "mistral-large", "openai-completions"),
}


def replayed(
    path: Path, settings: AgentSettings, window_tokens: int, *, session_key: str, as_model: ModelFacts | None = None
) -> list[ReplayedTurn]:
    """Replay a transcript in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as work:
        return replay_session(
            read_session(path, SystemClock()),
            Path(work),
            settings,
            session_key=session_key,
            window_tokens=window_tokens,
            as_model=as_model,
        )


def tokens_by_node(turns: Sequence[ReplayedTurn]) -> Counter[str]:
    """Add up the tokens of the working set behind each node, and of the last request of each turn."""
    tokens: Counter[str] = Counter()
    for turn in turns:
        last = {run.node: run.tokens_out for run in turn.trace.nodes}  # of a node that ran again after a compaction
        tokens.update({node: last.get(node) or 0 for node in NODES})
        tokens["sent"] += int(turn.trace.facts.get("prompt_tokens") or 0)
    return tokens


def refused(turns: Sequence[ReplayedTurn], provider: Provider) -> tuple[int, int]:
    """Return how many requests were made, and how many of them ``provider`` would refuse.

    A record may hold two final answers in a row, where a queued message was written down earlier than it was sent;
    the request that the replay makes for the second one ends with the first, and that is not held against it.
    """
    made = bad = 0
    for turn in turns:
        after_final_answer = False
        for call in turn.calls:
            made += 1
            bad += bool(problems(call.request.messages, provider, complete=not after_final_answer))
            after_final_answer = not call.answer.tool_calls
    return made, bad


def _sessions(files: Sequence[Path], home: Path) -> Iterator[tuple[Path, str]]:
    if files:
        yield from ((path, "agent:main:main") for path in files)
        return
    write_sample_home(home)
    for sample in sample_sessions(home):
        yield home / "agents/main/sessions" / sample.file, sample.session_key


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--tokens-only", action="store_true", help="leave the providers out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sessions = list(_sessions(arguments.files, Path(folder)))
        settings = load_settings(Path(folder), env={}).agent("main")
        print(f"| window | {' | '.join(NODES)} | sent | shared prefix | breaks | unexplained |")
        print("|---:|" + "---:|" * (len(NODES) + 4))
        for window in WINDOWS:
            tokens: Counter[str] = Counter()
            shared: Counter[str] = Counter()
            for path, key in sessions:
                turns = replayed(path, settings, window, session_key=key)
                tokens += tokens_by_node(turns)
                calls = [call for turn in turns for call in turn.calls]
                prefixes = common_prefixes(calls, [turn.trace for turn in turns], default_counter())
                figures = stability(prefixes)
                shared.update({name: figures[name] for name in ("sharedTokens", "breaks", "unexplained")})
                shared["before"] += sum(prefix.before_tokens for prefix in prefixes)
            cells = [f"{tokens[name]:,}" for name in (*NODES, "sent")]
            share = shared["sharedTokens"] / max(1, shared["before"])
            print(f"| {window:,} | {' | '.join(cells)} | {share:.1%} | {shared['breaks']} | {shared['unexplained']} |")
        if arguments.tokens_only:
            return
        print(f"\n| refused requests | {' | '.join(f'{window:,}' for window in WINDOWS)} |")
        print("|---|" + "---:|" * len(WINDOWS))
        for provider in PROVIDERS:
            row = []
            for window in WINDOWS:
                counts = [
                    refused(replayed(p, settings, window, session_key=k, as_model=MODELS[provider]), provider)
                    for p, k in sessions
                ]
                row.append(f"{sum(bad for _, bad in counts)} of {sum(made for made, _ in counts)}")
            print(f"| {provider} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
