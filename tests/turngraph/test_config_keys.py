"""The keys that exist, durations and sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.config import (
    LiveSettings,
    default_settings,
    known_keys,
    knows_key,
    parse_byte_size,
    parse_duration_ms,
)
from turngraph.config.keys import edit_distance
from turngraph.config.reference import blocks
from turngraph.config.tree import merged, parse_path, path_text, with_value, without
from turngraph.errors import ConfigError


def test_known_keys_hold_every_place_of_a_key() -> None:
    keys = set(known_keys())
    assert {
        "agents.defaults.compaction.keepRecentTokens",
        "agents.defaults.models.<name>.alias",
        "agents.list[].id",
        "channels.<name>.accounts.<name>.dms.<name>.historyLimit",
        "models.providers.<name>.models[].cost.cacheWrite1h",
        "hooks.internal.entries.session-memory.llmSlug",
        "session.resetByType.thread.mode",
        "agents.defaults.memorySearch.query.hybrid.mmr.lambda",
    } <= keys
    assert "agents.list[].compaction.mode" not in keys


@pytest.mark.parametrize(
    "path",
    [
        "compaction.keepRecentTokens",
        "agents.defaults.compaction.keepRecentTokens",
        "agents.list[].id",
        "agents.list[].compaction.mode",
        "channels.telegram.historyLimit",
        "session",
        "plugins.entries.mine.config.anything.below",
    ],
)
def test_a_key_that_exists_is_known(path: str) -> None:
    assert knows_key(path)


@pytest.mark.parametrize("path", ["compaction.keep", "session.resetStyle", "", "a b", "agents.main.model"])
def test_a_key_that_does_not_exist_is_not_known(path: str) -> None:
    assert not knows_key(path)


def test_every_setting_of_the_original_has_its_documented_default() -> None:
    settings = default_settings()
    assert settings.model.primary == "offline"
    assert settings.session.maintenance.mode == "warn"
    assert settings.session.reset is None
    assert settings.bootstrap_total_max_chars == 150_000
    assert (settings.compaction.keep_recent_tokens, settings.compaction.reserve_tokens_floor) == (20_000, 20_000)
    assert settings.memory_search.query.hybrid.text_weight == 0.7
    assert settings.context_limits.stored_tool_result_max_chars == 64_000
    assert "MEMORY.md" not in settings.bootstrap_sets.group
    assert settings.tools.exec.timeout_sec == 120


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        default_settings().compaction.mode = "off"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("raw", "ms"),
    [("90s", 90_000), ("1h30m", 5_400_000), ("1.5D", 129_600_000), (" 250ms ", 250), (2, 172_800_000), ("0.0004s", 0)],
)
def test_durations_are_read(raw: str | float, ms: int) -> None:
    assert parse_duration_ms(raw, "d") == ms


@pytest.mark.parametrize("raw", ["", "abc", "-5d", "1e3", "1h 30m", "1h30", "٣d", ".5d", "1.d", "5d-", "NaN"])
def test_what_is_no_duration_raises(raw: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_ms(raw)


@pytest.mark.parametrize(("raw", "size"), [("10mb", 10_485_760), ("1.5k", 1536), (512, 512), ("800MB", 838_860_800)])
def test_sizes_are_read(raw: str | float, size: int) -> None:
    assert parse_byte_size(raw) == size


@pytest.mark.parametrize("raw", ["", "-1", "1 mb", "1e6", "mb", "1mib"])
def test_what_is_no_size_raises(raw: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_byte_size(raw)


@given(st.lists(st.text(min_size=1).filter(lambda key: '"' not in key and "]" not in key), min_size=1, max_size=4))
def test_a_written_path_reads_back(path: list[str]) -> None:
    assert parse_path(path_text(path)) == tuple(path)


plain = st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3))
trees = st.dictionaries(st.sampled_from("abc"), plain, max_size=3)


@given(trees, trees)
def test_merging_twice_changes_nothing_more_and_nothing_merged_is_nothing(low: object, high: object) -> None:
    once = merged(low, high)
    assert merged(once, high) == once
    assert merged(low, {}) == merged({}, low) == merged(low, low) == low


@given(trees)
def test_what_is_put_in_can_be_taken_out(tree: object) -> None:
    assert without(with_value(tree, ("new", "x"), 1), ("new",)) == tree


@given(st.text(max_size=8), st.text(max_size=8))
def test_edit_distance_is_a_distance(left: str, right: str) -> None:
    assert edit_distance(left, right) == edit_distance(right, left)
    assert (edit_distance(left, right) == 0) == (left == right)


def test_a_changed_file_is_read_again_and_a_broken_one_keeps_the_old_settings(tmp_path: Path) -> None:
    file = tmp_path / "turngraph.json5"
    file.write_text("{$include: 'part.json5'}")
    (tmp_path / "part.json5").write_text("{session: {mainKey: 'a'}}")
    live = LiveSettings(tmp_path, env={})
    taken = live.current
    assert not live.refresh()

    (tmp_path / "part.json5").write_text("{session: {mainKey: 'b'}}")
    assert live.refresh()
    assert (taken.agent().session.main_key, live.current.agent().session.main_key) == ("a", "b")

    file.write_text("{sesion: {}}")
    assert live.refresh()
    assert not live.refresh()
    assert isinstance(live.error, ConfigError)
    assert live.current.agent().session.main_key == "b"

    file.write_text("{}")
    assert live.refresh()
    assert live.error is None
    assert live.current.agent() == default_settings()


def test_settings_that_cannot_be_used_at_the_start_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "turngraph.json5").write_text("{sesion: {}}")
    with pytest.raises(ConfigError):
        LiveSettings(tmp_path, env={})


def test_the_reference_lists_every_key_with_what_it_allows() -> None:
    rows = {row.key: row for block in blocks() for row in block.rows}
    assert rows["session.maintenance.pruneAfter"].default == '"30d"'
    assert rows["agents.defaults.model.fallbacks"].allowed == (
        "a list, each element a model such as openai:gpt-5-mini, or an alias"
    )
    old_spellings = ("session.maintenance.pruneDays", "session.resetByType.dm")
    entries = ("agents.list", "agents.entries")
    for key in known_keys():
        if not key.startswith((*old_spellings, *entries)):
            assert key in rows or any(row.startswith((f"{key}.", f"{key}[]")) for row in rows), key
