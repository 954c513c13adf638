"""Reading an open transcript: its entries, the active path, the context, and what counts from before the tail.

Opening reads the visible part from the end (:mod:`stores.transcript_reading`); what a caller asks for beyond it is
searched for, or everything is read. Nothing here writes.
Source: spec/sessions.md 4.4 to 4.6, design decisions 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal

from stores.transcript_appending import Stamp, stamp_of
from stores.transcript_context import (
    LookedUp,
    SessionContext,
    Settings,
    message_of,
    name_of,
    replaced_by,
    settings_of,
    speaks,
    visible_entries,
)
from stores.transcript_entries import CURRENT_VERSION, SUMMARY_BOUNDARIES, Entry, Raw, entry_of, has_id
from stores.transcript_reading import (
    FIRST_BLOCK_BYTES,
    FileRead,
    no_collection,
    read_forward,
    read_visible,
    rows_with,
    settings_before,
)
from stores.transcript_repair import Mended, mend
from stores.transcript_tree import VisiblePath, index_by_id, last_boundary, visible_path
from turngraph.clock import monotonic_ms
from turngraph.errors import NotFound, TranscriptError
from turngraph.history import History
from turngraph.messages import Message

OWN_FIELD = "turngraph"  # what is ours in an entry; in a compaction `carried`: what still counts from before it


@dataclass(frozen=True, slots=True)
class OpenReport:
    """How a transcript was opened.

    Attributes:
        mode: ``tail`` (visible part only), ``full``, ``new`` (there is no file yet) or ``kept`` (taken up again, only
            what others appended meanwhile was read).
        bytes_read, bytes_total: distinct bytes read, size of the file; duration_ms: wall time.
        broken_lines: numbers of lines that were left out; torn_bytes: size of an unfinished last line.
        repairs: what was mended in memory, one sentence each; our first append makes it durable.
        version: version of the file.
    """

    mode: Literal["tail", "full", "new", "kept"]
    bytes_read: int
    bytes_total: int
    duration_ms: float
    broken_lines: tuple[int, ...] = ()
    torn_bytes: int = 0
    repairs: tuple[str, ...] = ()
    version: int = CURRENT_VERSION


class TranscriptView:
    """What was read of one transcript file.

    Attributes:
        path: the file; it may not exist yet.
        session_id: id of its header, else the one given.
        header: its header, or the one that the first append writes.
        report: how it was opened.
        leaf_id: the entry that the next one follows; ``None`` before the first.
    """

    def __init__(self, path: Path, header: Raw, *, full: bool = False, first_block: int = FIRST_BLOCK_BYTES) -> None:
        self.path = path
        self.session_id = str(header["id"])
        self.header = header
        self.report = OpenReport("new", 0, 0, 0.0)
        self.leaf_id: str | None = None
        self._first_block = first_block
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._start = 0  # offset of what was read; 0: everything was
        self._stamp = Stamp()
        self._ends_with_lf = True
        self._mended = Mended(None, [], CURRENT_VERSION, frozenset(), ())
        self._messages: dict[str, Message] = {}
        self._context: SessionContext | None = None
        self._looked_up: LookedUp | None = None
        self._walked: tuple[str | None, VisiblePath] | None = None  # the last path, by its leaf, until something comes
        self._outgrown = False  # a compaction or reset came since it was read: not all that is held is visible
        self._load(full=full)

    def entries(self) -> Sequence[Entry]:
        """Return what was read, in file order: the visible part, or everything after a full read."""
        return self._entries

    @property
    def is_complete(self) -> bool:
        """Whether everything was read."""
        return self._start == 0

    @property
    def bytes_held(self) -> int:
        """Bytes of the file that are held as entries."""
        return self._stamp.size - self._start

    @property
    def is_resumable(self) -> bool:
        """Whether a later turn may go on with what is held: there is a file, it is sound, and all of it is visible."""
        report = self.report
        sound = not (self._mended.repairs or report.broken_lines or report.torn_bytes)
        return self._stamp.inode is not None and sound and not self._outgrown

    def entry(self, entry_id: str) -> Entry:
        """Return an entry by id; one that the tail read did not meet makes everything be read.

        Raises:
            NotFound: there is no such entry.
        """
        if entry_id not in self._by_id:
            self.load_all()
        if entry_id not in self._by_id:
            raise NotFound(f"no entry {entry_id} in {self.path}; `turngraph sessions show` tells its branches")
        return self._by_id[entry_id]

    def message(self, entry: Entry) -> Message:
        """Return the message that an entry adds to the context: the same object from call to call."""
        return self._message(entry, ())

    def branch(self, leaf: str | EllipsisType | None = ...) -> tuple[Entry, ...]:
        """Return the path to a leaf (the current one unless given), oldest first.

        After a tail read it begins with the first visible entry; call :meth:`load_all` first for the whole path.

        Raises:
            NotFound: there is no such entry.
        """
        if leaf is ...:
            return self._path(self.leaf_id).entries
        if leaf is not None:
            self.entry(leaf)
        return self._path(leaf).entries

    def turns(self) -> Iterator[tuple[Entry, ...]]:
        """Yield the user turns of the active path: a user message with everything up to the next one.

        What stands before the first user message belongs to no turn. Reads everything.
        """
        self.load_all()
        turn: list[Entry] = []
        for entry in self.branch():
            message = entry.message
            if message is not None and message.get("role") == "user":
                if turn:
                    yield tuple(turn)
                turn = [entry]
            elif turn:
                turn.append(entry)
        if turn:
            yield tuple(turn)

    def context(self) -> SessionContext:
        """Return what a model would see; built once, then every append adds to it."""
        if self._context is None:
            self._context = self._build_context()
        return self._context

    def newest_custom(self, custom_type: str) -> Entry | None:
        """Return the newest ``custom`` entry of a type in file order, wherever it lies."""
        for entry in reversed(self._entries):
            if entry.type == "custom" and entry.raw.get("customType") == custom_type:
                return entry
        if custom_type not in self._carried().get("customTypes", (custom_type,)):
            return None
        for raw in self._rows_before(custom_type):
            if raw.get("type") == "custom" and raw.get("customType") == custom_type:
                if has_id(raw):
                    return entry_of(raw)
                self.load_all()  # its id is derived from its line number
                return self.newest_custom(custom_type)
        return None

    def labels(self) -> dict[str, str]:
        """Return label texts by entry id; the last label of an entry counts, an empty one clears it."""
        labels: dict[Any, Any] = {}
        read = (entry.raw for entry in reversed(self._entries))
        for raw in chain(read, self._rows_before("label")):
            if raw.get("type") == "label":
                labels.setdefault(raw.get("targetId"), raw.get("label"))
        return {target: label for target, label in labels.items() if isinstance(label, str) and label}

    def load_all(self) -> None:
        """Read the whole file, if that has not been done."""
        if not self.is_complete:
            self._load(full=True)

    def close(self) -> None:
        """Forget what was read; the file itself is never held open."""
        self._entries, self._by_id, self._messages = [], {}, {}
        self._context = self._looked_up = self._walked = None

    def _load(self, *, full: bool) -> None:
        started = monotonic_ms()
        try:
            with no_collection(), self.path.open("rb") as file:
                stamp = stamp_of(file.fileno())
                read = read_forward(file, stamp.size) if full else read_visible(file, stamp.size, self._first_block)
                self._take(read)
        except FileNotFoundError:
            return
        except OSError as error:
            raise TranscriptError(f"cannot read {self.path}: {error.strerror}; check its permissions") from error
        self._stamp = stamp
        mended = self._mended
        self.report = OpenReport(
            "full" if self.is_complete else "tail",
            read.bytes_read,
            read.size,
            monotonic_ms() - started,
            read.broken,
            read.torn_bytes,
            mended.repairs,
            mended.version,
        )

    def _take(self, read: FileRead) -> None:
        mended = mend(read.rows, read.broken, read.torn_bytes, self.session_id)
        if mended.header is not None:
            self.header = mended.header
            self.session_id = str(mended.header["id"])
        self._mended = mended
        self._entries = mended.entries
        self._by_id = index_by_id(mended.entries)
        self._start = read.start
        self._ends_with_lf = read.ends_with_lf
        self.leaf_id = mended.entries[-1].id if mended.entries else None
        self._context = self._looked_up = self._walked = None
        self._outgrown = False

    def _path(self, leaf_id: str | None) -> VisiblePath:
        if self._walked is None or self._walked[0] != leaf_id:
            self._walked = leaf_id, self._walk(leaf_id)
        return self._walked[1]

    def _walk(self, leaf_id: str | None) -> VisiblePath:
        path = visible_path(self._by_id, leaf_id, whole=self.is_complete)
        if path.missing is None or path.settled or self.is_complete:
            return path
        self.load_all()
        return visible_path(self._by_id, leaf_id, whole=True)

    def _build_context(self) -> SessionContext:
        path = self._path(self.leaf_id).entries
        replaced = replaced_by(path) if self.is_complete else ()
        with no_collection():
            messages = History(self._message(entry, replaced) for entry in visible_entries(path))
        at = last_boundary(path)
        compaction = path[at] if at is not None and path[at].type == "compaction" else None
        return SessionContext(messages, compaction, self._look_up)

    def _look_up(self) -> LookedUp:
        if self._looked_up is None:
            self._looked_up = self._settings(self.leaf_id), self._name()
        return self._looked_up

    def _remember(self, entries: Sequence[Entry], stamp: Stamp) -> None:
        """Take in entries that stand behind what was read."""
        self._stamp, self._walked = stamp, None
        for entry in entries:
            self._entries.append(entry)
            self._by_id[entry.id] = entry
            self._outgrown |= entry.type in SUMMARY_BOUNDARIES
            if entry.type in SUMMARY_BOUNDARIES or entry.parent_id != self.leaf_id:
                self._context = self._looked_up = None
            if self._context is not None and speaks(entry):
                self._context = replace(self._context, messages=self._context.messages.plus(self.message(entry)))
            if self._looked_up is not None:
                settings, name = self._looked_up
                self._looked_up = settings_of((entry,)).over(settings), name_of(entry.raw) or name
            self.leaf_id = entry.id

    def _message(self, entry: Entry, replaced: tuple[str, ...]) -> Message:
        message = self._messages.get(entry.id)
        if message is None:
            message = message_of(entry, replaced)
            self._messages[entry.id] = message
        return message

    def _settings(self, leaf: str | None) -> Settings:
        visible = self._path(leaf)  # walked anew: something else may have read the whole file meanwhile
        known = settings_of(visible.entries)
        if self.is_complete or (known.thinking_level and known.model):
            return known
        carried = self._carried()
        if carried:
            level, model = carried.get("thinkingLevel"), carried.get("model")
            pair = (str(model[0]), str(model[1])) if isinstance(model, list) and len(model) == 2 else None
            return known.over(Settings(level if isinstance(level, str) else None, pair))
        if known.model and not self._holds_thinking_level():
            return known
        with self.path.open("rb") as file:
            found = settings_before(file, self._start, visible.missing, known, self._by_id)
        if found is None:
            self.load_all()
            found = settings_of(self._path(leaf).entries)
        return found

    def _holds_thinking_level(self) -> bool:
        kind = "thinking_level_change"
        return any(entry.type == kind for entry in self._entries) or any(True for _ in self._rows_before(kind))

    def _name(self) -> str | None:
        read = (entry.raw for entry in reversed(self._entries))
        carried = self._carried()
        for raw in read if carried else chain(read, self._rows_before("session_info")):
            if name := name_of(raw):
                return name
        name = carried.get("name")
        return name if isinstance(name, str) else None

    def _carried(self) -> Mapping[str, Any]:
        """Return what the compaction in force carries over; empty after a full read, which needs none of it."""
        compaction = self.context().compaction if not self.is_complete else None
        own = compaction.raw.get(OWN_FIELD) if compaction else None
        carried = own.get("carried") if isinstance(own, dict) else None
        return carried if isinstance(carried, dict) else {}

    def _rows_before(self, word: str) -> Iterator[Raw]:
        """Search the part that was not read for lines that hold ``word`` as a JSON text, newest first."""
        if not self.is_complete:
            with self.path.open("rb") as file:
                yield from rows_with(file, self._start, f'"{word}"'.encode())
