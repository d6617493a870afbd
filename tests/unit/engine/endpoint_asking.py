"""The endpoint's process in front of a scripted server: built, asked, its answers by name."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripted_server import MODEL, Answer, ScriptedServer, serving

from tasks.engine.client import EngineClient
from tasks.engine.protocol import Built, WireGrammar, WireRequest, WireResult, WireSampling
from tasks.engine.settings import ProcessSettings

QUICK: dict[str, Any] = {"retries": {"first_wait_s": 0.05, "longest_wait_s": 3.0}}
ANSWER_S = 20.0


@contextmanager
def endpoint(
    folder: Path,
    answer: Answer,
    *,
    variables: Mapping[str, str] | None = None,
    at: str = "",
    model: str = MODEL,
    **options: Any,
) -> Iterator[tuple[EngineClient, ScriptedServer, Built]]:
    """A process that is built. at: what follows the server's address in `url`."""
    with serving(answer) as server, client_of(folder, variables=variables) as client:
        yield client, server, client.build(model=model, options={"url": server.url + at, **QUICK, **options})


@contextmanager
def client_of(folder: Path, *, variables: Mapping[str, str] | None = None) -> Iterator[EngineClient]:
    settings = ProcessSettings(cores=(), program="endpoint", variables=tuple((variables or {}).items()))
    with EngineClient(log_path=folder / "endpoint.log", settings=settings) as client:
        yield client


def request(name: str, *, grammar: WireGrammar | None = None, start: int | None = None, **sampling: Any) -> WireRequest:
    text = f"asked by a test {name}"
    return WireRequest(
        request_id=name,
        prompt_token_ids=[1, 2, 3, 4],
        text=text,
        messages=[{"role": "user", "content": text}],
        sampling=WireSampling(**{"temperature": 0.0, "max_tokens": 77, **sampling}),
        grammar=grammar,
        continuation_start=start,
    )


def answers(client: EngineClient, *requests: WireRequest, within_s: float = ANSWER_S) -> dict[str, WireResult]:
    """The results by their requests' ids."""
    client.submit(list(requests))
    return collect(client, len(requests), within_s=within_s)


def collect(client: EngineClient, number: int, *, within_s: float = ANSWER_S) -> dict[str, WireResult]:
    """So many results of what was submitted."""
    found: dict[str, WireResult] = {}
    end = time.monotonic() + within_s
    while len(found) < number:
        assert time.monotonic() < end, f"{len(found)} of {number} answers came in {within_s:.0f} s"
        found |= {result.request_id: result for result in client.results(wait_s=0.2)}
    return found


def answer(client: EngineClient, asked: WireRequest | None = None, *, within_s: float = ANSWER_S) -> WireResult:
    """One result."""
    asked = asked or request("one")
    return answers(client, asked, within_s=within_s)[asked.request_id]
