from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph import session_keys as keys
from turngraph.config.schema_session import Session
from turngraph.errors import NotFound
from turngraph.inbound import Inbound

SEPARATED = Session.model_validate({"dmScope": "per-channel-peer"})


def test_an_explicit_key_wins_over_the_facts_of_the_channel() -> None:
    inbound = Inbound(session_key=" Agent:Main:Telegram:Direct:5 ", channel="slack", peer="U1")
    assert keys.inbound_key(inbound, "main", SEPARATED) == "agent:main:telegram:direct:5"


@pytest.mark.parametrize(("named", "key"), [("main", "agent:work:main"), ("session:Plan", "agent:work:session:plan")])
def test_a_request_key_belongs_to_the_agent_that_is_asked(named: str, key: str) -> None:
    assert keys.inbound_key(Inbound(session_key=named), "work", Session()) == key


def test_direct_chats_share_the_main_session_unless_separated() -> None:
    inbound = Inbound(channel="telegram", peer="42")
    assert keys.inbound_key(inbound, "main", Session()) == "agent:main:main"
    assert keys.inbound_key(inbound, "main", SEPARATED) == "agent:main:telegram:direct:42"


def test_a_group_has_a_session_of_its_own_however_its_address_is_written() -> None:
    short = Inbound(channel="telegram", chat_type="group", peer="-100")
    long = Inbound(channel="telegram", chat_type="group", peer="telegram:group:-100")
    assert keys.inbound_key(short, "main", Session()) == keys.inbound_key(long, "main", Session())


def test_a_forum_topic_is_part_of_the_group_and_a_thread_hangs_under_its_chat() -> None:
    topic = Inbound(channel="telegram", chat_type="group", peer="-100", thread="4")
    thread = Inbound(channel="slack", chat_type="channel", peer="C1", thread="17.5")
    assert keys.inbound_key(topic, "main", Session()) == "agent:main:telegram:group:-100:topic:4"
    assert keys.inbound_key(thread, "main", Session()) == "agent:main:slack:channel:c1:thread:17.5"


def test_one_session_for_everything_when_the_scope_is_global() -> None:
    assert keys.inbound_key(Inbound(channel="slack", peer="U1"), "main", Session(scope="global")) == "global"


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
