from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.limit_history import history_limit, limit_turns
from tests.builders import assistant, summary, user
from turngraph.messages import Message


def turns(count: int) -> tuple[Message, ...]:
    return tuple(m for n in range(count) for m in (user(f"u{n}", entry=f"e{n}"), assistant(f"a{n}")))


def test_nothing_is_cut_until_half_as_many_turns_again_have_come() -> None:
    history = turns(6)
    limited = limit_turns(history, 4)
    assert limited.messages is history
    assert limited.decision is None
    assert len(limit_turns(turns(7), 4).messages) == 8


def test_the_start_of_the_window_moves_in_batches() -> None:
    starts = [limit_turns(turns(count), 10).messages[0].text for count in range(16, 22)]
    assert starts == ["u6"] * 6


def test_a_summary_in_front_is_kept_and_the_dropped_entries_are_named() -> None:
    limited = limit_turns((summary("S"), *turns(6)), 2)
    assert [m.role for m in limited.messages[:2]] == ["compactionSummary", "user"]
    assert limited.decision is not None
    assert limited.decision.entry_ids == ("e0", "e1", "e2", "e3")


@given(count=st.integers(0, 60), limit=st.integers(1, 12))
def test_what_is_kept_is_the_end_and_holds_at_least_the_limit(count: int, limit: int) -> None:
    history = turns(count)
    kept = limit_turns(history, limit).messages
    assert kept == history[len(history) - len(kept) :]
    users = sum(message.role == "user" for message in kept)
    assert min(count, limit) <= users <= max(limit * 1.5 + 1, 0)


CHANNELS = {
    "telegram": {
        "dmHistoryLimit": 20,
        "historyLimit": 50,
        "dms": {"123": {"historyLimit": 5}},
        "accounts": {"acct1": {"dmHistoryLimit": 9}},
    },
    "bad": [1],
}


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        ("agent:main:telegram:direct:123", 5),
        ("agent:main:telegram:acct1:direct:77", 9),
        ("agent:main:telegram:acct1:direct:123", 9),
        ("agent:main:telegram:acct2:direct:123", 5),
        ("agent:main:telegram:group:-100:topic:7", 50),
        ("agent:main:bad:direct:1", None),
        ("agent:main:main", None),
        ("", None),
    ],
)
def test_the_limit_follows_the_session_key(key: str, limit: int | None) -> None:
    assert history_limit(key, CHANNELS) == limit
