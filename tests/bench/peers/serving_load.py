"""The loads that all clients put on the server: the same requests in flight, or the same times of arrival."""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

PROMPT_TOKENS, OUTPUT_TOKENS = 128, 64


@dataclass(frozen=True, kw_only=True)
class Closed:
    """So many requests in flight, until all are answered."""

    requests: int
    concurrency: int

    @property
    def name(self) -> str:
        return f"closed, {self.concurrency} at a time"


@dataclass(frozen=True, kw_only=True)
class Open:
    """Requests that are due at the times of a trace, a file that all tools read. rate: of its Poisson arrivals."""

    requests: int
    rate: float
    trace: Path

    @property
    def name(self) -> str:
        return f"open, Poisson, {self.rate:.3g} requests/s"


Load = Closed | Open


def arrivals(*, rate: float, requests: int, seed: int = 0) -> list[float]:
    """Seconds after the first, which is at 0: gaps of a Poisson process, never rescaled."""
    random = Random(seed)
    times = [0.0]
    while len(times) < requests:
        times.append(times[-1] + random.expovariate(rate))
    return times


def write_trace(path: Path, times: list[float]) -> Path:
    """In Mooncake's form: milliseconds, lengths, and a block of its own for each prompt, so that none begins alike."""
    with path.open("w") as lines:
        for number, at_s in enumerate(times):
            row = {
                "timestamp": round(at_s * 1000, 3),
                "input_length": PROMPT_TOKENS,
                "output_length": OUTPUT_TOKENS,
                "hash_ids": [number],
            }
            lines.write(json.dumps(row) + "\n")
    return path
