"""Checks of ``turngraph doctor``: what in a home or a transcript will cause trouble, each with the way out.

Every check only reads. What a turn repairs by itself is a note, what costs the user something is a warning, what
keeps a turn from running is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nodes.bootstrap_budget import budget_files
from nodes.history.provider_policy import resolve_policy
from nodes.history.to_model import to_model
from nodes.history.validators import PROVIDERS, problems
from nodes.sanitize import prepare_request
from stores.sessions import SessionStore
from stores.transcripts import Transcript
from stores.workspace import load_bootstrap_files
from stores.workspace_setup import read_state
from turngraph.bootstrap_files import SEED_FILES
from turngraph.clock import RandomIds, SystemClock, to_ms
from turngraph.errors import ModelError, StoreError, TurngraphError
from turngraph.hooks import Hooks
from turngraph.memory_paths import LEGACY_ROOT_MEMORY, MEMORY_FOLDER, ROOT_MEMORY
from turngraph.truncation import live_limits, result_chars

if TYPE_CHECKING:
    from nodes.history.validators import Provider
    from stores.home import Home
    from turngraph.config import AgentSettings
    from turngraph.messages import Message

Severity = Literal["error", "warning", "note"]

# provider rules -> (provider, api, model id) that decide the repairs
_POLICIES: Mapping[Provider, tuple[str, str, str]] = {
    "anthropic": ("anthropic", "anthropic-messages", "claude-sonnet-4-5"),
    "openai-chat": ("vllm", "openai-completions", "some-model"),
    "openai-responses": ("openai", "openai-responses", "gpt-5"),
    "gemini": ("google", "google-generative-ai", "gemini-2.5-pro"),
    "mistral": ("mistral", "openai-completions", "mistral-large-latest"),
}
_POSITION = re.compile(r"^message \d+: ")
DEFAULT_WINDOW_TOKENS = 200_000
SMALL_WINDOW_TOKENS, SMALLEST_WINDOW_TOKENS = 16_000, 8_000  # design decision 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that will cause trouble.

    Attributes:
        severity: how bad it is.
        where: file, session key or settings key.
        what: what was found, with numbers.
        way_out: what to do, or that nothing needs to be done.
    """

    severity: Severity
    where: str
    what: str
    way_out: str


def check_agent(home: Home, settings: AgentSettings) -> Iterator[Finding]:
    """Check everything of one agent: workspace, plugins, index, sessions and their transcripts."""
    yield from check_workspace(home.workspace(settings.agent_id, settings), settings)
    yield from check_model(settings)
    yield from check_plugins(home, settings)
    yield from check_index(home, settings)
    yield from check_sessions(home, settings)


def check_workspace(workspace: Path, settings: AgentSettings) -> Iterator[Finding]:
    """Check the bootstrap files: unreadable, cut, about to be cut, or gone."""
    if not workspace.is_dir():
        yield Finding("note", str(workspace), "the workspace does not exist", "the first turn creates it")
        return
    files = load_bootstrap_files(workspace)
    state, _ = read_state(workspace)
    if "setupCompletedAt" in state and all(file.missing for file in files if file.name in SEED_FILES):
        yield Finding(
            "error",
            str(workspace),
            "the setup is complete and all seed files are gone",
            "mount the disk the workspace is on, or remove .openclaw/workspace-state.json to start again",
        )
    for file in files:
        if file.fault:
            way_out = "replace it by a plain file inside the workspace of at most 2 MiB"
            yield Finding("warning", str(workspace / file.path), f"not readable: {file.fault}", way_out)
    budgeted = budget_files(files, settings.bootstrap_max_chars, settings.bootstrap_total_max_chars)
    for injected in (*budgeted.files, *budgeted.left_out):
        place, raw, limit = str(workspace / injected.file.path), injected.raw_chars, injected.limit
        if injected.causes:
            way_out = "move parts of it to memory/*.md, or raise bootstrapMaxChars or bootstrapTotalMaxChars"
            what = f"cut in the prompt: {len(injected.text)} of {raw} characters"
            yield Finding("warning", place, what, way_out)
        elif injected.near_limit:
            what = f"{raw} of {limit} characters, soon to be cut"
            yield Finding("note", place, what, "shorten it before it grows further")
    names = {path.name for path in workspace.iterdir()}
    if {ROOT_MEMORY, LEGACY_ROOT_MEMORY} <= names:
        way_out = f"merge it into {ROOT_MEMORY} and remove it"
        yield Finding("warning", str(workspace / LEGACY_ROOT_MEMORY), f"not read beside {ROOT_MEMORY}", way_out)


def check_model(settings: AgentSettings) -> Iterator[Finding]:
    """Check that the agent's model can be made, and that its window is large enough."""
    from turngraph.models.registry import make_model

    name = settings.model_named(settings.model.primary)
    try:
        window = make_model(name, settings).facts.context_window
    except ModelError as error:
        yield Finding("error", "agents.defaults.model", str(error), "as it says, or choose the model `offline`")
        return
    window = min(window, settings.context_tokens or window)
    if window < SMALL_WINDOW_TOKENS:
        severity: Severity = "error" if window < SMALLEST_WINDOW_TOKENS else "warning"
        what = f"a context window of {window} tokens; {SMALLEST_WINDOW_TOKENS} are the least, {SMALL_WINDOW_TOKENS} few"
        yield Finding(severity, name, what, "choose a model with a larger window, or correct contextWindow")


