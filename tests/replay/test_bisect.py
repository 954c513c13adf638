from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, user
from tests.recorded import recorded
from turngraph.config import load_settings
from turngraph.errors import NotFound
from turngraph.replay.bisect import bisect, fact_visible, read_flat
from turngraph.replay.whatif import as_sets


@given(st.integers(1, 40), st.data())
def test_the_one_setting_that_breaks_it_is_found_in_few_steps(count: int, data: st.DataObject) -> None:
    planted = data.draw(st.integers(0, count - 1))
    good = {f"k{number}": 0 for number in range(count)}
    bad = {f"k{number}": 1 for number in range(count)}
    found = bisect(good, bad, lambda flat: flat[f"k{planted}"] == 0)
    assert (found.path, found.good, found.bad) == (f"k{planted}", 0, 1)
    assert found.tried <= 2 + count.bit_length()


def test_it_says_when_there_is_nothing_to_find() -> None:
    with pytest.raises(NotFound, match="do not differ"):
        bisect({"a": 1}, {"a": 1}, lambda flat: True)
    with pytest.raises(NotFound, match="good settings either"):
        bisect({"a": 1}, {"a": 2}, lambda flat: False)
    with pytest.raises(NotFound, match="still visible"):
        bisect({"a": 1}, {"a": 2}, lambda flat: True)


def test_a_planted_setting_is_found_in_a_real_replay(tmp_path: Path) -> None:
    secret = "the mooring code is BERTH-77aa12"
    messages = [
        user("read the log"),
        assistant(call("c1", path="log"), stop="toolUse"),
        result("c1", "x" * 3000 + secret + "y" * 3000),
        assistant("read"),
        user("and now?"),
        assistant("fine"),
    ]
    session = recorded(tmp_path / "s.jsonl", messages)
    (tmp_path / "good.json5").write_text(
        "{compaction: {keepRecentTokens: 9000}, contextLimits: {toolResultMaxChars: 16000}}"
    )
    (tmp_path / "bad.json5").write_text(
        "{compaction: {keepRecentTokens: 2000}, contextLimits: {toolResultMaxChars: 1000}, maxModelCalls: 5}"
    )

    def holds(flat: Mapping[str, Any]) -> bool:
        settings = load_settings(tmp_path / "none", sets=as_sets(flat), env={}).agent()
        return fact_visible(session, settings, secret, 2, window_tokens=32_000)

    found = bisect(read_flat(tmp_path / "good.json5"), read_flat(tmp_path / "bad.json5"), holds)
    assert (found.path, found.good, found.bad) == ("contextLimits.toolResultMaxChars", 16000, 1000)
