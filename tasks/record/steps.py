"""The engine's own log in the warehouse: rows of `steps`, and the metrics `engine.*` over all of an engine's steps.

The rows are sampled where there are very many (see tasks/engine/worker/step_log.py); the metrics are not: the engine
counts every step. `engine.steps` carries the whole count as its details; a later session of the same run adds to it.
"""

import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.metric import Aggregate
from schemas.run import RunContext
from tasks.engine.protocol import Steps, WireStep, WireTotals
from tasks.record.rows import Row, metric_rows, quality_cell_id
from warehouse.parquet import read_rows

SAMPLING = "all of the first 2,000 steps, then 1 of 10, from 20,000 on 1 of 100, and so forth"
STEPS_METRIC = "engine.steps"
_SUMMED = (
    *("steps", "sent", "timed", "timed_ms", "counted", "prompt_tokens", "decode_tokens", "kv_read", "kv_usage_sum"),
    *("prefix_queries", "prefix_hits", "drafts", "draft_tokens", "accepted_tokens"),
)
Use = tuple[str, int | None]
"""A graph mode and the size of the graph; no size without one."""


@dataclass(kw_only=True)
class StepTotals:
    """What all steps of an engine add up to. The numbers are WireTotals', by the same names."""

    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0))
    kv_usage_max: float = 0.0
    preempted: int | None = None
    graphs: dict[Use, list[int]] = field(default_factory=dict)
    """Steps, tokens and padding by graph mode and size."""
    accepted_by_position: list[int] = field(default_factory=list)
    drafted_by_position: list[int] = field(default_factory=list)
    prompt_steps: Counter[int] = field(default_factory=Counter)

    def add(self, more: WireTotals) -> None:
        """Adds what one message told."""
        for name in _SUMMED:
            self.sums[name] += getattr(more, name)
        self.kv_usage_max = max(self.kv_usage_max, more.kv_usage_max)
        if more.preempted is not None:
            self.preempted = (self.preempted or 0) + more.preempted
        for use in more.graphs:
            self._add_graph((use.mode, use.size), (use.steps, use.tokens, use.padded_tokens))
        _add_to(self.accepted_by_position, more.accepted_by_position)
        _add_to(self.drafted_by_position, more.drafted_by_position)
        self.prompt_steps.update(more.prompt_steps)

    def _add_graph(self, use: Use, numbers: Sequence[int]) -> None:
        known = self.graphs.setdefault(use, [0, 0, 0])
        self.graphs[use] = [have + more for have, more in zip(known, numbers, strict=True)]

    def details(self) -> dict[str, Any]:
        """All of it as a JSON object."""
        return {
            **self.sums,
            "kv_usage_max": self.kv_usage_max,
            "preempted": self.preempted,
            "graphs": graph_details(self),
            "accepted_by_position": self.accepted_by_position,
            "drafted_by_position": self.drafted_by_position,
            "prompt_steps": {str(steps): prompts for steps, prompts in sorted(self.prompt_steps.items())},
        }

    @classmethod
    def of_details(cls, details: Mapping[str, Any]) -> "StepTotals":
        """The totals that `details` gave."""
        totals = cls(
            sums={name: details.get(name, 0) for name in _SUMMED},
            kv_usage_max=details["kv_usage_max"],
            preempted=details["preempted"],
            accepted_by_position=list(details["accepted_by_position"]),
            drafted_by_position=list(details["drafted_by_position"]),
            prompt_steps=Counter({int(steps): prompts for steps, prompts in details["prompt_steps"].items()}),
        )
        for use in details["graphs"]:
            totals._add_graph((use["mode"], use["size"]), (use["steps"], use["tokens"], use["padded_tokens"]))
        return totals


@dataclass(kw_only=True)
class _Watched:
    """One engine of the run. base: the number of its process's first step; following: the next number that is free;
    source: the process."""

    base: int = 0
    following: int = 0
    source: int | None = None
    totals: StepTotals = field(default_factory=StepTotals)


