"""Settings of scheduled work: cron jobs and the serve process.

Source: spec/settings.md sections 13 and 14.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    Strict,
)

from turngraph.config.fields import (
    Allowed,
    FilePath,
    HoursOrNever,
    Int,
    Milliseconds,
    Minutes,
    Natural,
    Positive,
    Secret,
    Section,
    Size,
    Texts,
)

RetryCause = Literal["rate_limit", "overloaded", "network", "timeout", "server_error"]


class CronRetry(Section):
    """Retries of one-shot jobs."""

    max_attempts: Int = Field(default=3, ge=0, le=10)
    backoff_ms: Annotated[tuple[Natural, ...], Strict(False)] = (30_000, 60_000, 300_000)
    retry_on: Annotated[tuple[RetryCause, ...], Strict(False)] = (
        "rate_limit",
        "overloaded",
        "network",
        "timeout",
        "server_error",
    )


class RunLog(Section):
    """Size of a job's log; it is pruned to both."""

    max_bytes: Size = 2_000_000
    keep_lines: Positive = 2_000


class FailureAlert(Section):
    """When failures of a job are announced."""

    enabled: bool = False
    after: Positive = 2
    cooldown_ms: Natural = 3_600_000
    mode: Literal["announce", "webhook"] = "announce"
    account_id: str | None = None


class FailureDestination(Section):
    """Where failures of a job are announced."""

    channel: str | None = None
    to: str | None = None
    account_id: str | None = None
    mode: str | None = None


def _http_address(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("not an http address")
    return value


class Cron(Section):
    """Scheduled jobs."""

    enabled: bool = True
    store: FilePath | None = None
    max_concurrent_runs: Positive = 1
    retry: CronRetry = Field(default_factory=CronRetry)
    session_retention: HoursOrNever = timedelta(hours=24)
    run_log: RunLog = Field(default_factory=RunLog)
    failure_alert: FailureAlert = Field(default_factory=FailureAlert)
    failure_destination: FailureDestination = Field(default_factory=FailureDestination)
    webhook: Annotated[str, AfterValidator(_http_address), Allowed("an http or https address")] | None = None
    webhook_token: Secret | None = None
    webhook_hosts: Texts = ()
    catch_up: Literal["one", "none"] = "one"
    max_late: Milliseconds | None = None
    skip_missed_jobs: bool = False


class Serve(Section):
    """The process that runs heartbeats, jobs and flows."""

    tick_ms: Int = Field(default=1_000, ge=200, le=5_000)
    heartbeats: bool = True
    reindex_every: Minutes = timedelta(hours=1)
    maintenance_every: Minutes = timedelta(hours=24)
    work_pool: str | None = None
