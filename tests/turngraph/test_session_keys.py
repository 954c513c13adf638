from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph import session_keys as keys
from turngraph.errors import NotFound


def test_rooms_that_differ_by_case_stay_apart() -> None:
    rooms = [f"agent:main:matrix:channel:!{name}:ex.org" for name in ("Room", "room")]
    assert len({keys.fold_key(room) for room in rooms}) == 2


def test_a_malformed_agent_key_has_no_agent() -> None:
    with pytest.raises(NotFound, match="names no session"):
        keys.agent_of("agent:main")
    assert keys.agent_of("cron:nightly", "ops") == "ops"


def test_ids_of_other_scripts_fall_back_to_the_default() -> None:
    assert keys.normalize_agent_id("研究") == "main"
    assert keys.normalize_agent_id("👩‍👩‍👧") == "main"
    assert keys.normalize_account_id("مرحبا") == "default"


@pytest.mark.parametrize(
    ("key", "route"),
    [
        ("agent:main:telegram:direct:42", keys.KeyRoute("telegram", None, "direct", "42")),
        ("agent:main:telegram:bot2:dm:A:b:topic:7", keys.KeyRoute("telegram", "bot2", "direct", "A:b")),
        ("slack:channel:C9", keys.KeyRoute("slack", None, "channel", "C9")),
        ("agent:main:main", None),
        ("", None),
    ],
)
def test_a_key_tells_where_its_chat_takes_place(key: str, route: keys.KeyRoute | None) -> None:
    assert keys.key_route(key) == route


@given(st.text(max_size=80))
def test_normalising_an_id_twice_changes_nothing(text: str) -> None:
    once = keys.normalize_agent_id(text)
    assert keys.normalize_agent_id(once) == once
    assert 1 <= len(once) <= keys.ID_CHARS


@given(st.text(alphabet="agent:Mainthread!signalmatrix group", max_size=60))
def test_folding_a_key_twice_changes_nothing(text: str) -> None:
    once = keys.fold_key(text)
    assert keys.fold_key(once) == once


@given(st.text(alphabet="agent:mainx ", max_size=40))
def test_a_parsed_key_reads_back_as_itself(text: str) -> None:
    parsed = keys.parse_key(text)
    if parsed is not None:
        assert keys.parse_key(str(parsed)) == parsed