class StepRecorder:
    """Writes what a run's engines tell of their steps during one session.

    arms: of the requests; with one arm alone a step is of that arm's cell. write: as Store.write. utc: from the
    worker's clock to a moment."""

    def __init__(
        self,
        *,
        run: RunContext,
        arms: Iterable[str],
        write: Callable[[str, Sequence[Row]], None],
        utc: Callable[[float | None], datetime.datetime | None],
    ) -> None:
        self._run = run
        self._arms = sorted(set(arms))
        self._write = write
        self._utc = utc
        self._engines: dict[str, _Watched] = {}
        self._current: str | None = None

    def take(self, messages: Iterable[Steps], *, engine_id: str, cell_id: str | None = None) -> None:
        """Writes the steps of these messages as one part of `steps`, and adds them to the engine's totals. cell_id: of
        a measured cell that they ran in."""
        if engine_id not in self._engines:
            self._engines[engine_id] = _before(self._run, engine_id) if self._run.resumed else _Watched()
        engine = self._engines[engine_id]
        self._current = engine_id
        rows = []
        for message in messages:
            engine.totals.add(message.totals)
            if message.source != engine.source:
                engine.source, engine.base = message.source, engine.following
            for step in message.steps:
                engine.following = max(engine.following, engine.base + step.step + step.stands_for)
                rows.append(self._row(step, engine_id=engine_id, base=engine.base, cell_id=cell_id))
        self._write("steps", rows)

    def end(self) -> None:
        """Writes the metrics over everything, once a session. They are of its last engine."""
        if self._current is not None:
            totals = self._engines[self._current].totals
            self._write("metrics", metric_rows(engine_metrics(totals, engine_id=self._current)))

    def _row(self, step: WireStep, *, engine_id: str, base: int, cell_id: str | None) -> Row:
        if cell_id is None and len(self._arms) == 1:
            cell_id = quality_cell_id(engine_id, self._arms[0])
        return {
            "engine_id": engine_id,
            "step": base + step.step,
            "stands_for": step.stands_for,
            "cell_id": cell_id,
            "ts": self._utc(step.ended_at),
            "running": step.running,
            "waiting": step.waiting,
            "prompt_tokens": step.prompt_tokens,
            "decode_tokens": step.decode_tokens,
            "kv_usage": step.kv_usage,
            "preempted": step.preempted,
            "graph_mode": step.graph_mode,
            "graph_size": step.graph_size,
            "padded_tokens": step.padded_tokens,
            "prefix_queries": step.prefix_queries,
            "prefix_hits": step.prefix_hits,
            "step_ms": step.step_ms,
        }


def _before(run: RunContext, engine_id: str) -> _Watched:
    """What an earlier session of the run wrote of this engine. One that was killed left its steps and no totals: those
    are then of the sessions that ended."""
    columns = ["engine_id", "step", "stands_for"]
    rows = [row for row in read_rows(run.home, "steps", run.run_id, columns=columns) if row["engine_id"] == engine_id]
    found = _Watched(following=max((row["step"] + (row["stands_for"] or 1) for row in rows), default=0))
    for metric in read_rows(run.home, "metrics", run.run_id, columns=["name", "details"]):
        details = json.loads(metric["details"]) if metric["name"] == STEPS_METRIC else {}
        if details.get("engine_id") == engine_id:
            found.totals = StepTotals.of_details(details)
    return found


def graph_details(totals: StepTotals) -> list[dict[str, Any]]:
    """What ran in which graph mode and at which size: steps, tokens and padding, full graphs first, by size."""
    order = {"full": 0, "piecewise": 1}
    ranked = sorted(totals.graphs.items(), key=lambda item: (order.get(item[0][0], 2), item[0][1] or 0))
    return [
        {"mode": mode, "size": size, "steps": steps, "tokens": tokens, "padded_tokens": padded}
        for (mode, size), (steps, tokens, padded) in ranked
    ]


