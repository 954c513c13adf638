"""Take texts out of the index and the cache, and keep them out.

Source: design decision 14, spec/memory.md 8.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stores.memory import writing
from stores.memory.results import ForgetReport
from stores.memory.session_files import SESSIONS_FOLDER
from turngraph.errors import NotFound
from turngraph.memory_paths import normalise_memory_path

if TYPE_CHECKING:
    import duckdb

    from stores.memory.index import MemoryIndex

_ALL = "*"
_COLUMNS = {"source": "VARCHAR", "path": "VARCHAR", "hash": "VARCHAR"}


def forget(
    index: MemoryIndex, *, path: str | None, session: str | None, query: str | None, delete: bool, confirmed: bool
) -> ForgetReport:
    """See :meth:`stores.memory.index.MemoryIndex.forget`."""
    if sum(value is not None for value in (path, session, query)) != 1:
        raise NotFound("name one of a path, a session or a query to forget")
    chosen = _hits(index, query) if query is not None else _files(index, path, session)
    hashes = tuple(dict.fromkeys(found for found, _, _ in chosen))
    counts: dict[str, int] = {}
    for _, source, file in chosen:
        counts[file] = counts.get(file, 0) + (1 if source else 0)
    texts = _texts(index, hashes)
    if not confirmed:
        return ForgetReport(False, tuple(counts.items()), hashes, texts=texts)
    with index.database.write() as connection:
        _drop(connection, chosen, whole=query is None, session=session is not None)
        writing.fold(connection)  # the words themselves must go too, and this raises the generation
    index.database.settle()
    cache = index.meaning.cache()
    embeddings = cache.forget(hashes) if cache else 0
    deleted = _delete(index, {file for _, source, file in chosen if source == "memory"}) if delete else ()
    return ForgetReport(True, tuple(counts.items()), hashes, embeddings, deleted, texts)


def _texts(index: MemoryIndex, hashes: tuple[str, ...]) -> tuple[str, ...]:
    with index.database.read() as connection:
        rows = connection.execute(
            "SELECT DISTINCT text FROM chunks WHERE hash IN (SELECT unnest(string_split(?, chr(0))))",
            ["\0".join(hashes)],
        ).fetchall()
    return tuple(text for (text,) in rows)


_Chosen = tuple[str, str, str]  # chunk hash, source, path


def _files(index: MemoryIndex, path: str | None, session: str | None) -> list[_Chosen]:
    with index.database.read() as connection:
        rows: list[_Chosen] = connection.execute(
            "SELECT c.hash, f.source, f.path FROM chunks c JOIN files f USING (file_id) ORDER BY c.chunk_id"
        ).fetchall()
    if path is not None:
        name = normalise_memory_path(path)
        found = [row for row in rows if row[2] in (path, name)]
    else:
        found = [row for row in rows if row[1] == "sessions" and _is_of(row[2], session or "")]
    if not found:
        raise NotFound(f"nothing of {path or session} is indexed; `turngraph memory status` lists what is")
    return found


def _is_of(path: str, session: str) -> bool:
    name = path.removeprefix(SESSIONS_FOLDER)
    return path == session or name == session or name.startswith((f"{session}.jsonl", f"{session}-topic-"))


def _hits(index: MemoryIndex, query: str) -> list[_Chosen]:
    found = index.search(query).hits
    if not found:
        raise NotFound("no hit of that query is indexed")
    return [(hit.hash, hit.source, hit.path) for hit in found]


def _drop(connection: duckdb.DuckDBPyConnection, chosen: list[_Chosen], *, whole: bool, session: bool) -> None:
    """Remove the rows; the file rows stay, so that an unchanged file is not read again."""
    hashes = "\0".join(dict.fromkeys(found for found, _, _ in chosen))
    files = list(dict.fromkeys((source, path) for _, source, path in chosen))
    marks = ",".join(map(str, writing.file_ids(connection, files)))
    dead = (
        f"SELECT chunk_id FROM chunks WHERE file_id IN ({marks}) AND hash IN (SELECT unnest(string_split(?, chr(0))))"
    )
    for table in ("delta", *(("vectors",) if writing.has_vectors(connection) else ())):
        connection.execute(f"DELETE FROM {table} WHERE chunk_id IN ({dead})", [hashes])
    if session:
        tombstones = [(source, path, _ALL) for source, path in files]
    elif whole:
        known = writing.facts_by_path(connection)
        tombstones = [(source, path, known[(source, path)][0]) for source, path in files]
    else:
        tombstones = [(source, path, found) for found, source, path in chosen]
    connection.execute(f"DELETE FROM chunks WHERE chunk_id IN ({dead})", [hashes])
    connection.execute(
        f"UPDATE files SET chunks = (SELECT count(*) FROM chunks c WHERE c.file_id = files.file_id)"
        f" WHERE file_id IN ({marks})"
    )
    writing.insert(connection, "forgotten", _COLUMNS, tombstones)


def _delete(index: MemoryIndex, paths: set[str]) -> tuple[str, ...]:
    gone = []
    for path in sorted(paths):
        Path(index.places.disk.workspace / path).unlink(missing_ok=True)
        gone.append(path)
    return tuple(gone)
