"""Compaction: estimates, cut points, preparation, file lists, serialising, staging (spec/compaction.md 2 and 3)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nodes.budget import compaction_is_due
from nodes.compaction.branch import prepare_branch
from nodes.compaction.cut_point import CutPoint, find_cut_point, find_turn_start, steps_of
from nodes.compaction.file_lists import (
    FileOperations,
    bounded_file_lists_text,
    collect_file_operations,
    file_lists_text,
)
from nodes.compaction.preparation import Preparation, prepare_compaction
from nodes.compaction.serialize import serialize_conversation
from nodes.compaction.settings import Limits
from nodes.compaction.staging import (
    BASE_CHUNK_RATIO,
    SummaryCall,
    chunk_by_tokens,
    chunk_ratio,
    is_oversized,
    needs_stages,
    prune_for_share,
    split_by_share,
    summarise_in_stages,
)
from nodes.compaction.usage import context_size, plausible_tokens_after, usage_context_tokens
from nodes.history.to_model import to_model
from stores.transcript_entries import Entry, entry_of
from tests.vectors.runner import Case
from turngraph.errors import ModelError
from turngraph.messages import Message
from turngraph.tokens import EstimateCounter, total

TOPIC = "compaction"

CHARS = EstimateCounter(weighted=False, image_tokens=1_200)
# An image counts 8,000 characters and the note that stands in its place in a summariser's input.
WEIGHTED = EstimateCounter(image_tokens=2_014)


def messages_of(raws: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(Message(_with_content(raw)) for raw in raws)


def _with_content(raw: Mapping[str, Any]) -> dict[str, Any]:
    if "contentRepeat" not in raw:
        return dict(raw)
    text, times = raw["contentRepeat"]
    return {key: value for key, value in raw.items() if key != "contentRepeat"} | {"content": text * times}


def _entries(case: Case) -> list[Entry]:
    return [entry_of(dict(raw)) for raw in case.input["entries"]]


def _cut(case: Case) -> dict[str, Any]:
    given = case.input
    cut: CutPoint = find_cut_point(
        steps_of(_entries(case)),
        given["keepRecentTokens"],
        CHARS,
        start=given["startIndex"],
        end=given["endIndex"],
    )
    split = cut.turn_start is not None
    return {
        "firstKeptEntryIndex": cut.first_kept,
        "turnStartIndex": cut.turn_start if split else -1,
        "isSplitTurn": split,
    }


def _turn_start(case: Case) -> int:
    start = find_turn_start(steps_of(_entries(case)), case.input["entryIndex"], case.input["startIndex"])
    return -1 if start is None else start


def _prepare(case: Case) -> dict[str, Any] | None:
    limits = Limits(10**6, 0, case.config["keepRecentTokens"], 0, 0, 16_000, 10**6)
    plan = prepare_compaction(_entries(case), limits, CHARS)
    if not isinstance(plan, Preparation):
        return None
    return {
        "firstKeptEntryId": plan.first_kept_id,
        "isSplitTurn": bool(plan.prefix),
        "tokensBefore": plan.tokens_before,
        "previousSummary": plan.previous_summary,
        "messagesToSummarize": [message.role for message in plan.folded],
        "turnPrefixMessages": [message.role for message in plan.prefix],
        "fileOps": _files(plan.files),
    }


def _files(files: FileOperations) -> dict[str, list[str]]:
    return {"read": sorted(files.read), "written": sorted(files.written), "edited": sorted(files.edited)}


def _file_operations(case: Case) -> dict[str, Any]:
    files = collect_file_operations(messages_of(case.input["messages"]))
    return {
        "readFiles": files.read_files,
        "modifiedFiles": files.modified_files,
        "text": file_lists_text(files.read_files, files.modified_files),
    }


def _bounded_files(case: Case) -> str:
    return bounded_file_lists_text(case.input["readFiles"], case.input["modifiedFiles"])


def _branch(case: Case) -> dict[str, Any]:
    branch = prepare_branch(_entries(case), case.config["tokenBudget"], CHARS)
    return {"roles": [message.role for message in branch.messages], "totalTokens": branch.tokens} | _files(branch.files)


def _to_model(case: Case) -> list[dict[str, Any]]:
    projected = to_model(messages_of(case.input["messages"]))
    return [
        {
            "role": message.role,
            "contentIsBlocks": isinstance(message.content, list),
            "hasSummaryTags": "<summary>" in message.text,
            "endsWith": message.text[-len(wanted["endsWith"]) :],
        }
        for message, wanted in zip(projected, case.expected, strict=True)
    ]


def _context_size(case: Case) -> dict[str, Any]:
    size = context_size(messages_of(case.input["messages"]), CHARS)
    return {
        "tokens": size.tokens,
        "usageTokens": size.usage_tokens,
        "trailingTokens": size.trailing_tokens,
        "lastUsageIndex": size.usage_index,
    }


def _should_compact(case: Case) -> bool:
    return compaction_is_due(
        case.input["contextTokens"],
        case.input["contextWindow"],
        case.config["reserveTokens"],
        enabled=case.config["enabled"],
    )


def _prune_share(case: Case) -> dict[str, Any]:
    config = case.config
    pruned = prune_for_share(
        messages_of(case.input["messages"]),
        config["maxContextTokens"],
        config["maxHistoryShare"],
        CHARS,
        config["parts"],
    )
    return {
        "kept": [message.role for message in pruned.kept],
        "dropped": len(pruned.dropped),
        "droppedChunks": pruned.chunks,
        "droppedMessages": len(pruned.dropped),
        "droppedTokens": total(CHARS, pruned.dropped),
        "keptTokens": total(CHARS, pruned.kept),
        "budgetTokens": pruned.budget_tokens,
    }


def _stage_plan(case: Case) -> dict[str, Any]:
    messages, parts = messages_of(case.input["messages"]), case.input["parts"]
    if not needs_stages(messages, case.input["maxChunkTokens"], CHARS, parts):
        return {"mode": "single"}
    return {"mode": "split", "chunks": [len(chunk) for chunk in split_by_share(messages, parts, CHARS)]}


class FakeSummariser:
    """Answers S1, S2, ... or fails as the case says; a call is tried three times, as the summariser's caller does."""

    def __init__(self, behaviour: str | None) -> None:
        self._behaviour = behaviour or ""
        self._tries = 0
        self.calls: list[dict[str, Any]] = []

    async def __call__(self, call: SummaryCall) -> str:
        for _ in range(3):
            self._tries += 1
            if not self._fails(call):
                break
        else:
            raise ModelError("the fake summariser fails", kind="bad_request")
        self.calls.append(
            {
                "messages": len(call.messages),
                "roles": ",".join(message.role for message in call.messages),
                "previousSummary": call.previous_summary,
                "merge": call.merge,
            }
        )
        return f"OK{self._tries}" if self._behaviour else f"S{self._tries}"

    def _fails(self, call: SummaryCall) -> bool:
        if "always throws" in self._behaviour:
            return True
        return bool(self._behaviour) and any(len(message.text) > 20_000 for message in call.messages)


