import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.viewer.replayed import HOSTILE, KEY, SCRIPTS, hostile_messages, long_messages, played
from turngraph.viewer.html import json_script, readable
from turngraph.viewer.sources import TurnSource
from turngraph.viewer.turn_data import SCHEMA, PageRules

NO_TEXT_BYTES = 300_000  # spec/seeing.md 3.10
ANY_BYTES = 5_000_000


class Page(HTMLParser):
    """Collects what could act: elements, their attributes, and the text of scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "script":
            self.scripts.append("")
            self._in_script = True

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> TurnSource:
    return played(tmp_path_factory.mktemp("hostile"), hostile_messages())


def data_of(html: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="turn-data">(.*?)</script>', html, re.S)
    assert found
    value: dict[str, object] = json.loads(found[1])
    return value


def test_a_hostile_transcript_adds_no_element_and_no_handler(hostile: TurnSource) -> None:
    for html in (hostile.report(KEY, None, PageRules()), hostile.report_of_all(KEY, PageRules())):
        page = Page(html)
        assert page.tags.count("script") == 2
        assert not set(page.tags) & {"img", "iframe", "object", "embed", "link", "base", "form"}
        assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
        addresses = [value or "" for _, name, value in page.attributes if name in ("href", "src", "action")]
        assert all(address.startswith("#") for address in addresses)
        assert "49{" not in html  # a template inside a transcript is text


def test_control_characters_are_named_and_every_script_stays_as_it_is(hostile: TurnSource) -> None:
    html = hostile.report_of_all(KEY, PageRules())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2069]", html)
    assert "␀␁␛[31mred␇␡ ⟨U+202E⟩dlrow olleh⟨U+2069⟩" in html
    assert SCRIPTS in html


def test_the_policy_allows_the_pages_own_script_only(hostile: TurnSource) -> None:
    html = hostile.report(KEY, None, PageRules())
    policy = next(
        value
        for tag, name, value in Page(html).attributes
        if tag == "meta" and name == "content" and value and "default-src" in value
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_every_number_is_in_the_data(hostile: TurnSource) -> None:
    html = hostile.report(KEY, 3, PageRules())
    data = data_of(html)
    assert data["schema"] == SCHEMA
    assert set(data) >= {"header", "path", "waterfall", "nodes", "prompt", "toolResults", "money", "strip"}
    header = data["header"]
    assert isinstance(header, dict)
    assert header["turn"] == 3
    assert f"{header['promptTokens']:,}" in html


def test_redacted_it_holds_digests_in_place_of_text(hostile: TurnSource) -> None:
    html = hostile.report(KEY, None, PageRules(redact=True))
    assert "onerror" not in html
    assert SCRIPTS[:8] not in html
    assert data_of(html)["redacted"] is True
    assert len(html.encode()) < NO_TEXT_BYTES


def test_a_redacted_page_of_a_long_prompt_says_nothing_of_what_was_sent_before(
    hostile: TurnSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = hostile.report(KEY, None, PageRules(redact=True))
    monkeypatch.setattr("turngraph.viewer.turn_data.LISTED_PARTS", 10)
    folded = hostile.report(KEY, None, PageRules(redact=True))
    assert "word for word as in the turn before" in folded
    assert folded.count('<li class="part') < whole.count('<li class="part')
    assert data_of(folded) == data_of(whole), "every number stays in the data"


def test_a_long_line_is_cut_with_its_rest_counted(hostile: TurnSource) -> None:
    html = hostile.report_of_all(KEY, PageRules())
    assert "more characters" in html
    assert len(html.encode()) < ANY_BYTES
    assert HOSTILE[-1][:400] in html


def test_the_oldest_turns_are_left_out_of_a_page_that_would_be_too_large(
    hostile: TurnSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = hostile.report_of_all(KEY, PageRules(text_chars=0))
    limit = len(whole.encode()) * 3 // 4
    monkeypatch.setattr("turngraph.viewer.report.LARGEST_BYTES", limit)
    html = hostile.report_of_all(KEY, PageRules())
    assert len(html.encode()) <= limit
    assert "earlier turns are left out" in html
    assert "earlier turns are left out" not in whole
    turns = [turn["header"]["turn"] for turn in data_of(html)["turns"]]  # type: ignore[attr-defined]
    assert turns == list(range(8 - len(turns), 8)), "the newest ones stay"


@pytest.mark.slow
def test_a_turn_of_400_messages_stays_small(tmp_path: Path) -> None:
    source = played(tmp_path, long_messages(400))
    html = source.report(KEY, None, PageRules())
    rows = data_of(html)["prompt"]
    assert isinstance(rows, dict)
    assert len(rows["segments"]) >= 399
    assert len(html.encode()) < ANY_BYTES
    assert len(source.report(KEY, None, PageRules(redact=True)).encode()) < NO_TEXT_BYTES


def test_the_first_difference_from_the_request_before_is_marked(hostile: TurnSource) -> None:
    html = hostile.report(KEY, 2, PageRules())
    assert html.count("the prompt cache breaks here") == 1
    assert html.index('class="part') < html.index("the prompt cache breaks here")


def test_what_acts_in_a_script_is_escaped() -> None:
    text = json_script({"a": "</script><!--\u2028\ud800"})
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!--\u2028\ud800"}
    assert readable("a\r\nb") == "a\nb"


def test_a_redacted_report_of_an_unknown_turn_says_so(hostile: TurnSource) -> None:
    from turngraph.errors import NotFound

    with pytest.raises(NotFound, match="no trace of turn 99"):
        hostile.report(KEY, 99, PageRules())
