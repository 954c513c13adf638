from __future__ import annotations

import pytest

from tests.builders import assistant, user
from turngraph.credentials import mask_credentials
from turngraph.extractive import conversation_language, extractive_facts, extractive_summary
from turngraph.identifiers import find_identifiers
from turngraph.summary_sections import REQUIRED_HEADINGS, has_required_sections


def section(summary: str, heading: str) -> str:
    return summary.split(f"{heading}\n", 1)[1].split("\n\n## ")[0]


HISTORY = [
    user("We decided to use DuckDB for the index. Never push to main without asking."),
    assistant("Understood. 5/17 files are migrated. Next I still need to migrate src/core/limits.py."),
    user("Ticket 3f2b8c1e-9d44-4a7e-8b61-0c5f7a92e6d1. Please also rename the table, but ask me first"),
    assistant("Which name should the table get?"),
]


def test_each_section_is_filled_from_the_messages() -> None:
    summary = extractive_summary(HISTORY)
    assert has_required_sections(summary)
    assert "We decided to use DuckDB for the index." in section(summary, "## Decisions")
    assert "Progress: 5/17 files are migrated." in section(summary, "## Open TODOs")
    assert "Never push to main" in section(summary, "## Constraints/Rules")
    asks = section(summary, "## Pending user asks")
    assert "Last request: Ticket 3f2b8c1e" in asks and "ask me first" in asks
    assert "Open question: Which name should the table get?" in asks
    assert "- 3f2b8c1e-9d44-4a7e-8b61-0c5f7a92e6d1" in section(summary, "## Exact identifiers")
    assert "- src/core/limits.py" in section(summary, "## Exact identifiers")


def test_progress_is_told_in_its_newest_state_only() -> None:
    told = ["Batch 1: 3/5 done.", "Batch 2: 1/5 done.", "Batch 1: 4/5 done."]
    summary = extractive_summary([assistant(text) for text in told])
    assert section(summary, "## Open TODOs") == "- Progress: Batch 2: 1/5 done.\n- Progress: Batch 1: 4/5 done."


def test_a_question_is_no_task() -> None:
    summary = extractive_summary([user("Any mail I need to answer before noon?"), assistant("None.")])
    assert section(summary, "## Open TODOs") == "None."
    assert "Open question: Any mail I need to answer before noon?" in summary


def test_identifiers_stand_as_they_were_written() -> None:
    assert find_identifiers("commit 9f8e7d6c5b4a, again 9F8E7D6C5B4A") == ["9f8e7d6c5b4a"]


def test_a_patch_names_its_file_once() -> None:
    patch = "diff --git a/src/sync.py b/src/sync.py\n--- a/src/sync.py\n+++ b/src/sync.py\n@@ -1 +1 @@\n-a\n+b"
    assert find_identifiers(patch) == ["src/sync.py"]


def test_the_same_messages_give_the_same_summary() -> None:
    assert extractive_summary(HISTORY) == extractive_summary(list(HISTORY))


def test_an_earlier_summary_is_carried_on_without_its_last_request() -> None:
    again = extractive_summary([user("Now the docs.")], extractive_summary(HISTORY))
    assert "We decided to use DuckDB" in again
    assert again.count("Last request:") == 1 and "Last request: Now the docs." in again


def test_a_chinese_conversation_gets_chinese_labels() -> None:
    summary = extractive_summary([user("我们决定采用 DuckDB。必须先问我再删除文件。还需要迁移登录页吗？")])
    assert "- 我们决定采用 DuckDB。" in summary
    assert "最后的请求" in summary and "未答的问题: 还需要迁移登录页吗？" not in summary.split("## Decisions")[0]
    assert "Last request" not in summary


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("hello there", "en"),
        ("请修复登录错误", "zh"),
        ("ログインを直してください", "ja"),
        ("로그인을 고쳐 주세요", "ko"),
    ],
)
def test_the_language_is_that_of_what_the_user_wrote(text: str, language: str) -> None:
    assert conversation_language([user(text), assistant("An English answer of some length.")]) == language


def test_empty_history_says_that_there_is_nothing() -> None:
    summary = extractive_summary([])
    assert [summary.count(heading) for heading in REQUIRED_HEADINGS] == [1] * 5
    assert summary.count("None.") == 4 and "None captured." in summary


def test_facts_are_statements_and_no_questions() -> None:
    facts = extractive_facts(
        [
            user("My birthday is 1 March. What time is it?"),
            assistant("It is noon."),
            user("Remember that I prefer tea."),
        ]
    )
    assert facts == "- My birthday is 1 March.\n- Remember that I prefer tea."


def test_what_is_quoted_is_no_fact() -> None:
    answer = assistant("My notes say:\n\n> - We decided to move the launch to Friday, May 3.\nSource: memory/a.md#L1")
    assert extractive_facts([user("When is the launch?"), answer]) == ""


def test_no_credential_reaches_a_summary_or_a_fact() -> None:
    secret = "sk-abcdefghijklmnopqrstuvwx"
    messages = [user(f"Remember: we decided the token is API_TOKEN={secret}, host db.example.org:5432")]
    for text in (extractive_summary(messages), extractive_facts(messages)):
        assert secret not in text and "abcdefghijklmnopqrstuvwx" not in text


def test_a_url_ends_before_chinese_text() -> None:
    assert find_identifiers("见 https://example.org/t/88。然后重启") == ["https://example.org/t/88"]


def test_decimals_are_no_identifiers_and_uuids_stay_whole() -> None:
    assert find_identifiers("3.14159265 and 3f2b8c1e-9d44-4a7e-8b61-0c5f7a92e6d1") == [
        "3f2b8c1e-9d44-4a7e-8b61-0c5f7a92e6d1"
    ]


@pytest.mark.parametrize(
    "text",
    [
        'API_KEY = "abcdefghijklmnopqrstuvwxyz"',
        '{"password": "correct horse battery staple"}',
        "curl -H 'Authorization: Bearer abcdefghijklmnopqrstuvwxyz'",
        "ghp_abcdefghijklmnopqrstuvwxyz0123",
        "bot123456789:ABCdefGHIjklMNOpqrSTUvwxYZ",
        "-----BEGIN RSA PRIVATE KEY-----\nabcdefghijkl\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_credentials_are_masked(text: str) -> None:
    masked = mask_credentials(text)
    assert masked != text
    assert "ghijkl" not in masked and "battery" not in masked


def test_text_without_credentials_is_the_same_object() -> None:
    text = "token counts are 12"
    assert mask_credentials(text) is text
