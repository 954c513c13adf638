from __future__ import annotations

import pytest

from nodes.chat_commands import asked_of, match_command, may_command
from turngraph.config import AgentSettings, default_settings
from turngraph.config.schema_channels import Commands
from turngraph.inbound import Inbound


def allowing(**commands: object) -> AgentSettings:
    base = default_settings()
    root = base.root.model_copy(update={"commands": Commands.model_validate(commands)})
    return base.model_copy(update={"root": root})


@pytest.mark.parametrize(
    ("text", "command", "rest"),
    [
        ("/new", "new", ""),
        ("  /RESET  ", "reset", ""),
        ("/new plan:\n  - eins\n  - 日本語 👩‍👩‍👧", "new", "plan:\n  - eins\n  - 日本語 👩‍👩‍👧"),
        ("/new\nAnn: hello", "new", "Ann: hello"),
        ("[Mon 09:00] /new now", "new", "now"),
        ("/compact keep the numbers", "compact", "keep the numbers"),
        ("/status", "status", ""),
        ("/context", "context", ""),
        ("please /new", None, "please /new"),
        ("/newish", None, "/newish"),
        ("", None, ""),
    ],
)
def test_a_command_stands_at_the_start_and_its_text_stays_as_written(text: str, command: str | None, rest: str) -> None:
    asked = asked_of(Inbound(text=text), default_settings())
    assert (asked.command, asked.text) == (command, rest)


def test_a_name_in_front_is_text_unless_the_connector_wrote_it() -> None:
    settings = default_settings()
    assert asked_of(Inbound(text="Ann: /new"), settings).command is None
    assert asked_of(Inbound(text="Ann: /new", speaker_prefixed=True), settings).command == "new"


def test_what_no_user_typed_holds_no_commands() -> None:
    settings = default_settings()
    for inbound in (
        Inbound(text="/new", voice=True),
        Inbound(text="/new", kind="heartbeat"),
        Inbound(text="/new", kind="cron"),
        Inbound(text="/new", kind="replay", recorded={"role": "user", "content": "/new"}),
    ):
        assert asked_of(inbound, settings).command is None


def test_mentions_are_looked_through_in_groups_only() -> None:
    assert match_command("@15550001111 /new", ("/new",), in_group=True) is not None
    assert match_command("@15550001111 /new", ("/new",)) is None
    bare = match_command("/new <@!77>", ("/new",), in_group=True)
    assert bare is not None
    assert bare.text == ""
    assert match_command("hey bot /new", ("/new",), in_group=True, mention_patterns=["hey bot"]) is not None


def test_in_groups_only_owners_give_commands_unless_the_settings_say_who() -> None:
    group = Inbound(text="/new", channel="telegram", chat_type="group", sender="7")
    assert not may_command(group, default_settings())
    assert may_command(group, allowing(ownerAllowFrom=["telegram:7"]))
    assert may_command(group, allowing(allowFrom={"telegram": ["7"]}))
    assert may_command(group, allowing(allowFrom={"*": ["*"]}))
    assert not may_command(group, allowing(allowFrom={"telegram": ["8"], "*": ["*"]}))


def test_everybody_in_a_direct_chat_gives_commands_unless_the_settings_say_who() -> None:
    direct = Inbound(text="/new", channel="telegram", sender="7")
    assert may_command(direct, default_settings())
    assert not may_command(direct, allowing(allowFrom={"telegram": ["8"]}))


def test_the_word_of_the_channel_comes_first() -> None:
    assert not may_command(Inbound(text="/new", sender_authorised=False), default_settings())


def test_a_refused_command_is_read_as_text_and_said_so() -> None:
    asked = asked_of(Inbound(text="/new x", sender_authorised=False), default_settings())
    assert (asked.command, asked.text, asked.refused) == (None, "/new x", "/new")
