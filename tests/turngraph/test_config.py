"""Settings of a home: what is refused, what is forgiven, and what wins."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from turngraph.config import Settings, default_settings, load_settings
from turngraph.errors import ConfigError, NotFound

Load = Callable[..., Settings]


@pytest.fixture
def own(tmp_path: Path) -> Load:
    """Write ``turngraph.json5`` and load it."""

    def load(text: str, *, sets: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Settings:
        (tmp_path / "turngraph.json5").write_text(text, encoding="utf-8")
        return load_settings(tmp_path, sets=sets, env=env or {})

    return load


@pytest.fixture
def foreign(tmp_path: Path) -> Load:
    """Write ``openclaw.json`` and load it."""

    def load(tree: Any, *, sets: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Settings:
        (tmp_path / "openclaw.json").write_text(json.dumps(tree), encoding="utf-8")
        return load_settings(tmp_path, sets=sets, env=env or {})

    return load


def problems(load: Callable[[], object]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load()
    assert caught.value.exit_code == 2
    return caught.value.problems


def test_a_home_without_a_file_has_the_defaults(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "nowhere", env={})
    assert (settings.source, settings.notes, settings.agent_ids) == (None, (), ("main",))
    assert settings.agent().digest == default_settings().digest
    assert settings.agent() == default_settings()


def test_an_empty_file_equals_no_file(own: Load) -> None:
    assert own("{}").agent() == default_settings()


def test_the_foreign_file_is_read_only_when_ours_is_absent(tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_text('{"session": {"mainKey": "theirs"}}')
    assert load_settings(tmp_path, env={}).agent().session.main_key == "theirs"
    (tmp_path / "turngraph.json5").write_text("{}")
    assert load_settings(tmp_path, env={}).agent().session.main_key == "main"


def test_a_byte_order_mark_comments_and_repeated_keys_are_read(own: Load) -> None:
    settings = own("\ufeff{session: {mainKey: 'a', mainKey: 'b',}, /* 日本 */}")
    assert settings.agent().session.main_key == "b"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{\n  session: {\n    mainKey: 'x'\n    scope: 'global'\n}}", "turngraph.json5:4:5"),
        ("{session: ", "turngraph.json5:1:"),
        ("", "turngraph.json5:1:1"),
    ],
)
def test_a_file_that_does_not_parse_names_line_and_column(own: Load, text: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        own(text)


def test_a_foreign_file_that_does_not_parse_is_an_error_too(tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_text('{"session": }')
    with pytest.raises(ConfigError, match=r"openclaw\.json:1:"):
        load_settings(tmp_path, env={})


@pytest.mark.parametrize("text", ["[]", "5", "null"])
def test_the_root_must_be_an_object(own: Load, text: str) -> None:
    with pytest.raises(ConfigError, match="object in braces"):
        own(text)


def test_bytes_that_are_no_utf8_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "turngraph.json5").write_bytes(b"{a: '\xff'}")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 5"):
        load_settings(tmp_path, env={})


def test_every_problem_of_our_own_file_is_reported_at_once(own: Load) -> None:
    found = problems(
        lambda: own("""{
            session: {reset: {atHour: 99, mode: 'dayly'}, resetStyle: 1},
            agents: {defaults: {compaction: {keepRecentToken: 5, mode: 'on'}, contextPruning: {ttl: '2w'}}},
            tools: {exec: {timeoutSec: 1.5}},
        }""")
    )
    assert found == (
        "session.resetStyle: unknown key; nearest known key: session.resetByType",
        "agents.defaults.compaction.keepRecentToken: unknown key; nearest known key: "
        "agents.defaults.compaction.keepRecentTokens",
        'session.reset.mode = "dayly": must be one of none, daily, idle',
        "session.reset.atHour = 99: must be a whole number from 0 to 23",
        "tools.exec.timeoutSec = 1.5: must be a whole number from 1 to 86400",
        'agents.defaults.contextPruning.ttl = "2w": must be a duration such as 90s or 1h30m '
        "(a bare number counts minutes)",
        'agents.defaults.compaction.mode = "on": must be one of default, safeguard, off',
    )


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("{sesion: {}}", "session"),
        ("{keepRecentTokens: 1}", "agents.defaults.compaction.keepRecentTokens"),
        ("{compaction: {}}", "agents.defaults.compaction"),
        ("{session: {dm_scope: 'main'}}", "session.dmScope"),
        ("{agents: {list: [{id: 'a', hartbeat: {}}]}}", "agents.list[0].heartbeat"),
        ("{channels: {telegram: {historyLimits: 1}}}", "channels.telegram.historyLimit"),
    ],
)
def test_an_unknown_key_is_told_its_nearest_known_one(own: Load, text: str, near: str) -> None:
    (line,) = problems(lambda: own(text))
    assert line.endswith(f"nearest known key: {near}")


@pytest.mark.parametrize("key", ["truncation", "state_dir", "snippetMode", "profile", "日本語"])
def test_what_older_drafts_named_is_unknown(own: Load, key: str) -> None:
    (line,) = problems(lambda: own(f"{{'{key}': 1}}"))
    assert "unknown key" in line


@pytest.mark.parametrize(
    "text",
    [
        "{session: 5}",
        "{session: {idleMinutes: 0}}",
        "{session: {idleMinutes: true}}",
        "{session: {idleMinutes: '5'}}",
        "{traces: {enabled: 'on'}}",
        "{traces: {retention: true}}",
        "{agents: {defaults: {userTimezone: 'Mars/Olympus'}}}",
        "{agents: {defaults: {contextPruning: {softTrimRatio: 1.01}}}}",
        "{agents: {defaults: {model: ''}}}",
        "{agents: {defaults: {memorySearch: {sources: 'memory'}}}}",
        "{agents: {defaults: {heartbeat: {anchor: '25:00'}}}}",
        "{agents: {defaults: {heartbeat: {activeHours: {start: '08:00', end: '24:01'}}}}}",
        "{agents: {defaults: {heartbeat: {activeHours: {start: '08:00'}}}}}",
        "{cron: {webhook: 'ftp://example.org'}}",
        "{models: {providers: {openai: {models: [{id: 'm', contextWindow: 7999}]}}}}",
        "{models: {providers: {openai: {models: [{}]}}}}",
        "{agents: {list: {}}}",
        "{agents: {list: [5]}}",
    ],
)
def test_a_bad_value_of_our_own_file_is_one_problem(own: Load, text: str) -> None:
    assert len(problems(lambda: own(text))) == 1


def test_multimodal_indexing_is_refused_with_its_reason(own: Load) -> None:
    (line,) = problems(lambda: own("{agents: {defaults: {memorySearch: {multimodal: {enabled: true}}}}}"))
    assert "not available yet" in line


def test_a_secret_is_never_shown(own: Load) -> None:
    lines = problems(lambda: own("{models: {providers: {openai: {apiKey: {source: 'file', id: 'sk-hidden'}}}}}"))
    assert "sk-hidden" not in "".join(lines)
    settings = own("{models: {providers: {openai: {apiKey: 'sk-hidden', headers: {x: 'sk-hidden'}}}}}")
    assert "sk-hidden" not in repr(settings)


def test_a_whole_number_may_be_written_with_a_point(own: Load) -> None:
    assert own("{session: {idleMinutes: 5.0}}").agent().session.idle_minutes == 5


def test_a_foreign_file_names_what_is_not_used_in_one_line(foreign: Load) -> None:
    settings = foreign({"gateway": {"port": 1}, "channels": {"telegram": {"botToken": "${TELEGRAM}", "x": 1}}, "ui": 1})
    assert settings.notes == (
        "openclaw.json: 4 keys are not used here (gateway, channels.telegram.botToken, channels.telegram.x, ...)",
    )


def test_a_bad_value_of_a_foreign_file_takes_the_default_with_one_warning(foreign: Load) -> None:
    settings = foreign(
        {
            "session": {"reset": {"atHour": 99}, "parentForkMaxTokens": -1, "maintenance": {"pruneAfter": "junk"}},
            "agents": {"defaults": {"compaction": {"keepRecentTokens": 1500.9}, "memorySearch": {"sources": ["x"]}}},
        }
    )
    agent = settings.agent()
    assert agent.session.reset is not None and agent.session.reset.at_hour is None
    assert agent.session.parent_fork_max_tokens == 100_000
    assert agent.session.maintenance.prune_after == timedelta(days=30)
    assert agent.compaction.keep_recent_tokens == 1500
    assert agent.memory_search.sources == ("memory",)
    assert settings.notes == (
        "openclaw.json: session.reset.atHour = 99: must be a whole number from 0 to 23; it is left out",
        "openclaw.json: session.parentForkMaxTokens = -1: must be a whole number, 0 or more; "
        "the default 100000 is taken",
        'openclaw.json: session.maintenance.pruneAfter = "junk": must be a duration such as 90s or 1h30m '
        '(a bare number counts days); the default "30d" is taken',
        'openclaw.json: agents.defaults.memorySearch.sources[0] = "x": must be one of memory, sessions; '
        'the default ["memory"] is taken',
    )


def test_null_in_the_maintenance_block_of_a_foreign_file_is_absence(foreign: Load) -> None:
    nulls = {"pruneAfter": None, "pruneDays": 5, "resetArchiveRetention": None}
    settings = foreign({"session": {"maintenance": nulls}})
    maintenance = settings.agent().session.maintenance
    assert (maintenance.prune_after, maintenance.reset_archive_retention) == (timedelta(days=5), timedelta(days=5))
    assert settings.notes == ()


def test_an_incomplete_block_of_a_foreign_file_is_left_out(foreign: Load) -> None:
    settings = foreign(
        {
            "agents": {"defaults": {"heartbeat": {"activeHours": {"start": "08:00"}}}, "list": [{}, {"id": "a"}]},
            "models": {"providers": {"openai": {"models": [{"contextWindow": 9}, {"id": "m"}]}}},
        }
    )
    assert settings.agent_ids == ("a",)
    assert settings.agent().heartbeat.active_hours is None
    assert [model.id for model in settings.agent().models.providers["openai"].models] == ["m"]


def test_values_that_contradict_each_other_are_refused_in_ours_and_moved_in_a_foreign_file(
    own: Load, foreign: Load, tmp_path: Path
) -> None:
    tree = {
        "agents": {"defaults": {"memorySearch": {"chunking": {"tokens": 100, "overlap": 200}}}},
        "tools": {"loopDetection": {"warningThreshold": 40, "criticalThreshold": 10}},
    }
    agent = foreign(tree).agent()
    assert agent.memory_search.chunking.overlap == 99
    assert agent.tools.loop_detection.critical_threshold == 41
    assert agent.tools.loop_detection.global_circuit_breaker_threshold == 42
    found = problems(lambda: own(json.dumps(tree)))
    assert [line.split(" = ")[0] for line in found] == [
        "agents.defaults.memorySearch.chunking.overlap",
        "tools.loopDetection.criticalThreshold",
    ]


def test_a_default_gives_way_to_what_is_set_beside_it(own: Load) -> None:
    agent = own("{agents: {defaults: {memorySearch: {chunking: {tokens: 50}}}}}").agent()
    assert agent.memory_search.chunking.overlap == 49
    assert own("{session: {maintenance: {maxDiskBytes: '1gb'}}}").agent().session.maintenance.high_water_bytes == int(
        0.8 * 1024**3
    )


def test_keys_without_effect_are_named_in_one_line(own: Load) -> None:
    settings = own("""{
        bindings: [], memory: {qmd: {limits: {}}},
        agents: {defaults: {memorySearch: {store: {fts: {}, vector: {extensionPath: 'x'}}}}, list: [
            {id: 'a', compaction: {truncateAfterCompaction: true}}]},
        plugins: {entries: {'memory-core': {config: {}}}},
    }""")
    (note,) = settings.notes
    assert note.startswith("turngraph.json5: 6 keys have no effect here (")
    for key in (
        "agents.defaults.memorySearch.store.fts",
        "agents.list[0].compaction.truncateAfterCompaction",
        "memory.qmd",
        "plugins.entries.memory-core.config",
        "bindings",
    ):
        assert key in note


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{models: {providers: {x: {models: [{id: 'm', contextWindow: 15999}]}}}}", "context window"),
        ("{memory: {backend: 'qmd'}}", "qmd"),
        ("{agents: {defaults: {memorySearch: {store: {path: 'x.sqlite'}}}}}", "memory/main.duckdb is used"),
        ("{channels: {telegram: {allowFrom: ['1', '2']}}}", "2 people"),
        ("{channels: {telegram: {allowFrom: ['*']}}}", "everybody"),
    ],
)
def test_what_is_allowed_but_surprising_gets_a_notice(own: Load, text: str, word: str) -> None:
    (note,) = own(text).notes
    assert word in note


def test_separated_direct_chats_need_no_notice(own: Load) -> None:
    assert own("{session: {dmScope: 'per-peer'}, channels: {telegram: {allowFrom: ['1', '2']}}}").notes == ()


def test_variables_are_put_into_texts(own: Load) -> None:
    settings = own(
        "{messages: {responsePrefix: '${WHO}: $${WHO} ${who}'}, session: {mainKey: '${WHO}'}}", env={"WHO": "é"}
    )
    assert settings.agent().messages.response_prefix == "é: ${WHO} ${who}"
    assert settings.agent().session.main_key == "é"


def test_a_missing_variable_names_the_key(own: Load, foreign: Load) -> None:
    assert problems(lambda: own("{channels: {a: {allowFrom: ['x', '${NOBODY}']}}}")) == (
        "channels.a.allowFrom[1]: the environment variable NOBODY is not set",
    )


def test_a_missing_variable_is_one_problem_whatever_the_key_allows(own: Load) -> None:
    text = "{agents: {defaults: {userTimezone: '${NOBODY}', model: '${NOBODY}:${NOWHERE}'}}}"
    assert problems(lambda: own(text)) == (
        "agents.defaults.userTimezone: the environment variable NOBODY is not set",
        "agents.defaults.model: the environment variables NOBODY and NOWHERE are not set",
    )


def test_a_missing_variable_of_an_unused_foreign_key_does_no_harm(foreign: Load) -> None:
    assert foreign({"gateway": {"token": "${NOBODY}"}}).agent() == default_settings()
    assert problems(lambda: foreign({"session": {"mainKey": "${NOBODY}"}})) == (
        "session.mainKey: the environment variable NOBODY is not set",
    )


def test_a_secret_may_name_a_variable(own: Load) -> None:
    text = "{models: {providers: {openai: {apiKey: {source: 'env', id: 'KEY'}}}}}"
    key = own(text, env={"KEY": "sk-1"}).agent().models.providers["openai"].api_key
    assert key is not None and key.get_secret_value() == "sk-1"
    assert "KEY is not set" in problems(lambda: own(text))[0]


def test_includes_are_merged_and_the_including_file_wins(own: Load, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.json5").write_text("{session: {mainKey: 'a', scope: 'global'}, $include: 'c.json5'}")
    (tmp_path / "parts" / "b.json5").write_text("{session: {mainKey: 'b'}}")
    (tmp_path / "parts" / "c.json5").write_text("{traces: {enabled: false}}")
    (tmp_path / "triggers.json5").write_text("['/again']")
    settings = own("""{
        $include: ['parts/a.json5', './parts/b.json5'],
        session: {idleMinutes: 9, resetTriggers: {$include: 'triggers.json5'}},
    }""")
    session = settings.agent().session
    assert (session.main_key, session.scope, session.idle_minutes) == ("b", "global", 9)
    assert session.reset_triggers == ("/again",)
    assert settings.agent().traces.enabled is False


@pytest.mark.parametrize("target", ["'../other.json5'", "'/etc/hosts'", "5", "'loop.json5'", "'absent.json5'"])
def test_an_include_outside_the_folder_in_a_circle_or_absent_is_an_error(
    own: Load, tmp_path: Path, target: str
) -> None:
    (tmp_path / "loop.json5").write_text("{$include: 'loop.json5'}")
    with pytest.raises(ConfigError):
        own(f"{{$include: {target}}}")


def test_flag_wins_over_environment_and_environment_over_file(own: Load) -> None:
    text = "{agents: {defaults: {compaction: {keepRecentTokens: 1}}}}"
    env = {"TURNGRAPH__AGENTS__DEFAULTS__COMPACTION__KEEP_RECENT_TOKENS": "2", "TURNGRAPH_HOME": "/x"}
    flag = ("agents.defaults.compaction.keepRecentTokens=3",)
    assert own(text).agent().compaction.keep_recent_tokens == 1
    assert own(text, env=env).agent().compaction.keep_recent_tokens == 2
    assert own(text, env=env, sets=flag).agent().compaction.keep_recent_tokens == 3


def test_a_short_path_wins_over_the_entry_of_every_agent(own: Load) -> None:
    text = "{agents: {list: [{id: 'a', compaction: {mode: 'off'}}, {id: 'b'}]}}"
    full = own(text, sets=("agents.defaults.compaction.mode=default",))
    assert [full.agent(name).compaction.mode for name in "ab"] == ["off", "default"]
    short = own(text, sets=("compaction.mode=default",))
    assert [short.agent(name).compaction.mode for name in "ab"] == ["default", "default"]


@pytest.mark.parametrize(
    ("flag", "read"),
    [
        ("session.mainKey=plain words", lambda agent: agent.session.main_key == "plain words"),
        ("session.resetTriggers=['/a', '/b']", lambda agent: agent.session.reset_triggers == ("/a", "/b")),
        ("contextPruning.ttl=1h", lambda agent: agent.context_pruning.ttl == timedelta(hours=1)),
        ("contextPruning.ttl=2", lambda agent: agent.context_pruning.ttl == timedelta(minutes=2)),
        ("contextTokens=null", lambda agent: agent.context_tokens is None),
        ("session.reset={mode: 'off'}", lambda agent: agent.session.reset.mode == "none"),
        ('agents.defaults.models["openai/gpt-4.1"].alias=quick', lambda a: a.model_named("QUICK") == "openai:gpt-4.1"),
    ],
)
def test_a_flag_takes_json5_or_text(own: Load, flag: str, read: Callable[[Any], bool]) -> None:
    assert read(own("{}", sets=(flag,)).agent())


def test_a_path_that_begins_with_a_root_key_is_a_full_path(own: Load) -> None:
    assert "unknown key" in problems(lambda: own("{}", sets=("models.fast.alias=f",)))[0]


def test_an_object_in_a_flag_takes_the_place_of_the_block(own: Load) -> None:
    reset = own("{session: {reset: {mode: 'daily', atHour: 5}}}", sets=("session.reset={mode: 'idle'}",)).agent()
    assert reset.session.reset is not None and reset.session.reset.at_hour is None


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        (
            "compactoin.mode=off",
            "--set compactoin.mode: agents.defaults.compactoin: unknown key; "
            "nearest known key: agents.defaults.compaction",
        ),
        (
            "compaction.mode=of",
            '--set compaction.mode: agents.defaults.compaction.mode = "of": must be one of default, safeguard, off',
        ),
    ],
)
def test_a_bad_flag_is_an_error_even_beside_a_foreign_file(foreign: Load, flag: str, line: str) -> None:
    assert problems(lambda: foreign({}, sets=(flag,))) == (line,)


@pytest.mark.parametrize("flag", ["compaction.mode", "=5", "a..b=1", ".a=1", "a[0=1"])
def test_a_flag_of_another_form_says_how_to_write_it(own: Load, flag: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        own("{}", sets=(flag,))


def test_a_variable_that_fits_nothing_is_an_error(own: Load) -> None:
    found = problems(lambda: own("{}", env={"TURNGRAPH__COMPACTION__MODE": "off", "TURNGRAPH__SESION": "1"}))
    assert found == (
        "TURNGRAPH__COMPACTION__MODE: fits no key; nearest known key: agents.defaults.compaction.mode "
        "(TURNGRAPH__AGENTS__DEFAULTS__COMPACTION__MODE)",
        "TURNGRAPH__SESION: sesion: fits no key; nearest known key: session",
    )


def test_a_list_element_cannot_be_addressed_by_a_variable(own: Load) -> None:
    assert problems(lambda: own("{agents: {list: [{id: 'a'}]}}", env={"TURNGRAPH__AGENTS__LIST__0__NAME": "x"}))


def test_a_variable_finds_free_names_without_case(own: Load) -> None:
    env = {"TURNGRAPH__CHANNELS__MYCHAT__HISTORY_LIMIT": "7", "TURNGRAPH__CHANNELS__OTHER__DMHISTORYLIMIT": "8"}
    channels = own("{channels: {myChat: {dmHistoryLimit: 1}}}", env=env).agent().channels
    assert (channels["myChat"].history_limit, channels["myChat"].dm_history_limit) == (7, 1)
    assert channels["other"].dm_history_limit == 8


def test_agents_merge_over_the_defaults_key_by_key(own: Load) -> None:
    settings = own("""{
        agents: {
            defaults: {workspace: 'w', compaction: {mode: 'default', reserveTokens: 1},
                       memorySearch: {extraPaths: ['a'], sources: ['memory', 'sessions']}},
            list: [{id: 'Main', name: 'Chief'}, {id: 'Research Team', default: true, compaction: {reserveTokens: 2},
                    memorySearch: {extraPaths: [{path: 'b', pattern: '*.md'}], sources: ['sessions']},
                    tools: {deny: ['exec']}, messages: {groupChat: {mentionPatterns: ['@r']}},
                    skills: {limits: {maxSkillsPromptChars: 0}}}],
        },
        tools: {allow: ['read'], deny: ['write']}, messages: {responsePrefix: 'x'},
    }""")
    main, team = settings.agent("main"), settings.agent("research team")
    assert settings.agent_ids == ("main", "research-team")
    assert settings.default_agent_id == team.root.default_agent_id == "research-team"
    assert (main.name, team.name, settings.agent().agent_id) == ("Chief", "Research Team", "research-team")
    assert (team.compaction.mode, team.compaction.reserve_tokens) == ("default", 2)
    assert (main.workspace, team.workspace) == (None, Path("w"))
    assert [str(extra.path) for extra in team.memory_search.extra_paths] == ["a", "b"]
    assert team.memory_search.sources == ("sessions",)
    assert (team.tools.allow, team.tools.deny, main.tools.deny) == (("read",), ("exec",), ("write",))
    assert (team.messages.response_prefix, team.messages.group_chat.mention_patterns) == ("x", ("@r",))
    assert team.skills.limits.max_skills_prompt_chars == 0


def test_only_agents_with_a_heartbeat_block_beat_when_one_has_it(own: Load) -> None:
    settings = own("{agents: {defaults: {heartbeat: {every: '1h'}}, list: [{id: 'a'}, {id: 'b', heartbeat: {}}]}}")
    assert [settings.agent(name).beats for name in "ab"] == [False, True]
    assert settings.agent("b").heartbeat.every == timedelta(hours=1)
    assert own("{agents: {list: [{id: 'a'}, {id: 'b'}]}}").agent("a").beats


def test_entries_are_the_other_spelling_of_the_list(own: Load) -> None:
    settings = own("{agents: {entries: {Ann: {timeoutSeconds: 5}, bob: {default: true}}}}")
    assert settings.agent_ids == ("ann", "bob") and settings.default_agent_id == "bob"
    addressed = own("{agents: {list: [{id: 'ann'}]}}", sets=("agents.entries.ann.timeoutSeconds=6",))
    assert addressed.agent("ann").timeout_seconds == 6


@pytest.mark.parametrize("ids", [("Ann", "ann"), ("研究", "main"), ("a b", "a-b")])
def test_two_agents_of_one_id_are_an_error(own: Load, foreign: Load, ids: tuple[str, str]) -> None:
    tree = {"agents": {"list": [{"id": name} for name in ids]}}
    assert "rename one" in problems(lambda: own(json.dumps(tree)))[0]


def test_a_check_across_keys_sees_defaults_and_entry_together(own: Load) -> None:
    fits = """{agents: {
        defaults: {memorySearch: {chunking: {tokens: 900}}},
        list: [{id: 'a', memorySearch: {chunking: {overlap: 600}}}],
    }}"""
    assert own(fits).agent("a").memory_search.chunking.overlap == 600
    breaks = fits.replace("900", "500")
    assert problems(lambda: own(breaks)) == (
        "agents.defaults.memorySearch.chunking.overlap = 600: must be below chunking.tokens (500) (agent a)",
    )


def test_an_agent_that_does_not_exist_is_not_found(own: Load) -> None:
    with pytest.raises(NotFound, match="there are: main"):
        own("{}").agent("nobody")


@pytest.mark.parametrize(
    ("text", "read", "wanted"),
    [
        ("{session: {reset: {mode: 'off'}}}", lambda a: a.session.reset.mode, "none"),
        ("{session: {resetByType: {dm: {mode: 'idle'}}}}", lambda a: a.session.reset_by_type.direct.mode, "idle"),
        ("{session: {resetTriggers: []}}", lambda a: a.session.reset_triggers, ("/new", "/reset")),
        ("{session: {maintenance: {pruneDays: 3}}}", lambda a: a.session.maintenance.prune_after, timedelta(days=3)),
        ("{messages: {queue: {mode: 'queue'}}}", lambda a: a.messages.queue.mode, "steer"),
        ("{traces: {storeText: true}}", lambda a: a.traces.store_text, "all"),
        ("{traces: {storeText: false, retention: false}}", lambda a: a.traces.retention, None),
        ("{models: {providers: {gemini: {}}}}", lambda a: tuple(a.models.providers), ("google_genai",)),
        ("{agents: {defaults: {model: 'google/g-1'}}}", lambda a: a.model.primary, "google_genai:g-1"),
        ("{agents: {defaults: {model: {fallbacks: ['mistral:m']}}}}", lambda a: a.model.fallbacks, ("mistralai:m",)),
        ("{agents: {defaults: {memorySearch: {provider: 'local'}}}}", lambda a: a.memory_search.provider, "auto"),
        ("{agents: {defaults: {heartbeat: {target: 'owner'}}}}", lambda a: a.heartbeat.target, "last"),
        ("{agents: {defaults: {heartbeat: {every: 0}}}}", lambda a: a.heartbeat.every, timedelta(0)),
        (
            "{agents: {defaults: {contextPruning: {pressureRatio: false}}}}",
            lambda a: a.context_pruning.pressure_ratio,
            None,
        ),
        ("{session: {maintenance: {maxDiskBytes: 0}}}", lambda a: a.session.maintenance.max_disk_bytes, None),
        ("{cron: {sessionRetention: 2}}", lambda a: a.cron.session_retention, timedelta(hours=2)),
    ],
)
def test_other_spellings_are_read(own: Load, text: str, read: Callable[[Any], object], wanted: object) -> None:
    assert read(own(text).agent()) == wanted


def test_a_path_below_the_users_folder_is_expanded(own: Load) -> None:
    settings = own("{agents: {defaults: {workspace: '~/w', repoRoot: 'r'}}}", env={"HOME": "/users/ann"})
    assert (settings.agent().workspace, settings.agent().repo_root) == (Path("/users/ann/w"), Path("r"))


def test_files_of_an_agent_take_its_id(own: Load) -> None:
    agent = own("{session: {store: 's/{agentId}.json'}, agents: {list: [{id: 'a'}]}}").agent()
    assert (agent.sessions_file, agent.index_file) == (Path("s/a.json"), Path("memory/a.duckdb"))


def test_the_digest_follows_the_settings_and_never_a_secret(own: Load) -> None:
    text = "{models: {providers: {openai: {apiKey: '%s', headers: {a: '%s'}}}}, commands: {ownerDisplaySecret: '%s'}}"
    first, second = (own(text % ((key,) * 3)).agent().digest for key in ("one", "two"))
    assert first == second
    assert own("{session: {mainKey: 'x'}}").agent().digest != default_settings().digest
    assert len(first) == 64
