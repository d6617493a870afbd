"""An engine that is a formula: what it gives depends on its settings alone, so that a search over it can be judged.

Run as a program, it searches in the file that it is given, and kills itself at the call that it is given."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas.tune import Tune
from tasks.tune.objective import THROUGHPUT
from tasks.tune.outcome import Infeasible, Measured, Outcome, Reference
from tasks.tune.study import Search

BUDGET, SEQS, THRESHOLD = "engine.max_num_batched_tokens", "engine.max_num_seqs", "engine.prefill.threshold"
SAMPLES = 40
PLAN = {BUDGET: 2048, SEQS: 16}
VLLM = {BUDGET: 8192, SEQS: 256}
SPACE = {BUDGET: {"low": 512, "high": 16384, "log": True}, SEQS: [1, 8, 16, 32, 64, 128]}
REFERENCES = [
    Reference(name="plan", settings={}, values=PLAN),
    Reference(name="vllm", settings={"engine.choose": "vllm"}, values=VLLM),
]


def tuning(**changes: Any) -> Tune:
    return Tune.model_validate({"trials": 24, "space": SPACE, **changes})


def speed(settings: dict[str, Any]) -> float:
    """Best at 32 sequences and 4,096 tokens, where it is 1,000; it falls with the distance on a logarithm."""
    known = {**(VLLM if settings.get("engine.choose") else PLAN), **settings}
    seqs = abs(known[SEQS].bit_length() - 6)
    budget = abs((known[BUDGET] / 4096) ** 0.5 - 1) if known[BUDGET] > 4096 else abs((4096 / known[BUDGET]) ** 0.5 - 1)
    return 1000 / (1 + 0.4 * seqs + budget)


def engine(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
    """Runs out of memory where more than 2^19 tokens could be in flight. Its first samples are 3 % slower."""
    known = {**(VLLM if settings.get("engine.choose") else PLAN), **settings}
    if known[BUDGET] * known[SEQS] > 1 << 19:
        return Infeasible(why="out_of_memory", message="CUDA out of memory", seconds=5.0)
    rate = speed(settings) * (0.97 if part == 0 else 1.0)
    return Measured(
        figures={
            THROUGHPUT: rate,
            "e2e_ms.p50": 1000 * known[SEQS] / rate * 10,
            "e2e_ms.p99": 2000 * known[SEQS] / rate * 10,
            "ttft_ms.p50": known[SEQS] * 5.0,
            "ttft_ms.p99": known[SEQS] * 10.0,
        },
        run_id=f"run-{part}",
        seconds=10.0,
    )


def search(path: Path, run: Callable[..., Outcome] = engine, **changes: Any) -> Search:
    """A search that has run to its end."""
    found = Search(path, tune=tuning(**changes), samples=SAMPLES)
    found.run(run, references=REFERENCES)
    return found


_DONE: dict[str, bytes] = {}


def searched(path: Path, **changes: Any) -> Search:
    """The same as `search`, from a copy of the file where the same search was made before."""
    key = json.dumps({name: each for name, each in changes.items() if name != "confirm"}, sort_keys=True)
    if key not in _DONE:
        search(path, **changes).close()
        _DONE[key] = path.read_bytes()
    path.write_bytes(_DONE[key])
    return search(path, **changes)


def _killed(path: Path, at: int) -> None:
    calls = 0

    def run(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        nonlocal calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return engine(settings, limit, part)

    search(path, run)


if __name__ == "__main__":
    _killed(Path(sys.argv[1]), int(sys.argv[2]))
