"""Which Prefect server serve uses, and what it tells Prefect."""

from __future__ import annotations

from pathlib import Path

from flows.server import local_environment, prepare


def test_a_server_that_the_environment_names_is_used_and_none_is_started(tmp_path: Path) -> None:
    env = {"PREFECT_API_URL": "http://10.0.0.7:4200/api/"}
    server = prepare(tmp_path, env)
    assert (server.api_url, server.child) == ("http://10.0.0.7:4200/api", None)
    assert not (tmp_path / "prefect").exists()


def test_prefect_keeps_its_data_in_the_home_and_tells_nobody(tmp_path: Path) -> None:
    env = local_environment(tmp_path)
    assert env["PREFECT_HOME"] == str(tmp_path / "prefect")
    assert env["DO_NOT_TRACK"] == "1"
    assert env["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


def test_what_the_user_has_set_stays(tmp_path: Path) -> None:
    env = {"PREFECT_API_URL": "http://127.0.0.1:4200/api", "PREFECT_HOME": "/elsewhere"}
    prepare(tmp_path, env)
    assert env["PREFECT_HOME"] == "/elsewhere"


async def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_asked(tmp_path: Path) -> None:
    server = prepare(tmp_path, {"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert not await server.healthy(0.3)
