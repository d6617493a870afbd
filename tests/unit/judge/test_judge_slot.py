"""A judge on an engine of its own waits for its turn: it asks for the slot before the engine starts."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tasks.predictions.offline import Asked, score_file
from tests.stores import with_model

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path, model_dir: Path) -> Path:
    with_model(tmp_path / "home", model_dir)
    return tmp_path / "home"


class Occupied(Exception):
    """The slot is not to be had."""


@contextlib.contextmanager
def occupied() -> Iterator[None]:
    raise Occupied
    yield


def asked(folder: Path, *, answer: str) -> Asked:
    (folder / "rows.jsonl").write_text(json.dumps({"id": "riga", "land": "Latvia"}) + "\n")
    (folder / "cities.yaml").write_text(
        "source: {kind: jsonl, path: rows.jsonl}\nid_field: id\n"
        'prompt: {text: "Where lies {{ id }}?"}\ntarget: "{{ land }}"\n'
        "metrics: [{use: judge, options: {model: smollm2-135m-instruct}}]\n"
    )
    (folder / "answers.jsonl").write_text(json.dumps({"id": "riga", "output": answer}) + "\n")
    return Asked(dataset=str(folder / "cities.yaml"), predictions=folder / "answers.jsonl")


def test_no_engine_starts_before_the_slot_is_there(home: Path, tmp_path: Path) -> None:
    with pytest.raises(Occupied):
        score_file(asked(tmp_path, answer="Latvia"), home=home, slot=occupied)
    assert not (home / "judge-engine.log").exists()


def test_the_slot_is_not_asked_for_where_no_engine_is_needed(home: Path, tmp_path: Path) -> None:
    done = score_file(asked(tmp_path, answer="Latvia " * 10_000), home=home, slot=occupied)
    [row] = done.judgements
    assert row["status"] == "error" and "tokens" in row["error"]


class Limits(BaseHTTPRequestHandler):
    """Of Prefect's API what a limit needs: read or made, occupied by a lease, given back. log: of the server."""

    def do_GET(self) -> None:
        healthy = self.path.endswith("/health")
        self.answer(200 if healthy else 404, {"detail": "neither a CSRF token nor the limit"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        log: list[tuple[str, Any]] = self.server.log  # type: ignore[attr-defined]
        if self.path.endswith("/increment-with-lease"):
            log.append(("held", body["names"]))
            limit = {"id": str(uuid4()), "name": body["names"][0], "limit": 1}
            self.answer(200, {"lease_id": str(uuid4()), "limits": [limit]})
        elif self.path.endswith("/decrement-with-lease"):
            log.append(("given back", None))
            self.answer(204, None)
        elif self.path.endswith("/v2/concurrency_limits/"):
            log.append(("made", body["name"]))
            self.answer(201, {"id": str(uuid4())})
        else:
            self.answer(200, {})

    def answer(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Nothing on stderr."""


def held_slot(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Another process, outside of any flow, that holds the slot for a moment."""
    code = "from flows.commands.judge_slot import judge_slot\nwith judge_slot():\n    print('in it')"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "ASSAY_"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "ASSAY_HOME": str(home), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_slot_of_a_named_server_is_held_and_given_back(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Limits)
    server.log = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/api"
        done = held_slot(tmp_path, ASSAY_PREFECT_API_URL=url, CUDA_VISIBLE_DEVICES="3")
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stderr
    assert done.stdout == "in it\n"
    [made, held, back] = server.log  # type: ignore[attr-defined]
    assert made[0] == "made" and made[1].startswith("gpu-") and made[1].endswith("-3")
    assert held == ("held", [made[1]]) and back == ("given back", None)


def test_without_a_server_nothing_is_waited_for(tmp_path: Path) -> None:
    done = held_slot(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "in it\n", "")
