"""One measured cell in the format of `vllm bench serve --save-result --save-detailed`, for tools that read that.

Names and units are vLLM's: arrays in seconds, statistics in milliseconds. So are the definitions: times count from when
a request was sent (what it waited before stands in `queue_times`), a gap is one between arrivals, and rates are over
the whole cell. What was not measured is None, where vLLM writes 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from schemas.cell_figures import Slo
from schemas.sample import ANSWERED

Row = Mapping[str, Any]
DETAILS = ("input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors")
"""What vLLM leaves out without `--save-detailed`."""


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """Seconds from when it was sent; None where it failed, or that was not measured. sent_at: seconds of the epoch."""

    answered: bool
    prompt_tokens: int | None
    output_tokens: int | None
    sent_at: float | None
    queued_s: float | None
    ttft_s: float | None
    latency_s: float | None
    gaps_s: list[float] | None
    gap_tokens: list[int] | None
    text: str | None
    error: str

    @property
    def tpot_s(self) -> float | None:
        n = self.output_tokens
        if self.ttft_s is None or self.latency_s is None or n is None or n < 2:
            return None
        return (self.latency_s - self.ttft_s) / (n - 1)

    @property
    def arrivals(self) -> list[tuple[float, int]] | None:
        """When tokens came, and how many; None where that is not known."""
        if self.sent_at is None or self.ttft_s is None or self.output_tokens is None or self.gaps_s is None:
            return None
        later = self.gap_tokens or []
        if len(later) != len(self.gaps_s):
            return None
        times = self.sent_at + self.ttft_s + np.concatenate([[0.0], np.cumsum(self.gaps_s)])
        return list(zip(times.tolist(), [self.output_tokens - sum(later), *later], strict=True))


def vllm_result(
    cell: Row,
    requests: Sequence[Row],
    *,
    model_id: str,
    tokenizer_id: str | None = None,
    backend: str | None = None,
    slo: Slo | None = None,
    detailed: bool = True,
) -> dict[str, Any]:
    """The cell's measured requests in vLLM's format, ready for `json.dumps`.

    cell: a row of `cells`; requests: rows of `requests`, of which the cell's own of phase `measure` count. JSON columns
    are parsed. backend: what vLLM would call the server's kind. slo: what its goodput counts by; None: it has none."""
    own = [row for row in requests if row["cell_id"] == cell["cell_id"] and row["phase"] == "measure"]
    answers = [_answer(row) for row in sorted(own, key=lambda row: _epoch(row["sent_at"]) or math.inf)]
    good = [answer for answer in answers if answer.answered]
    duration = _between(cell["started_at"], cell["ended_at"])
    taken, made = _total([each.prompt_tokens for each in good]), _total([each.output_tokens for each in good])
    most_tokens, most_requests = _peaks(good)
    load = cell["load"] or {}
    began = cell["started_at"]
    limit = cell["concurrency"] if cell["concurrency"] is not None else load.get("at_once")
    result: dict[str, Any] = {
        "date": None if began is None else began.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": backend,
        "backend": backend,
        "label": None,
        "model_id": model_id,
        "tokenizer_id": tokenizer_id,
        "num_prompts": len(answers),
        "request_rate": _request_rate(cell),
        "burstiness": cell["burstiness"],
        "max_concurrency": limit,
    }
    if cell["kind"] == "ramp":
        result |= {
            "ramp_up_strategy": "linear",
            "ramp_up_start_rps": load.get("start"),
            "ramp_up_end_rps": load.get("end"),
        }
    result |= {
        "duration": duration,
        "completed": len(good),
        "failed": len(answers) - len(good),
        "total_input_tokens": taken,
        "total_output_tokens": made,
        "request_throughput": _rate(len(good), duration),
        "request_goodput": None if slo is None or not slo.asked else _rate(_kept(good, slo), duration),
        "output_throughput": _rate(made, duration),
        "total_token_throughput": _rate(None if taken is None or made is None else taken + made, duration),
        "input_lens": [each.prompt_tokens for each in answers],
        "output_lens": [each.output_tokens for each in answers],
        "ttfts": [each.ttft_s for each in answers],
        "itls": [each.gaps_s for each in answers],
        "latencies": [each.latency_s for each in answers],
        "start_times": [each.sent_at for each in answers],
        "queue_times": [each.queued_s for each in answers],
        "generated_texts": [each.text for each in answers],
        "errors": [each.error for each in answers],
        "max_output_tokens_per_s": most_tokens,
        "max_concurrent_requests": most_requests,
        "rtfx": None,
    }
    result |= _statistics(good, limited=limit is not None, timed=cell["rate"] is not None)
    return result if detailed else {name: value for name, value in result.items() if name not in DETAILS}


