"""Take texts out of the index and the cache, and keep them out.

A plan is made first, so that a dry run and the real one say the same. Source: design decision 14, spec/memory.md 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from stores.archives import artifact
from stores.memory import writing
from stores.memory.database import Database
from stores.memory.results import ForgetReport
from stores.memory.schema import quoted
from stores.memory.session_files import SESSIONS_FOLDER, live_path
from stores.memory.session_text import spoken_texts
from stores.memory.snippets import citation
from stores.memory.sync import discard
from stores.memory.tombstones import EVERYTHING
from turngraph.errors import NotFound, StoreError
from turngraph.memory_paths import normalise_memory_path

if TYPE_CHECKING:
    import duckdb

    from stores.memory.index import MemoryIndex

_TABLES = ("meta", "files", "chunks", "segment", "delta")
_WAIT_S = 60.0  # for a rebuild by another process

_File = tuple[str, str]  # source, path


@dataclass(frozen=True, slots=True)
class _Chunk:
    file: _File
    hash: str
    start_line: int
    end_line: int
    text: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """What goes: chunks with their rows, files as a whole (none for a query), and transcripts on disk.

    ``tombstones`` are (source, path, hash) of what must not come back.
    """

    chunks: tuple[_Chunk, ...]
    tombstones: tuple[tuple[str, str, str], ...]
    whole: tuple[_File, ...] = ()
    transcripts: tuple[Path, ...] = ()


def forget(
    index: MemoryIndex, *, path: str | None, session: str | None, query: str | None, delete: bool, confirmed: bool
) -> ForgetReport:
    """See :meth:`stores.memory.index.MemoryIndex.forget`."""
    if sum(value is not None for value in (path, session, query)) != 1:
        raise NotFound("name one of a path, a session or a query to forget")
    index.sync("forget", embed=False)  # lines and texts are those on disk now
    if query is not None:
        plan = _of_query(index, query)
    elif path is not None and not path.startswith(SESSIONS_FOLDER):
        plan = _of_note(index, path)
    else:
        plan = _of_session(index, path or session or "")
    deleted = _markdown_of(index, plan) if delete else {}
    report = _report(plan, deleted, _texts(plan))
    return _carried_out(index, plan, deleted, report) if confirmed else report


def _report(plan: _Plan, deleted: dict[str, list[tuple[int, int]]], texts: tuple[str, ...]) -> ForgetReport:
    counts = dict.fromkeys((path for _, path in plan.whole), 0)
    for chunk in plan.chunks:
        counts[chunk.file[1]] = counts.get(chunk.file[1], 0) + 1
    hashes = tuple(dict.fromkeys(chunk.hash for chunk in plan.chunks))
    parts = [citation(path, *lines) for path, ranges in deleted.items() for lines in ranges]
    removed = (*(path for path, ranges in deleted.items() if not ranges), *parts)
    return ForgetReport(False, tuple(counts.items()), hashes, deleted=removed, texts=texts)


def _carried_out(
    index: MemoryIndex, plan: _Plan, deleted: dict[str, list[tuple[int, int]]], report: ForgetReport
) -> ForgetReport:
    # First of all what keeps it out: a kill behind this leaves rows that the next try takes.
    index.view.tombstones.add(dict.fromkeys(plan.tombstones))
    if index.database.exists:
        with index.database.write() as connection:
            _drop(connection, plan.chunks)
            writing.fold(connection)  # the words themselves must go too, and this raises the generation
        _write_anew(index)
        index.meaning.renew()
    cache = index.meaning.cache()
    embeddings = cache.forget(report.hashes) if cache else 0
    for path, ranges in deleted.items():
        _delete(index.places.disk.workspace / path, ranges)
    if deleted:
        index.sync("forget", embed=False)
    return ForgetReport(True, report.paths, report.hashes, embeddings, report.deleted, report.texts)


def _of_query(index: MemoryIndex, query: str) -> _Plan:
    found = {((hit.source, hit.path), hit.hash) for hit in index.search(query, refresh=False).hits}
    if not found:
        raise NotFound("no hit of that query is indexed")
    chunks = tuple(c for c in _chunks(index, [file for file, _ in found]) if (c.file, c.hash) in found)
    return _Plan(chunks, tuple((*chunk.file, chunk.hash) for chunk in chunks))


def _of_note(index: MemoryIndex, path: str) -> _Plan:
    names = (path, normalise_memory_path(path))
    facts = index.view.facts
    files = tuple(key for key in facts if key[0] == "memory" and key[1] in names)
    if not files:
        raise NotFound(f"nothing of {path} is indexed; `turngraph memory status` lists what is")
    return _Plan(_chunks(index, files), tuple((*key, facts[key][0]) for key in files), files)


def _of_session(index: MemoryIndex, wanted: str) -> _Plan:
    """Plan for a session by its id, with its topics and archives, or for one transcript as results name it."""
    folder = index.places.transcripts
    on_disk = {f"{SESSIONS_FOLDER}{file.name}": file for file in (folder.iterdir() if folder.is_dir() else ())}
    indexed = {path for source, path in index.view.facts if source == "sessions"}
    paths = sorted(path for path in {*on_disk, *indexed} if _is_of(path, wanted))
    if not paths:
        raise NotFound(f"no transcript of {wanted} is on disk or indexed; `turngraph sessions list` shows the sessions")
    files = tuple(("sessions", path) for path in paths)
    # By its id a session goes with the archives that it has now and those that it will have.
    barred = tuple(("sessions", path if path == wanted else live_path(path), EVERYTHING) for path in paths)
    return _Plan(_chunks(index, files), barred, files, tuple(on_disk[path] for path in paths if path in on_disk))


def _is_of(path: str, wanted: str) -> bool:
    if wanted.startswith(SESSIONS_FOLDER):
        return path == wanted
    session = artifact(path.removeprefix(SESSIONS_FOLDER)).session_id or ""
    return session == wanted or session.startswith(f"{wanted}-topic-")


def _chunks(index: MemoryIndex, files: Iterable[_File]) -> tuple[_Chunk, ...]:
    if not index.database.exists:
        return ()
    with index.database.read() as connection:
        ids = writing.file_ids(connection, list(dict.fromkeys(files)))
        if not ids:
            return ()
        rows = connection.execute(
            "SELECT source, path, c.hash, start_line, end_line, text FROM chunks c JOIN files USING (file_id)"
            f" WHERE file_id IN ({','.join(map(str, ids))}) ORDER BY chunk_id"
        ).fetchall()
    return tuple(_Chunk((source, path), *rest) for source, path, *rest in rows)


def _texts(plan: _Plan) -> tuple[str, ...]:
    """Return what other stores may hold copies of; of a transcript also what was said before it was shortened."""
    said = [text for file in plan.transcripts for text in spoken_texts(file.read_bytes())]
    return tuple(dict.fromkeys((*(chunk.text for chunk in plan.chunks), *said)))


def _drop(connection: duckdb.DuckDBPyConnection, chunks: Sequence[_Chunk]) -> None:
    """Remove the rows; the file rows stay, so that an unchanged file is not read again."""
    ids = writing.file_ids(connection, list(dict.fromkeys(chunk.file for chunk in chunks)))
    if not ids:
        return
    marks = ",".join(map(str, ids))
    hashes = "\0".join(dict.fromkeys(chunk.hash for chunk in chunks))
    dead = (
        f"SELECT chunk_id FROM chunks WHERE file_id IN ({marks}) AND hash IN (SELECT unnest(string_split(?, chr(0))))"
    )
    for table in ("delta", *(("vectors",) if writing.has_vectors(connection) else ())):
        connection.execute(f"DELETE FROM {table} WHERE chunk_id IN ({dead})", [hashes])
    connection.execute(f"DELETE FROM chunks WHERE chunk_id IN ({dead})", [hashes])
    connection.execute(
        f"UPDATE files SET chunks = (SELECT count(*) FROM chunks c WHERE c.file_id = files.file_id)"
        f" WHERE file_id IN ({marks})"
    )


def _write_anew(index: MemoryIndex) -> None:
    """Copy what is left into a new file: DuckDB marks deleted blocks as free and leaves their bytes where they are."""
    file = index.places.index
    clean = Database(file.with_name(f"{file.name}.new"), keeps_log=False)
    with FileLock(f"{file}.rebuild", timeout=_WAIT_S):
        discard(clean)
        with clean.write():
            pass  # its tables, as the schema stores them
        clean.close()
        with index.database.read() as connection:
            connection.execute(f"ATTACH {quoted(str(clean.path))} AS clean_copy")
            connection.execute("DELETE FROM clean_copy.meta")
            for table in _TABLES:
                connection.execute(f"INSERT INTO clean_copy.{table} SELECT * FROM {table}")
            if writing.has_vectors(connection):
                connection.execute("CREATE TABLE clean_copy.vectors AS SELECT * FROM vectors")
            connection.execute("CHECKPOINT clean_copy")
            connection.execute("DETACH clean_copy")
        index.database.replace_by(clean.path)
    index.view.forget_snapshot()


# Markdown


def _markdown_of(index: MemoryIndex, plan: _Plan) -> dict[str, list[tuple[int, int]]]:
    """Return what ``delete`` takes by path: ranges of lines for the hits of a query, no range for a whole file.

    Raises:
        StoreError: a file has changed since it was indexed, so that its lines may be others now.
    """
    found: dict[str, list[tuple[int, int]]] = {path: [] for source, path in plan.whole if source == "memory"}
    for chunk in () if plan.whole else plan.chunks:
        source, path = chunk.file
        if source == "memory":
            found.setdefault(path, []).append((chunk.start_line, chunk.end_line))
    for path in found:
        data = (index.places.disk.workspace / path).read_bytes()
        if sha256(data).hexdigest() != index.view.facts[("memory", path)][0]:
            raise StoreError(f"{path} has just changed; run the command again")
    return found


def _delete(file: Path, ranges: Sequence[tuple[int, int]]) -> None:
    """Remove lines of a file, or all of it; nobody sees half of a change."""
    from stores.sessions import write_whole

    lines = file.read_bytes().split(b"\n")
    gone = {number for first, last in ranges for number in range(first, last + 1)}
    kept = [line for number, line in enumerate(lines, 1) if number not in gone]
    if not ranges or not any(line.strip() for line in kept):
        file.unlink(missing_ok=True)
        return
    if lines[-1] == b"" and kept[-1] != b"":
        kept.append(b"")
    mode = file.stat().st_mode & 0o7777
    write_whole(file, b"\n".join(kept))
    file.chmod(mode)
