from __future__ import annotations

import pytest

from turngraph import session_routing as routing
from turngraph.config.schema_session import Session
from turngraph.inbound import Inbound

SEPARATED = Session.model_validate({"dmScope": "per-channel-peer"})


def test_an_explicit_key_wins_over_the_facts_of_the_channel() -> None:
    inbound = Inbound(session_key=" Agent:Main:Telegram:Direct:5 ", channel="slack", peer="U1")
    assert routing.inbound_key(inbound, "main", SEPARATED) == "agent:main:telegram:direct:5"


@pytest.mark.parametrize(("named", "key"), [("main", "agent:work:main"), ("session:Plan", "agent:work:session:plan")])
def test_a_request_key_belongs_to_the_agent_that_is_asked(named: str, key: str) -> None:
    assert routing.inbound_key(Inbound(session_key=named), "work", Session()) == key


def test_direct_chats_share_the_main_session_unless_separated() -> None:
    inbound = Inbound(channel="telegram", peer="42")
    assert routing.inbound_key(inbound, "main", Session()) == "agent:main:main"
    assert routing.inbound_key(inbound, "main", SEPARATED) == "agent:main:telegram:direct:42"


def test_a_group_has_a_session_of_its_own_however_its_address_is_written() -> None:
    short = Inbound(channel="telegram", chat_type="group", peer="-100")
    long = Inbound(channel="telegram", chat_type="group", peer="telegram:group:-100")
    assert routing.inbound_key(short, "main", Session()) == routing.inbound_key(long, "main", Session())


def test_a_forum_topic_is_part_of_the_group_and_a_thread_hangs_under_its_chat() -> None:
    topic = Inbound(channel="telegram", chat_type="group", peer="-100", thread="4")
    thread = Inbound(channel="slack", chat_type="channel", peer="C1", thread="17.5")
    assert routing.inbound_key(topic, "main", Session()) == "agent:main:telegram:group:-100:topic:4"
    assert routing.inbound_key(thread, "main", Session()) == "agent:main:slack:channel:c1:thread:17.5"


def test_one_session_for_everything_when_the_scope_is_global() -> None:
    assert routing.inbound_key(Inbound(channel="slack", peer="U1"), "main", Session(scope="global")) == "global"