def _answer(row: Row) -> _Answer:
    """Latencies of an open load count from when a request was planned: here from when it was sent."""
    answered = row["status"] in ANSWERED
    before_ms = 0.0 if row["planned_at"] is None else (_between(row["planned_at"], row["sent_at"]) or 0.0) * 1000

    def since_sent(ms: float | None) -> float | None:
        return (ms - before_ms) / 1000 if answered and ms is not None else None

    gaps, gap_tokens = (row[name] if answered else None for name in ("gaps_ms", "gap_tokens"))
    return _Answer(
        answered=answered,
        prompt_tokens=row["prompt_tokens"],
        output_tokens=row["output_tokens"] if answered else None,
        sent_at=_epoch(row["sent_at"]),
        queued_s=None if row["client_queue_ms"] is None else row["client_queue_ms"] / 1000,
        ttft_s=since_sent(row["ttft_ms"]),
        latency_s=since_sent(row["e2e_ms"]),
        gaps_s=None if gaps is None else [float(gap) / 1000 for gap in gaps],
        gap_tokens=None if gap_tokens is None else [int(tokens) for tokens in gap_tokens],
        text=row["output"] if answered else None,
        error=row["error"] or "",
    )


def _statistics(good: Sequence[_Answer], *, limited: bool, timed: bool) -> dict[str, float | None]:
    """Of a load with a limit also what its requests waited for it, and with both a limit and a rate the sum."""
    waits = [each.queued_s for each in good]
    values: dict[str, list[float]] = {
        "ttft": _known([each.ttft_s for each in good]),
        "tpot": _known([each.tpot_s for each in good]),
        "itl": [gap for each in good for gap in each.gaps_s or ()],
        "e2el": _known([each.latency_s for each in good]),
    }
    if limited:
        values["client_queue_time"] = _known(waits)
    if limited and timed:
        whole = zip([each.latency_s for each in good], waits, strict=True)
        values["e2el_including_client_queue"] = [
            latency + wait for latency, wait in whole if latency is not None and wait is not None
        ]
    found: dict[str, float | None] = {}
    for name, seconds in values.items():
        for statistic, of in (
            ("mean", np.mean),
            ("median", np.median),
            ("std", np.std),
            ("p99", lambda each: np.percentile(each, 99)),
        ):
            found[f"{statistic}_{name}_ms"] = float(of(seconds)) * 1000 if seconds else None
    return found


def _kept(good: Sequence[_Answer], slo: Slo) -> int:
    """Those that keep every latency asked for. One without such a latency, as the tpot of one token, keeps it."""
    latencies = {"ttft_ms": "ttft_s", "tpot_ms": "tpot_s", "e2e_ms": "latency_s"}
    return sum(
        all(
            (seconds := getattr(each, latencies[name])) is None or seconds * 1000 <= most
            for name, most in slo.asked.items()
        )
        for each in good
    )


def _peaks(good: Sequence[_Answer]) -> tuple[float | None, int | None]:
    """The most tokens, and the most requests in flight, of one of the seconds after the first request was sent."""
    times = [(each.sent_at, each.latency_s) for each in good]
    known = [(sent_at, latency) for sent_at, latency in times if sent_at is not None and latency is not None]
    if not known or len(known) < len(good):
        return None, None
    began = min(sent_at for sent_at, _ in known)
    in_flight = np.zeros(math.ceil(max(sent_at + latency for sent_at, latency in known) - began) + 1, dtype=np.int64)
    for sent_at, latency in known:
        in_flight[int(sent_at - began) : int(sent_at + latency - began) + 1] += 1
    arrivals = [each.arrivals for each in good]
    if any(each is None for each in arrivals):
        return None, int(in_flight.max())
    tokens = np.zeros(len(in_flight) + 1)
    for each in arrivals:
        for moment, count in each or ():
            tokens[min(len(tokens) - 1, int(moment - began))] += count
    return float(tokens.max()), int(in_flight.max())


def _request_rate(cell: Row) -> float | str | None:
    """As vLLM has it: `inf` where requests do not come at a rate. One that changes, or is recorded, is no number."""
    if cell["rate"] is not None:
        return float(cell["rate"])
    return None if cell["kind"] in ("staged", "trace") else "inf"


def _rate(count: int | None, seconds: float | None) -> float | None:
    return None if count is None or not seconds else count / seconds


def _total(counts: Sequence[int | None]) -> int | None:
    """None where one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _epoch(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _between(begin: datetime | None, end: datetime | None) -> float | None:
    return None if begin is None or end is None else (end - begin).total_seconds()
