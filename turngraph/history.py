"""A history: a working set that keeps what was found out about it, and passes that on to the one it grows into.

The same questions are asked of a working set at many nodes and before every model call: do calls and results pair, are
there images, how many tokens. Asked as a :class:`Fold`, such a question costs the messages that came since it was
asked of an earlier state of the same history, and the answer is the same as for a tuple that holds the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any, Generic, TypeVar

from turngraph.messages import Message

State = TypeVar("State")


class History(tuple[Message, ...]):
    """A working set, oldest first. Make one with :func:`as_history` and let it grow with :meth:`plus`."""

    _known: dict[Hashable, Any]
    _begun: dict[Hashable, tuple[Any, int]]  # what was known of an earlier state, and how many messages that had
    _base: History | None  # what it grew out of, until it grows itself

    def __new__(cls, messages: Iterable[Message] = ()) -> History:
        made = super().__new__(cls, messages)
        made._known = {}
        made._begun = {}
        made._base = None
        return made

    def plus(self, *more: Message) -> History:
        """Return the history with messages behind it; what is known of this one holds for its beginning."""
        grown = History((*self, *more))
        length = len(self)
        grown._begun = {**self._begun, **{key: (value, length) for key, value in self._known.items()}}
        grown._base, self._base = self, None
        return grown

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)  # what is known is found out again


def as_history(messages: Sequence[Message]) -> History:
    """Return ``messages`` as a history; one that is a history already stays the same object."""
    return messages if isinstance(messages, History) else History(messages)


@dataclass(frozen=True, slots=True, eq=False)
class Fold(Generic[State]):
    """A question about a history that can be taken up where it was left.

    Attributes:
        start: the answer for no messages; never changed.
        step: given an answer, the messages that follow and the place of the first of them, returns the answer for
            all. It leaves the answer that it was given as it is.
        key: names the question where it is made anew each time; else only the same object is the same question.
    """

    start: State
    step: Callable[[State, Iterable[Message], int], State]
    key: Hashable = None

    def __call__(self, messages: Sequence[Message]) -> State:
        """Return the answer for ``messages``."""
        if not isinstance(messages, History):
            return self.step(self.start, messages, 0)
        known, key = messages._known, self.key or self
        if key not in known:
            state, length = self._beginning(messages, key)
            known[key] = self.step(state, islice(messages, length, None), length) if len(messages) > length else state
        answer: State = known[key]
        return answer

    def _beginning(self, messages: History, key: Hashable) -> tuple[State, int]:
        """Return what is known of the beginning, and of how many messages."""
        base = messages._base
        if base is not None:  # asked too, since the history of the next turn grows out of it as well
            return self(base), len(base)
        return messages._begun.get(key, (self.start, 0))


def places(holds: Callable[[Message], Any], key: Hashable = None) -> Fold[tuple[int, ...]]:
    """Make the question where the messages stand of which something holds."""

    def step(found: tuple[int, ...], messages: Iterable[Message], start: int) -> tuple[int, ...]:
        more = tuple(place for place, message in enumerate(messages, start) if holds(message))
        return found + more if more else found

    return Fold((), step, key)


def replaced(messages: Sequence[Message], changes: Mapping[int, Message | None], key: Hashable) -> History:
    """Return a history with other messages in some places; ``None`` leaves one out.

    What the same change made of an earlier state of this history is taken up when it does the same there again, so
    that the result grows as the history does. Several states are kept: what spares the newest message touches it later.

    Args:
        messages: the history.
        changes: new messages by place, in order.
        key: names the change.
    """
    if not isinstance(messages, History):
        return History(_changed(messages, changes, 0))
    earlier: tuple[_Made, ...] = messages._begun.get(key, ((), 0))[0]
    begin = next((made for made in earlier if made.agrees_with(changes)), None)
    if begin is not None:
        made = begin.history.plus(*_changed(messages, changes, begin.length))
    else:
        made = History(_changed(messages, changes, 0))
        first = min(changes, default=len(messages))
        made._begun = {name: known for name, known in messages._begun.items() if known[1] <= first}
    messages._known[key] = (_Made(made, dict(changes), len(messages)), *earlier[: _STATES_KEPT - 1])
    return made


_STATES_KEPT = 3


@dataclass(frozen=True, slots=True)
class _Made:
    """What a change made of the first ``length`` messages of a history."""

    history: History
    changes: Mapping[int, Message | None]
    length: int

    def agrees_with(self, changes: Mapping[int, Message | None]) -> bool:
        return self.changes == {place: new for place, new in changes.items() if place < self.length}


def _changed(messages: Sequence[Message], changes: Mapping[int, Message | None], start: int) -> Iterator[Message]:
    for place in range(start, len(messages)):
        message = changes.get(place, messages[place])
        if message is not None:
            yield message


def digest_of(messages: Sequence[Message]) -> str:
    """Return the SHA-256 of the digests of all messages."""
    digest: str = _DIGEST(messages).hexdigest()
    return digest


def _hashed(known: Any, messages: Iterable[Message], _start: int) -> Any:
    hashed = known.copy()
    hashed.update(b"".join(message.digest for message in messages))
    return hashed


_DIGEST: Fold[Any] = Fold(sha256(), _hashed)
