"""A node card shows what became of the text of an entry: cut, cleared, or not sent any more."""

from __future__ import annotations

from pathlib import Path

from tests.builders import assistant, call, result, user
from tests.viewer.replayed import KEY, played
from turngraph.viewer.turn_data import PageRules

LINES = "\n".join(f"limit_{number} = {number} # 上限 👩‍👩‍👧" for number in range(4_000))


def page_of(folder: Path, rules: PageRules) -> str:
    messages = [
        user("read it all"),
        assistant(call("c0", path="src/limits.py"), stop="toolUse"),
        result("c0", LINES),
        assistant("read"),
        *[message for number in range(12) for message in (user(f"go on {number}"), assistant("Noted. " * 800))],
    ]
    return played(folder, messages, window=16_000).report(KEY, 6, rules)


def test_a_cut_result_shows_what_was_taken_and_what_stands_there(tmp_path: Path) -> None:
    html = page_of(tmp_path, PageRules())
    diff = html.split('<pre class="diff"', 1)[1].split("</pre>", 1)[0]
    assert 'class="cut"><b>−</b>limit_' in diff
    assert "more lines" in diff
    assert len(diff) < 12_000


def test_a_redacted_report_shows_no_difference_of_texts(tmp_path: Path) -> None:
    html = page_of(tmp_path, PageRules(redact=True))
    assert 'class="diff"' not in html
    assert "limit_17" not in html