def _in_stages(case: Case) -> dict[str, Any]:
    fake = FakeSummariser(case.input.get("summariser"))
    result = asyncio.run(
        summarise_in_stages(
            messages_of(case.input["messages"]),
            fake,
            previous_summary=case.input["previousSummary"],
            window_tokens=case.config["contextWindow"],
            chunk_tokens=case.config["maxChunkTokens"],
            counter=CHARS,
            parts=case.config["parts"],
        )
    )
    return {"result": result} | ({"calls": fake.calls} if "calls" in case.expected else {})


def _tokens_after(case: Case) -> int | None:
    return plausible_tokens_after(
        total(CHARS, messages_of(case.input["messagesAfter"])),
        case.input["fullSessionTokensBefore"],
        case.input.get("observedTokenCount"),
    )


def _lengths(chunks: Sequence[Sequence[Message]]) -> list[int]:
    return [len(chunk) for chunk in chunks]


def _same_ratio(case: Case, got: Any, wanted: Any) -> bool:
    return math.isclose(got, wanted, abs_tol=1e-9) and got <= BASE_CHUNK_RATIO


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "estimate_tokens_v9": lambda case: WEIGHTED.message(Message(case.input["message"])),
    "calculate_context_tokens": lambda case: usage_context_tokens(case.input["usage"]),
    "estimate_context_tokens": _context_size,
    "should_compact": _should_compact,
    "find_cut_point": _cut,
    "find_cut_point_v9": _cut,
    "find_turn_start_index": _turn_start,
    "prepare_compaction": _prepare,
    "prepare_compaction_v9": _prepare,
    "file_operations": _file_operations,
    "format_file_operations_bounded": _bounded_files,
    "serialize_conversation": lambda case: serialize_conversation(
        messages_of(case.input["messages"]), case.config["toolResultMaxChars"]
    ),
    "convert_to_llm": _to_model,
    "prepare_branch_entries": _branch,
    "compute_adaptive_chunk_ratio": lambda case: chunk_ratio(
        messages_of(case.input["messages"]), case.input["contextWindow"], CHARS
    ),
    "is_oversized_for_summary": lambda case: is_oversized(
        messages_of([case.input["message"]])[0], case.input["contextWindow"], CHARS
    ),
    "split_messages_by_token_share": lambda case: _lengths(
        split_by_share(messages_of(case.input["messages"]), case.input["parts"], CHARS)
    ),
    "chunk_messages_by_max_tokens": lambda case: _lengths(
        chunk_by_tokens(messages_of(case.input["messages"]), case.input["maxTokens"], CHARS)
    ),
    "stage_split_plan_v9": _stage_plan,
    "prune_history_for_context_share": _prune_share,
    "summarize_in_stages": _in_stages,
    "estimate_tokens_after_compaction": _tokens_after,
}
COMPARE = {"compute_adaptive_chunk_ratio": _same_ratio}
