"""The server that is asked: vLLM's own, and what it says itself of the answers that it gave."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.engine.settings import engine_environment

MODEL_NAME = "small"
KV_BYTES = 512 << 20
START_S = 240.0
_OWN = {
    "ttft_ms.mean": "vllm:time_to_first_token_seconds",
    "tpot_ms.mean": "vllm:request_time_per_output_token_seconds",
    "e2e_ms.mean": "vllm:e2e_request_latency_seconds",
}
_LOOK_S, _ON_ITS_WAY = 0.25, 200
"""Seconds between two looks, and after how many tokens of answers there is none any more."""
_TOKENS = {"prompt_tokens": "vllm:prompt_tokens_total", "output_tokens": "vllm:generation_tokens_total"}
_LINE = re.compile(r"^(vllm:\w+)\{[^}]*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Cores:
    """Who runs where: the engine's threads on one half of the cores, the server's front and the client on the other."""

    engine: tuple[int, ...]
    clients: tuple[int, ...]


def split_cores(cores: set[int]) -> Cores:
    """One core alone serves both."""
    ordered = sorted(cores)
    half = max(1, len(ordered) // 2)
    return Cores(engine=tuple(ordered[:half]), clients=tuple(ordered[half:] or ordered))


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that answers."""

    url: str

    def counters(self) -> dict[str, float]:
        """What it has counted since it started, by the names of its metrics."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            return counters(answer.read().decode())


@dataclass(frozen=True, kw_only=True)
class Served:
    """What the server counted while one client asked it. means_ms: by figure, by its own clock."""

    answers: int
    prompt_tokens: int
    output_tokens: int
    means_ms: dict[str, float]


class Watch:
    """Looks at the server's counters before a load and while it begins: what a client asks before its load, to find out
    what the server can do, is not the load's. It stops looking once the load is on its way."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._looks = [(time.time(), server.counters())]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()

    def before(self, moment: float | None) -> dict[str, float]:
        """The last look before this moment; None: the first one."""
        return self._looks[0][1] if moment is None else [seen for at, seen in self._looks if at <= moment][-1]

    def _look(self) -> None:
        tokens = _TOKENS["output_tokens"]
        while not self._over.wait(_LOOK_S):
            self._looks.append((time.time(), self._server.counters()))
            if self._looks[-1][1][tokens] - self._looks[0][1][tokens] > _ON_ITS_WAY:
                return


def counters(text: str) -> dict[str, float]:
    """Out of Prometheus's text. Raises ValueError where one that is needed is not there."""
    found = {name: float(value) for name, value in _LINE.findall(text)}
    needed = [*_TOKENS.values(), *(f"{name}_{part}" for name in _OWN.values() for part in ("sum", "count"))]
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(f"the server's /metrics has no {', '.join(missing)}")
    return {name: found[name] for name in needed}


def served(before: dict[str, float], after: dict[str, float]) -> Served:
    """What lies between two looks. Raises ValueError where there was no answer."""
    more = {name: value - before[name] for name, value in after.items()}
    answers = int(more[f"{_OWN['e2e_ms.mean']}_count"])
    if not answers:
        raise ValueError("the server gave no answer")
    return Served(
        answers=answers,
        means_ms={figure: more[f"{name}_sum"] / more[f"{name}_count"] * 1000 for figure, name in _OWN.items()},
        **{ours: int(more[theirs]) for ours, theirs in _TOKENS.items()},
    )


@contextlib.contextmanager
def serve(model: Path, *, python: Path, cores: Cores, log: Path) -> Iterator[Server]:
    """Starts it and waits until it is ready; ends it and all its processes. Raises SystemExit with its log's end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(python), "-P", "-m", "vllm.entrypoints.cli.main", "serve", str(model)]
    command += ["--served-model-name", MODEL_NAME, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "bfloat16", "--max-model-len", "2048", "--enforce-eager", "--no-enable-prefix-caching"]
    command += ["--kv-cache-memory-bytes", str(KV_BYTES), "--disable-uvicorn-access-log"]
    base = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    chosen = engine_environment(cores=cores.engine, compiles=False, base=base)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env=chosen,
            cwd=log.parent,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores.clients),  # noqa: PLW1509 - one thread
        )
    try:
        server = Server(url=f"http://127.0.0.1:{port}")
        _wait(process, server, log)
        yield server
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], server: Server, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{server.url}/health", timeout=5).close()
            return
        time.sleep(0.25)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise SystemExit(f"vllm serve did not become ready:\n{tail}")