def check_plugins(home: Home, settings: AgentSettings) -> Iterator[Finding]:
    """Load the plugins as a turn would."""
    try:
        Hooks.load(settings, home)
    except TurngraphError as error:
        yield Finding("error", "plugins", str(error), "as it says; no turn runs until then")


def check_index(home: Home, settings: AgentSettings) -> Iterator[Finding]:
    """Compare the times of the memory files with the time of the index; nothing is opened."""
    workspace = home.workspace(settings.agent_id, settings)
    notes = [workspace / ROOT_MEMORY, workspace / LEGACY_ROOT_MEMORY, *(workspace / MEMORY_FOLDER).rglob("*.md")]
    times = [path.stat().st_mtime_ns for path in notes if path.is_file()]
    index = home.root / settings.index_file
    if not times:
        return
    if not index.is_file():
        what = f"not built yet, {len(times)} memory files wait"
        yield Finding("note", str(index), what, "the first search builds it, or `turngraph memory index`")
        return
    stale = sum(time > index.stat().st_mtime_ns for time in times)
    if stale:
        what = f"{stale} of {len(times)} memory files are newer than the index"
        yield Finding("note", str(index), what, "the next search brings it up to date, or `turngraph memory index`")


def check_sessions(home: Home, settings: AgentSettings) -> Iterator[Finding]:
    """Check the table of sessions and each transcript it names."""
    store = SessionStore.of_agent(home, settings, SystemClock(), RandomIds())
    try:
        loaded = store.read()
    except StoreError as error:
        yield Finding("error", str(store.path), str(error), "as it says")
        return
    if loaded.problem:
        yield Finding("warning", str(store.path), loaded.problem, "nothing: the next turn writes it anew")
    window = settings.context_tokens or DEFAULT_WINDOW_TOKENS
    for key, entry in loaded.entries.items():
        try:
            path = store.transcript_of(entry)
        except StoreError as error:
            yield Finding("warning", key, str(error), "the next message starts a new session under this key")
            continue
        if path.is_file():
            yield from check_transcript(path, window, where=key)
        else:
            way_out = "`turngraph sessions cleanup` lists such entries; the next message starts a new transcript"
            yield Finding("warning", key, f"its transcript {path.name} is gone", way_out)


def check_transcript(path: Path, window_tokens: int = DEFAULT_WINDOW_TOKENS, where: str = "") -> Iterator[Finding]:
    """Check a transcript: broken lines, what providers would refuse, tool results larger than what is shown."""
    place = where or str(path)
    try:
        transcript = Transcript.open(
            path, session_id=path.stem, clock=SystemClock(), ids=RandomIds(), full=True, read_only=True
        )
    except TurngraphError as error:
        yield Finding("error", place, str(error), "restore the file from a backup")
        return
    report = transcript.report
    if report.broken_lines:
        lines = ", ".join(str(number) for number in report.broken_lines[:10])
        way_out = "they are left out; the first append sets the old file aside and writes a mended one"
        yield Finding("warning", place, f"{len(report.broken_lines)} broken lines ({lines})", way_out)
    for repair in report.repairs:
        yield Finding("note", place, repair, "nothing: it is done in memory, and on disk with the first append")
    messages = transcript.context().messages
    yield from _refusals(place, messages)
    yield from _large_results(place, messages, window_tokens)


def _refusals(place: str, messages: tuple[Message, ...]) -> Iterator[Finding]:
    """Say what providers would refuse of the history as it stands, and whether the repairs make it acceptable."""
    found: dict[str, dict[str, int]] = {}
    now_ms = to_ms(SystemClock().now())
    for provider in PROVIDERS:
        for problem, count in _counted(problems(to_model(messages), provider)).items():
            found.setdefault(problem, {})[provider] = count
        policy = resolve_policy(*_POLICIES[provider])
        for problem in problems(prepare_request(messages, policy, now_ms).messages, provider):
            way_out = "please report it with the transcript; `/new` starts a session without it"
            yield Finding("error", place, f"{provider} would still refuse after the repairs: {problem}", way_out)
    for problem, providers in found.items():
        whom = "every provider" if len(providers) == len(PROVIDERS) else ", ".join(providers)
        what = f"{max(providers.values())} x {problem} ({whom} would refuse)"
        yield Finding("note", place, what, "nothing: each turn repairs it in what is sent")


def _counted(found: tuple[str, ...]) -> Counter[str]:
    return Counter(_POSITION.sub("", problem) for problem in found)


def _large_results(place: str, messages: tuple[Message, ...], window_tokens: int) -> Iterator[Finding]:
    limits = live_limits(window_tokens)
    sizes = [result_chars(message) for message in messages if message.role == "toolResult"]
    large = [size for size in sizes if size > limits.per_result]
    if large:
        what = (
            f"{len(large)} tool results above the {limits.per_result} weighted characters that a window of "
            f"{window_tokens} tokens shows, the largest {max(large)}"
        )
        yield Finding("note", place, what, "they are shown cut; ask the tool for less, or set contextPruning.mode")
    if sum(sizes) > limits.aggregate:
        what = f"tool results of {sum(sizes)} weighted characters together, {limits.aggregate} are shown"
        yield Finding("warning", place, what, "`/compact` folds them, contextPruning.mode: cache-ttl clears old ones")


def as_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain values."""
    return {
        "severity": finding.severity,
        "where": finding.where,
        "what": finding.what,
        "wayOut": finding.way_out,
    }
