"""Deliver the result of a job or an alert: to a session, a file, a command or a webhook.

Source: spec/scheduling.md B6 and C2.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.error import URLError
from urllib.parse import urlsplit

import orjson

from stores.sessions import write_whole
from stores.transcripts import Transcript
from turngraph.clock import to_ms
from turngraph.errors import TurngraphError
from turngraph.messages import Message, text_block
from turngraph.session_keys import store_key

if TYPE_CHECKING:
    from turngraph.api import Agent

WEBHOOK_TIMEOUT_S = 10
MIRROR = {"provider": "openclaw", "model": "delivery-mirror", "api": "openclaw"}  # spec/sessions.md 4.3
_NO_USAGE = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0)

DeliveryStatus = Literal["delivered", "not-delivered", "unknown", "not-requested"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of a delivery; ``error`` says why nothing arrived."""

    status: DeliveryStatus
    error: str | None = None


NOT_REQUESTED = Delivered("not-requested")


class DeliveryFailed(TurngraphError):
    """A result that could not be delivered."""


async def deliver(
    text: str, sink: Mapping[str, Any], agent: Agent, *, event: Mapping[str, Any], heading: str
) -> Delivered:
    """Deliver ``text`` to a sink; trouble is reported, not raised.

    Args:
        text: what to deliver.
        sink: ``{"kind": "session" | "file" | "command" | "webhook", ...}`` with the keys of spec/scheduling.md C2.
        agent: whose workspace, sessions and settings count.
        event: the finished event, which a webhook gets.
        heading: what a file puts above an appended text.
    """
    try:
        kind = sink.get("kind")
        if kind == "session":
            await append_to_session(agent, str(sink["sessionKey"]), (mirror(text, agent),))
        elif kind == "file":
            await asyncio.to_thread(_to_file, text, sink, agent, heading)
        elif kind == "command":
            await _to_command(text, sink, agent)
        elif kind == "webhook":
            await asyncio.to_thread(_post, sink, event, agent)
        else:
            raise DeliveryFailed(f"there is no sink {kind!r}")
    except (TurngraphError, OSError, KeyError, ValueError) as error:
        return Delivered("not-delivered", f"{type(error).__name__}: {error}")
    return Delivered("delivered")


def mirror(text: str, agent: Agent) -> Message:
    """Return a text as the assistant message of something that was sent outside a turn."""
    at_ms = to_ms(agent.clock.now())
    usage = {**_NO_USAGE, "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)}
    return Message(
        {
            "role": "assistant",
            "content": [text_block(text)],
            **MIRROR,
            "usage": usage,
            "stopReason": "stop",
            "timestamp": at_ms,
        }
    )


async def append_to_session(agent: Agent, key: str, messages: Sequence[Message]) -> None:
    """Append messages to the transcript of a session, between two turns; a session that is not there is made.

    Raises:
        SessionBusy: its turn runs for longer than ``session.busyTimeoutMs``.
    """
    settings = agent.settings
    wanted = store_key(agent.id, key, settings.session.main_key)
    store = agent.sessions()
    async with store.turn(wanted, timeout_ms=settings.session.busy_timeout_ms, purpose="delivery"):
        await asyncio.to_thread(_append, agent, wanted, messages)


def _append(agent: Agent, key: str, messages: Sequence[Message]) -> None:
    store = agent.sessions()
    entry = store.get(key)
    if not entry.get("sessionId"):
        entry = store.update(key, {"sessionId": agent.ids.uuid(), "sessionStartedAt": to_ms(agent.clock.now())})
    transcript = Transcript.open(
        store.transcript_of(entry),
        session_id=str(entry["sessionId"]),
        clock=agent.clock,
        ids=agent.ids,
        cwd=str(agent.home.workspace(agent.id, agent.settings)),
        session_key=key,
    )
    try:
        for message in messages:
            transcript.append_message(message, durable=True)
    finally:
        transcript.close()


def _to_file(text: str, sink: Mapping[str, Any], agent: Agent, heading: str) -> None:
    workspace = agent.home.workspace(agent.id, agent.settings)
    path = Path(os.path.realpath(workspace / str(sink["path"])))
    roots = (Path(os.path.realpath(workspace)), Path(os.path.realpath(agent.home.root)))
    if not any(path.is_relative_to(root) and path != root for root in roots):
        raise DeliveryFailed(f"{sink['path']} lies outside the workspace and the home")
    path.parent.mkdir(parents=True, exist_ok=True)
    if sink.get("mode") == "replace":
        write_whole(path, f"{text}\n".encode())
        return
    now = agent.clock.now().astimezone(agent.settings.zone)
    block = f"## {heading}, {now:%Y-%m-%d %H:%M %Z}\n\n{text}\n\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(block)
        file.flush()
        os.fsync(file.fileno())


async def _to_command(text: str, sink: Mapping[str, Any], agent: Agent) -> None:
    from turngraph.tools.exec import child_environment

    argv = [str(part) for part in sink["argv"]]
    timeout_s = float(sink.get("timeoutSec") or 30)
    workspace = agent.home.workspace(agent.id, agent.settings)
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=workspace if workspace.is_dir() else agent.home.root,
        env=child_environment(None, {}, agent.home.media_dir(agent.id)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await asyncio.wait_for(process.communicate(text.encode()), timeout_s)
    except TimeoutError as error:
        raise DeliveryFailed(f"{argv[0]} did not end within {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()
    if process.returncode:
        raise DeliveryFailed(f"{argv[0]} ended with {process.returncode}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def _post(sink: Mapping[str, Any], event: Mapping[str, Any], agent: Agent) -> None:
    cron = agent.settings.cron
    url = str(sink["url"])
    check_address(url, cron.webhook_hosts)
    headers = {"Content-Type": "application/json"}
    variable = sink.get("tokenEnv")
    token = os.environ.get(str(variable)) if variable else cron.webhook_token
    if variable and not token:
        raise DeliveryFailed(f"the variable {variable} with the bearer token is not set")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, orjson.dumps(event), headers, method="POST")
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=WEBHOOK_TIMEOUT_S):
            pass
    except URLError as error:
        raise DeliveryFailed(f"{urlsplit(url).hostname} did not take the event: {error.reason}") from error


def check_address(url: str, hosts: Collection[str]) -> None:
    """Refuse a webhook address that the settings do not allow.

    Raises:
        DeliveryFailed: no http address, or a host outside loopback that ``cron.webhookHosts`` does not name.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise DeliveryFailed("the webhook needs an http or https address")
    if host == "localhost" or host in hosts:
        return
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    raise DeliveryFailed(f"{host} is not on this machine; name it in cron.webhookHosts to allow it")
