"""Memory: files, chunks, transcripts as text, ranking, reading."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stores.memory import chunking, dates, files, note_reading, ranking, snippets, vector
from stores.memory.disk import effective_sources
from stores.memory.searching import path_specificity
from stores.memory.session_text import session_text
from tests.vectors.runner import Case, same
from turngraph.config.fields import ReadAs
from turngraph.config.schema_memory import MemorySearch
from turngraph.credentials import mask_credentials
from turngraph.memory_paths import is_memory_path
from turngraph.models.embedders import max_input_tokens
from turngraph.session_keys import chat_type
from turngraph.text import head, weighted_chars
from turngraph.tools import memory_answers
from turngraph.tools.memory_get import note_answer

TOPIC = "memory"
_PROVIDERS = {"gemini": "google_genai", "voyage": "voyageai", "mistral": "mistralai"}


def _chunk(chunk: chunking.Chunk) -> dict[str, Any]:
    entry = chunk.entry_lines
    lines = {"entryStartLine": entry[0], "entryEndLine": entry[1]} if entry else {}
    return {"startLine": chunk.start_line, "endLine": chunk.end_line, "text": chunk.text, "hash": chunk.hash, **lines}


def _chunk_markdown(case: Case) -> Any:
    config = case.config
    per_entry = config.get("perEntry", False)
    chunks = chunking.chunk_markdown(case.input["content"], config["tokens"], config["overlap"], per_entry=per_entry)
    return [_chunk(chunk) for chunk in chunks]


def _split_curated(case: Case) -> Any:
    return [
        {
            "startLine": part.start_line,
            "endLine": part.end_line,
            "text": part.text,
            "kind": "entry" if part.is_entry else "section",
        }
        for part in chunking.split_curated(case.input["content"])
    ]


def _remap(case: Case) -> Any:
    chunks = [chunking.Chunk(chunk["startLine"], chunk["endLine"], "") for chunk in case.input["chunks"]]
    return [
        {"startLine": chunk.start_line, "endLine": chunk.end_line}
        for chunk in chunking.remap_lines(chunks, case.input["lineMap"])
    ]


def _enforce_limit(case: Case) -> Any:
    provider = case.input["provider"]
    own = max_input_tokens(_PROVIDERS.get(provider["id"], provider["id"]), provider["model"])
    limit = min(own, case.input.get("hardMaxInputTokens", own))
    out = []
    for chunk in case.input["chunks"]:
        parts = chunking.split_to_bytes(chunk["text"], limit)
        if len(parts) == 1:
            out.append(chunk)
        else:
            out += [{**chunk, "text": part, "hash": chunking.text_hash(part)} for part in parts]
    return out


def _max_input(case: Case) -> int:
    provider = case.input.get("id")
    return case.input.get("maxInputTokens") or max_input_tokens(
        _PROVIDERS.get(provider, provider), case.input.get("model") or ""
    )


def _mmr(case: Case) -> Any:
    items = case.input["items"]
    explained = ranking.Explanation(None, 0, 0, 0, None, 0, 0, 0, 0, None, 1, 0, 0)
    hits = [ranking.Ranked(item["id"], item["score"], explained) for item in items]
    if not case.config.get("enabled"):
        return [hit.key for hit in hits]
    contents = {item["id"]: item.get("content", item.get("snippet", "")) for item in items}
    return [hit.key for hit in ranking.diversify(hits, contents, case.config["lambda"])]


def _merge(case: Case) -> Any:
    config = case.config
    rows: dict[str, dict[str, Any]] = {}
    for hit in case.input["vector"]:
        rows[hit["id"]] = dict(hit)
    for hit in case.input["keyword"]:
        known = rows.setdefault(hit["id"], dict(hit))
        known["textScore"] = hit["textScore"]
        known["snippet"] = hit["snippet"] or known["snippet"]
    fading = config.get("temporalDecay") or {}
    rule = dates.Fading(fading.get("halfLifeDays", 30), 0.0) if fading.get("enabled") else None
    now = datetime.fromtimestamp(config["nowMs"] / 1000, UTC)
    candidates = [
        ranking.Candidate(
            key,
            row.get("textScore", 0.0),
            row.get("vectorScore", 0.0),
            content=row["snippet"],
            decay=dates.decay(dates.age_days(row["path"], None, now, UTC), rule) if rule else 1.0,
        )
        for key, row in rows.items()
    ]
    mmr = config.get("mmr") or {}
    weights = ranking.Weights(config["textWeight"], config["vectorWeight"])
    rules = ranking.Rules(weights, mmr.get("lambda", 0.7) if mmr.get("enabled") else None, 0.0, 10_000)
    kept = ("path", "startLine", "endLine", "snippet", "source")
    return [{**{k: rows[str(hit.key)][k] for k in kept}, "score": hit.score} for hit in ranking.rank(candidates, rules)]


def _select(case: Case) -> Any:
    hits = []
    for item in case.input["merged"]:
        cosine = item.get("vectorScore", 0)
        explained = ranking.Explanation(
            None, 0, 0, item.get("textScore", 0), 1 if cosine else None, cosine, 0, 0, 0, None, 1, 0, item["score"]
        )
        hits.append(ranking.Ranked(item["path"], item["score"], explained))
    return [hit.key for hit in ranking.select(hits, case.config["minScore"], case.config["maxResults"])]


def _extra(entries: list[Any]) -> list[Any]:
    return [
        SimpleNamespace(path=e, pattern=None)
        if isinstance(e, str)
        else SimpleNamespace(path=e["path"], pattern=e.get("pattern"))
        for e in entries
    ]


def _extra_paths(case: Case) -> Any:
    found = files.extra_paths(Path(case.input["workspaceDir"]), _extra(case.input["extraPaths"]))
    return [{"path": str(e.path), **({"pattern": e.pattern} if e.pattern else {})} for e in found]


def _in_workspace(case: Case, call: Callable[[Path, tuple[files.ExtraPath, ...]], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve()
        given = case.input["files"]
        for name in given:
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(given[name].encode() if isinstance(given, dict) else b"x")
        for name, target in case.input.get("symlinks", {}).items():
            (workspace / name).symlink_to(workspace / target)
        return call(workspace, files.extra_paths(workspace, _extra(case.input.get("extraPaths", []))))


def _list_files(case: Case) -> Any:
    return _in_workspace(case, lambda workspace, extra: sorted(files.list_memory_files(workspace, extra).files))


def _read_file(case: Case) -> Any:
    def read(workspace: Path, extra: tuple[files.ExtraPath, ...]) -> Any:
        wanted = case.input
        try:
            part = note_reading.read_note(workspace, extra, wanted["relPath"], wanted.get("from"), wanted.get("lines"))
        except note_reading.NotAllowed as error:
            code = {} if str(error) == "path required" else {"code": "MEMORY_PATH_NOT_ALLOWED"}
            return {"error": str(error), **code}
        return note_answer(part)

    return _in_workspace(case, read)


def _session(case: Case) -> Any:
    text = session_text(case.input["jsonl"].encode())
    return {
        "path": f"sessions/{case.input['fileName']}",
        "content": text.content,
        "lineMap": list(text.line_map),
        "messageTimestampsMs": list(text.times_ms),
    }


def _citations(case: Case) -> Any:
    if not case.config["include"]:
        return [{key: value for key, value in hit.items() if key != "citation"} for hit in case.input["results"]]
    decorated = []
    for hit in case.input["results"]:
        cited = snippets.citation(hit["path"], hit["startLine"], hit["endLine"])
        decorated.append({**hit, "snippet": snippets.with_citation(hit["snippet"], cited), "citation": cited})
    return decorated


def _date(case: Case) -> Any:
    path = case.input["path"]
    found = dates.note_date(path)
    return {"date": found.isoformat() if found else None, "evergreen": dates.is_evergreen(path)}


def _settings(case: Case) -> Any:
    search = MemorySearch.model_validate(case.input["memorySearch"], context=ReadAs(lenient=True))
    if not search.enabled:
        return None
    weights = ranking.Weights.of(search.query.hybrid.text_weight, search.query.hybrid.vector_weight)
    shown = search.model_dump(by_alias=True, mode="json")
    switch = search.experimental.session_memory
    shown["sources"] = list(effective_sources(search.sources, session_memory=switch))
    shown["query"]["hybrid"] |= {"textWeight": weights.text, "vectorWeight": weights.vector}
    return shown


def _same_settings(_: Case, got: Any, wanted: Any) -> bool:
    """Provider and store are ours; of the rest every key of the original must be the same."""
    if wanted is None or got is None:
        return got is wanted
    ours = {"provider", "remote", "model", "local", "store", "multimodal"}
    return all(_holds(got.get(key), value) for key, value in wanted.items() if key not in ours)


def _holds(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(_holds(got.get(key), value) for key, value in wanted.items())
    return same(got, wanted)


def _same_as_newer(_: Case, got: Any, wanted: Any) -> bool:
    """Cases of two releases hold both values; ours is the newer one (follow.json)."""
    return same(got, wanted["2026.9"] if isinstance(wanted, dict) and "2026.9" in wanted else wanted)


COMPARE = {
    "resolveMemorySearchConfig": _same_settings,
    **dict.fromkeys(
        ("buildSessionEntry", "isMemoryPath", "listMemoryFiles", "memoryDateAndEvergreen", "readMemoryFile"),
        _same_as_newer,
    ),
}
ADAPTERS: dict[str, Callable[[Case], Any]] = {
    "buildMemorySearchUnavailableResult": lambda case: memory_answers.unavailable(case.input["error"]),
    "buildSessionEntry": _session,
    "chunkMarkdown": _chunk_markdown,
    "cosineSimilarity": lambda case: vector.cosine(case.input["a"], case.input["b"]),
    "decorateCitations": _citations,
    "enforceEmbeddingMaxInputTokens": _enforce_limit,
    "estimateStringChars": lambda case: weighted_chars(case.input["text"]),
    "exactPathSpecificity": lambda case: path_specificity(case.input["query"], case.input["path"]),
    "hashText": lambda case: chunking.text_hash(case.input["text"]),
    "isMemoryPath": lambda case: is_memory_path(case.input["relPath"]),
    "listMemoryFiles": _list_files,
    "memoryDateAndEvergreen": _date,
    "mergeHybridResults": _merge,
    "mmrRerank": _mmr,
    "mmrTokenize": lambda case: sorted(ranking.diversity_tokens(case.input["text"])),
    "normalizeExtraMemoryPathEntries": _extra_paths,
    "readMemoryFile": _read_file,
    "redactSensitiveText": lambda case: mask_credentials(case.input["text"]),
    "remapChunkLines": _remap,
    "resolveEmbeddingMaxInputTokens": _max_input,
    "resolveMemorySearchConfig": _settings,
    "sanitizeAndNormalizeEmbedding": lambda case: vector.sanitized(case.input["vec"]).tolist(),
    "selectHybridSearchResults": _select,
    "shouldIncludeCitations": lambda case: snippets.citations_wanted(
        case.input["mode"], chat_type(case.input["sessionKey"] or "")
    ),
    "splitCuratedMarkdownEntries": _split_curated,
    "splitTextToUtf8ByteLimit": lambda case: chunking.split_to_bytes(case.input["text"], case.input["maxUtf8Bytes"]),
    "stripMemoryAnnotationCarriers": lambda case: chunking.strip_annotations(case.input["text"]),
    "truncateUtf16Safe": lambda case: head(case.input["text"], case.input["maxUnits"]),
}
