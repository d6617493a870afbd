"""A server that speaks chat completions over a real socket and answers from a table; and a dataset of four rows."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CITIES = (("riga", "Latvia"), ("oslo", "Norway"), ("bern", "Switzerland"), ("graz", "Austria"))
KEY = "sk-very-secret-0123456789"


@dataclass(frozen=True)
class Answer:
    """One HTTP response. after_s: how long it lets wait."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0


def says(content: str | None, *, finish: str = "stop", refusal: str | None = None, model: str = "judge-1") -> Answer:
    """A chat completion."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {"prompt_tokens": 100, "completion_tokens": 7}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return Answer(body={"object": "chat.completion", "model": model, "choices": [choice], "usage": usage})


def verdict(label: str | int, reason: str = "so it is") -> Answer:
    return says(json.dumps({"reason": reason, "verdict": label}))


def correct_if_right(body: dict[str, Any], number: int) -> Answer:
    """CORRECT where the answer to grade holds the reference answer."""
    text = body["messages"][-1]["content"]
    reference = text.partition("whatever words):\n\n")[2].partition("\n")[0]
    return verdict("CORRECT" if reference in text.partition("<answer-")[2].partition("tags")[0] else "INCORRECT")


@dataclass
class Server:
    """What it was sent, and how it answers: rule(body of the call, how often this message came before) -> Answer."""

    rule: Callable[[dict[str, Any], int], Answer] = correct_if_right
    models: tuple[str, ...] = ("judge-1",)
    key: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any] | None) -> Answer:
        if self.key is not None and headers.get("Authorization") != f"Bearer {self.key}":
            return Answer(status=401, body={"error": f"wrong key: {headers.get('Authorization')}"})
        if body is None:
            return Answer(body={"object": "list", "data": [{"id": name} for name in self.models]})
        with self._lock:
            message = body["messages"][-1]["content"]
            number = sum(call["messages"][-1]["content"] == message for call in self.calls)
            self.calls.append(body)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            found = self.rule(body, number)
            time.sleep(found.after_s)
            return found
        finally:
            with self._lock:
                self.at_once -= 1


@contextmanager
def serving(**changes: Any) -> Iterator[Server]:
    """The server, on a free port, until the block ends."""
    server = Server(**changes)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(server.answer(self.path, self.headers, None))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v1/chat/completions"
            self._send(server.answer(self.path, self.headers, body))

        def _send(self, answer: Answer) -> None:
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # whoever asked has gone

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def lines(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def dataset(folder: Path, url: str, *, endpoint: str = "", options: str = "") -> Path:
    """The dataset, with a judge at this address. endpoint, options: more keys, as YAML's inside of a mapping."""
    lines(folder / "cities.jsonl", ({"id": city, "city": city, "land": land} for city, land in CITIES))
    path = folder / "cities.yaml"
    path.write_text(
        "source: {kind: jsonl, path: cities.jsonl}\nid_field: id\n"
        'prompt: {messages: [{role: user, content: "In which country lies {{ city }}?"}]}\n'
        'target: "{{ land }}"\nmetrics:\n  - use: judge\n'
        f"    options: {{endpoint: {{url: '{url}', model: judge-1{endpoint}}}{options}}}\n",
        encoding="utf-8",
    )
    return path


def outputs(folder: Path, **answers: str) -> Path:
    """A file of answers."""
    return lines(folder / "answers.jsonl", ({"id": city, "output": text} for city, text in answers.items()))