def engine_metrics(totals: StepTotals, *, engine_id: str) -> list[Aggregate]:
    """The metrics `engine.*`, by the definitions of docs/metrics.md. What the engine did not tell is not there."""
    sums, n = totals.sums, int(totals.sums["steps"])
    if not n:
        return []

    def metric(
        name: str, value: float, unit: str, *, of: float, method: str, higher: bool = False, **details: Any
    ) -> Aggregate:
        return Aggregate(
            scope="engine",
            name=name,
            arm=None,
            value=value,
            unit=unit,
            direction="higher" if higher else "lower",
            n=int(of),
            n_failed=0,
            method=method,
            details={"engine_id": engine_id, **details},
        )

    found = [metric(STEPS_METRIC, n, "steps", of=n, method="every step counted", sampling=SAMPLING, **totals.details())]
    if sums["counted"]:
        tokens = sums["prompt_tokens"] + sums["decode_tokens"]
        found.append(
            metric("engine.tokens_per_step", tokens / sums["counted"], "tokens/step", of=sums["counted"],
                   method="mean of all steps", higher=True)
        )  # fmt: skip
    if sums["timed"]:
        found.append(metric("engine.step_ms", sums["timed_ms"] / sums["timed"], "ms", of=sums["timed"],
                            method="mean of all steps"))  # fmt: skip
    if sums["kv_read"]:
        mean = sums["kv_usage_sum"] / sums["kv_read"]
        found += [
            metric("engine.kv_usage.mean", mean, "share", of=sums["kv_read"], method="mean of all steps"),
            metric("engine.kv_usage.max", totals.kv_usage_max, "share", of=sums["kv_read"], method="highest step"),
        ]
    if totals.preempted is not None:
        found.append(metric("engine.preemptions", totals.preempted, "requests", of=n, method="sum of all steps"))
    if sums["prefix_queries"]:
        rate = sums["prefix_hits"] / sums["prefix_queries"]
        found.append(
            metric("engine.prefix_hit_rate", rate, "share", of=sums["prefix_queries"],
                   method="tokens found of tokens looked up", higher=True)
        )  # fmt: skip
    return [*found, *_graph_metrics(totals, metric), *_prompt_metrics(totals, metric), *_spec_metrics(totals, metric)]


def _graph_metrics(totals: StepTotals, metric: Callable[..., Aggregate]) -> list[Aggregate]:
    if not totals.graphs:
        return []
    steps, tokens, padded = (sum(column) for column in zip(*totals.graphs.values(), strict=True))
    in_graphs = [numbers for (mode, _), numbers in totals.graphs.items() if mode != "none"]
    details = {"graphs": graph_details(totals)}
    return [
        metric("engine.graph_share.steps", sum(each[0] for each in in_graphs) / steps, "share", of=steps,
               method="steps that ran from a graph", higher=True, **details),
        metric("engine.graph_share.tokens", sum(each[1] for each in in_graphs) / tokens, "share", of=tokens,
               method="tokens that a graph computed", higher=True, **details),
        metric("engine.padding_waste", padded / (tokens + padded), "share", of=tokens + padded,
               method="tokens that only filled a graph up, of all computed", **details),
    ]  # fmt: skip


def _prompt_metrics(totals: StepTotals, metric: Callable[..., Aggregate]) -> list[Aggregate]:
    prompts = sum(totals.prompt_steps.values())
    if not prompts:
        return []
    split = sum(count for steps, count in totals.prompt_steps.items() if steps > 1)
    histogram = {str(steps): count for steps, count in sorted(totals.prompt_steps.items())}
    return [
        metric("engine.prompts_split", split, "requests", of=prompts, method="prompts computed in more than one step",
               prompts_by_steps=histogram),
        metric("engine.prefill_steps.max", max(totals.prompt_steps), "steps", of=prompts, method="highest of a prompt"),
    ]  # fmt: skip


def _spec_metrics(totals: StepTotals, metric: Callable[..., Aggregate]) -> list[Aggregate]:
    sums = totals.sums
    if not sums["drafts"]:
        return []
    drafts, drafted, accepted = sums["drafts"], sums["draft_tokens"], sums["accepted_tokens"]
    found = [
        metric("engine.spec.draft_tokens", drafted, "tokens", of=drafts, method="sum of all drafts"),
        metric("engine.spec.accepted_tokens", accepted, "tokens", of=drafts, method="sum of all drafts", higher=True),
        metric("engine.spec.mean_length", 1 + accepted / drafts, "tokens", of=drafts, higher=True,
               method="accepted tokens of a draft, and the model's own"),
    ]  # fmt: skip
    if drafted:
        pairs = zip(totals.accepted_by_position, totals.drafted_by_position, strict=False)
        found.append(
            metric("engine.spec.acceptance", accepted / drafted, "share", of=drafted, higher=True,
                   method="accepted of drafted tokens",
                   by_position=[taken / made if made else None for taken, made in pairs],
                   drafted_by_position=totals.drafted_by_position)
        )  # fmt: skip
    return found


def _add_to(sums: list[int], more: Sequence[int]) -> None:
    sums.extend([0] * (len(more) - len(sums)))
    for place, value in enumerate(more):
        sums[place] += value
