import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from turngraph.clock import from_ms
from turngraph.decisions import Decision, NodeRun, TurnTrace
from turngraph.errors import StoreError

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
from turngraph.viewer.otel import send_spans, spans, write_spans

TRACE = TurnTrace(
    "t1", "main", "agent:main:main", "s1", 3, from_ms(1000), from_ms(3000),
    {"model": "anthropic:claude-test", "reported_usage": {"input": 10, "cacheRead": 90, "output": 5}},
    (NodeRun(0, "prune", from_ms(1000), 2.0),
     NodeRun(1, "prompt:model", from_ms(1500), 900.0, error="ModelError: secret text")),
    ((0, Decision("prune", "trimmed", "3 tool results")),),
    (),
)  # fmt: skip


def test_a_turn_is_the_parent_of_its_nodes() -> None:
    turn, prune, model = spans([TRACE])
    assert turn.name == "invoke_agent main"
    assert prune.parent == turn.context == model.parent
    assert turn.attributes is not None
    assert turn.attributes["gen_ai.usage.cache_read.input_tokens"] == 90
    assert [event.name for event in prune.events] == ["turngraph.decision.trimmed"]
    assert model.name == "chat claude-test"
    assert model.status.description == "ModelError"


def test_two_exports_are_the_same_bytes(tmp_path: Path) -> None:
    assert write_spans([TRACE], tmp_path / "a.jsonl") == 3
    write_spans([TRACE], tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert first["attributes"]["gen_ai.operation.name"] == "invoke_agent"


def test_spans_go_to_an_otlp_address() -> None:
    got: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return None

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert send_spans([TRACE], f"http://127.0.0.1:{server.server_port}/v1/traces") == 3
        server.shutdown()
    assert b"invoke_agent" in got[0]


def test_an_address_that_refuses_is_said() -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(400)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return None

    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(StoreError, match="did not take"):
            send_spans([TRACE], f"http://127.0.0.1:{server.server_port}/v1/traces")
        server.shutdown()
