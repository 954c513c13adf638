"""A provider on loopback: it checks every request as the real one would, then answers from a script.

It runs in threads of the test process. What it refuses it answers with the provider's own form of error, and it
remembers every request and every refusal.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from turngraph.tokens import Counter, EstimateCounter

KEY = "test-key-1f0e9d8c7b6a5948"
Body = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call of an answer; ``raw`` stands for arguments that are not JSON."""

    name: str
    arguments: Body = field(default_factory=dict)
    id: str = ""
    raw: str | None = None
    signature: str = ""

    @property
    def text(self) -> str:
        return self.raw if self.raw is not None else json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Answer:
    """What the model says."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    signature: str = ""
    stop: str = ""
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True)
class Refuse:
    """An error instead of an answer."""

    status: int
    message: str = "try again later"
    kind: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Break:
    """An answer whose connection is lost; ``quietly`` ends it as if all were said."""

    answer: Answer
    after_events: int = 2
    quietly: bool = False


@dataclass(frozen=True)
class Wait:
    """An answer that takes its time."""

    seconds: float
    answer: Answer


Reply = Answer | Refuse | Break | Wait
Scripted = Reply | str | Callable[[Body], "Reply | str"]


@dataclass(frozen=True)
class Refusal:
    """What is wrong with a request, as the provider says it."""

    message: str
    status: int = 400
    kind: str = ""


class WireProtocol(Protocol):
    """One provider's HTTP interface."""

    name: str
    key_headers: tuple[str, ...]

    def knows(self, path: str) -> bool: ...
    def streams(self, path: str, body: Body) -> bool: ...
    def problem(self, path: str, body: Body) -> str | None: ...
    def texts(self, body: Body) -> Iterator[str]: ...
    def overflow(self, tokens: int, window: int, body: Body) -> Refusal | None: ...
    def error(self, status: int, message: str, kind: str) -> Body: ...
    def whole(self, answer: Answer, usage: tuple[int, int], number: int) -> Body: ...
    def events(self, answer: Answer, usage: tuple[int, int], number: int) -> Iterator[bytes]: ...


class ProtocolServer:
    """Serves one protocol until it is closed; use it as a context manager.

    Args:
        protocol: whose interface.
        window: context window in tokens; a longer prompt is refused with the provider's overflow error.
        replies: the script; ``then`` answers when it is empty.
    """

    def __init__(
        self,
        protocol: WireProtocol,
        *replies: Scripted,
        window: int = 200_000,
        then: Scripted = "All done.",
        counter: Counter | None = None,
    ) -> None:
        self.protocol = protocol
        self.window = window
        self.replies = list(replies)
        self.then = then
        self.counter = counter or EstimateCounter()
        self.requests: list[Body] = []
        self.refusals: list[Refusal] = []
        self.largest_prompt = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> ProtocolServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def check(self, path: str, key: str | None, body: Body) -> tuple[Refusal | None, int]:
        """Judge a request; return what is wrong with it and the size of its prompt."""
        tokens = sum(self.counter.text(text) + 4 for text in self.protocol.texts(body))
        refusal = None
        if key is not None and KEY not in key:
            refusal = Refusal(f"Incorrect API key provided: {key}", 401, "authentication_error")
        elif (problem := self.protocol.problem(path, body)) is not None:
            refusal = Refusal(problem)
        else:
            refusal = self.protocol.overflow(tokens, self.window, body)
        with self._lock:
            self.requests.append(body)
            self.largest_prompt = max(self.largest_prompt, tokens)
            if refusal is not None:
                self.refusals.append(refusal)
        return refusal, tokens

    def reply(self, body: Body) -> Reply:
        """Take the next reply of the script."""
        with self._lock:
            reply = self.replies.pop(0) if self.replies else self.then
        if callable(reply):
            reply = reply(body)
        return Answer(reply) if isinstance(reply, str) else reply


def _handler(server: ProtocolServer) -> type[BaseHTTPRequestHandler]:
    protocol = server.protocol

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return None

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
            if not protocol.knows(self.path):
                return self._send(404, protocol.error(404, f"no such address: {self.path}", ""))
            sent = [self.headers.get(name, "") for name in protocol.key_headers]
            key = " ".join(sent).strip() if sent else None
            refusal, tokens = server.check(self.path, key, body)
            if refusal is not None:
                error = protocol.error(refusal.status, refusal.message, refusal.kind)
                return self._send(refusal.status, error)
            try:
                self._answer(server.reply(body), tokens, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client gave up, as some tests want it
            return None

        def _answer(self, reply: Reply, tokens: int, body: Body) -> None:
            if isinstance(reply, Refuse):
                return self._send(reply.status, protocol.error(reply.status, reply.message, reply.kind), reply.headers)
            if isinstance(reply, Wait):
                time.sleep(reply.seconds)
                return self._answer(reply.answer, tokens, body)
            answer = reply.answer if isinstance(reply, Break) else reply
            said = answer.text + answer.thinking + "".join(call.text for call in answer.calls)
            usage, number = (tokens, server.counter.text(said)), len(server.requests)
            if not protocol.streams(self.path, body):
                return self._send(200, protocol.whole(answer, usage, number))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for index, event in enumerate(protocol.events(answer, usage, number)):
                if isinstance(reply, Break) and index == reply.after_events:
                    break
                self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
                self.wfile.flush()
            if isinstance(reply, Break) and not reply.quietly:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return None
            self.wfile.write(b"0\r\n\r\n")
            return None

        def _send(self, status: int, body: Body, headers: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return Handler


def pieces(text: str, size: int = 12) -> list[str]:
    """Cut a text into the pieces of a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def sse(data: Any, event: str | None = None) -> bytes:
    """Write one server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()
