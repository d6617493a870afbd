"""The measuring step of a run: every cell of its benchmark, on the engine that stands."""

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from schemas.arm import compared_arms
from schemas.benchmark import Benchmark, OfflineLoad, SaturateLoad
from schemas.built import BuiltEngine
from schemas.metric import Aggregate
from schemas.points import Point, below_knee, in_turns, measured_arms, points, probe, searches
from schemas.summary import MeasuredSummary
from tasks.compare.read import read_recorded
from tasks.compare.speed import compare_speed, speed_rows
from tasks.engine.answering import answer_words
from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.keeper import EngineKeeper
from tasks.engine.protocol import Steps, WireRequest, WireResult
from tasks.engine.pulse import Pulse, hang_seconds
from tasks.engine.stage import build_engine
from tasks.load.cell import CellRun, Phase, run_cell
from tasks.load.clients import Clients, beside
from tasks.load.knee import Knee, Probe, Search
from tasks.load.questions import Questions
from tasks.load.repeats import over_repeats
from tasks.load.rows import cell_metrics, cell_row, request_rows
from tasks.load.slo import meets
from tasks.load.watched import devices_of, is_served, watched
from tasks.record.rows import metric_rows
from tasks.record.steps import StepRecorder, StepTotals, engine_metrics
from tasks.responses import RowContext
from tasks.session import Session
from tasks.telemetry import Telemetry
from warehouse.parquet import read_rows

LATE_MS = 5.0
"""A client that is later than this at the 99th percentile is itself what is measured."""
FAST_S = 0.1
"""Telemetry is read so often while a cell is measured."""
_SAY_EVERY_S = 0.25
_FIRST_GUESS = 64
_LEAST_PROBED = 30
"""Requests of a probe: fewer say little of a share near 1."""
DIED = "the engine died while this cell was measured"
_PHASES: tuple[Phase, ...] = ("warmup", "measure", "cooldown")

Say = Callable[[int, int, str], None]
"""Cells done, cells in all as far as is known, and what is measured now."""


@dataclass(kw_only=True)
class _Found:
    """What is kept of the cells, until their metrics over the repeats are made. metrics: by cell."""

    runs: list[CellRun] = field(default_factory=list)
    metrics: dict[str, list[Aggregate]] = field(default_factory=dict)
    abandoned: list[str] = field(default_factory=list)
    knees: list[Aggregate] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)


def measure_load(
    session: Session, engine: EngineKeeper, *, built: BuiltEngine, folder: Path, say: Say | None = None
) -> MeasuredSummary:
    """Measures the run's benchmark; writes cells, requests, steps, telemetry and the metrics `perf.*`.

    A run that is resumed measures everything anew, as half of its cells would be of another engine and another day,
    unless it had measured everything. folder: the model's, for its tokenizer. Raises EngineError where the engine died
    too often; what had been measured is on disk."""
    benchmark = session.run.experiment.benchmark
    if benchmark is None:
        raise ValueError("the experiment has no benchmark")
    began = time.monotonic()
    session.built = built
    measuring = _Measuring(session, engine, benchmark, built=built, folder=folder, say=say)
    if session.run.resumed and measuring.is_done():
        return MeasuredSummary(cells=0, requests=0, failed=0, statuses={}, wall_s=0.0, warnings=[])
    try:
        measuring.all()
    finally:
        found = measuring.end()
    return MeasuredSummary(
        cells=len(found.runs),
        requests=sum(found.statuses.values()),
        failed=found.statuses["error"] + found.statuses["refused"] + found.statuses["cancelled"],
        statuses=dict(found.statuses),
        wall_s=time.monotonic() - began,
        warnings=list(dict.fromkeys(found.warnings)),
    )


class _Measuring:
    def __init__(
        self,
        session: Session,
        engine: EngineKeeper,
        benchmark: Benchmark,
        *,
        built: BuiltEngine,
        folder: Path,
        say: Say | None,
    ) -> None:
        self._session = session
        self._engine = engine
        self._benchmark = benchmark
        self._built = built
        self._say = say
        self._arms = measured_arms(benchmark, session.run.experiment.arms)
        self._points = points(benchmark, arms=self._arms)
        self._questions = Questions(
            session,
            benchmark,
            arms=self._arms,
            model=built.model,
            folder=folder,
            words=answer_words(session, built),
            exact=bool(built.resolved.get("exact_lengths", True)),
        )
        self._found = _Found(warnings=list(self._questions.warnings))
        self._clock = RowContext(engine_id=built.engine_id, sampling=self._questions.sampling, keys={}, attempts={})
        self._own_steps = session.steps is None
        self._steps = session.steps or StepRecorder(
            run=session.run, arms=[], write=session.store.write, utc=self._clock.utc
        )
        self._telemetry = Telemetry(pid=engine.client.pid, write=lambda rows: session.store.write("telemetry", rows))
        self._clients: Clients | None = None
        """Those that send a load together; None where one does."""
        self._telemetry.every(FAST_S)
        self._done = 0
        searching = sum(load.probes + len(load.sweep) * benchmark.repeats for load in searches(benchmark))
        self._total = len(self._points) * benchmark.repeats + searching * len(self._arms)

    def is_done(self) -> bool:
        """Whether an earlier session of this run measured everything."""
        rows = read_rows(self._session.run.home, "metrics", self._session.run.run_id, columns=["name", "cell_id"])
        return any(row["name"].startswith("perf.") and row["cell_id"] is not None for row in rows)

    def all(self) -> None:
        """Every cell, in its order."""
        self._leave_behind()
        self._telemetry.start()
        if self._benchmark.clients == 1:
            self._every_cell()
            return
        with beside(self._engine.client, n=self._benchmark.clients) as self._clients:
            self._every_cell()
        self._clients = None

    def _every_cell(self) -> None:
        more = [point for load in searches(self._benchmark) for arm in self._arms for point in self._search(load, arm)]
        for repeat, point in in_turns([*self._points, *more], repeats=self._benchmark.repeats):
            self._cell(point, repeat=repeat)

    def end(self) -> _Found:
        """Ends telemetry and writes what rests on all cells: their metrics, those over repeats, what disturbed them."""
        found, store = self._found, self._session.store
        self._telemetry.stop()
        if self._telemetry.warning:
            found.warnings.append(self._telemetry.warning)
        self._steps.take(self._engine.client.take_steps(), engine_id=self._built.engine_id)
        if self._own_steps:
            self._steps.end()
        good = [run for run in found.runs if run.cell_id not in found.abandoned]
        run = self._session.run
        seen = watched(
            run.home,
            run.run_id,
            cells=[self._row(each) for each in good],
            benchmark=self._benchmark,
            device=self._built.device,
            devices=devices_of(self._built),
            served=is_served(self._built),
        )
        for each in good:
            found.metrics[each.cell_id] += seen.metrics[each.cell_id]
            each.disturbed += seen.disturbed[each.cell_id]
        found.warnings += _of_disturbed(good)
        self._share_energy(seen.energy_j)
        store.write("cells", [self._row(each) for each in good], later=1)
        store.write("metrics", metric_rows(metric for run in good for metric in found.metrics[run.cell_id]))
        store.write("metrics", metric_rows([*self._pooled(good), *found.knees]))
        self._compare_arms()
        return found

    def _compare_arms(self) -> None:
        """Holds each arm against the one that it is compared with, point by point."""
        run = self._session.run
        pairs = [pair for pair in compared_arms(run.experiment.arms) if all(arm in self._arms for arm in pair)]
        if not pairs:
            return
        own = read_recorded(run.home, run.run_id)
        now = datetime.datetime.now(datetime.UTC)
        found = compare_speed(candidate=own, baseline=own, arms=pairs)
        more = {"baseline_run_id": run.run_id, "compared_at": now}
        self._session.store.write("comparisons", [row | more for row in speed_rows(found.results)])

    def _share_energy(self, energy_j: Mapping[str, float]) -> None:
        """Writes each request's share of the energy beside it, where any was measured."""
        run = self._session.run
        if not energy_j:
            return
        rows = read_rows(run.home, "requests", run.run_id, parse_json=True)
        self._session.store.write(
            "requests",
            [
                {key: value for key, value in row.items() if key not in ("run_id", "revision")}
                | {"energy_allocated_j": energy_j[row["request_id"]]}
                for row in rows
                if row["request_id"] in energy_j
            ],
            later=1,
        )

    def _pooled(self, runs: Sequence[CellRun]) -> Iterator[Aggregate]:
        by_point: dict[str, list[CellRun]] = {}
        for run in runs:
            by_point.setdefault(run.point.point_id, []).append(run)
        for point_id, repeats in by_point.items():
            ordered = sorted(repeats, key=lambda run: run.repeat)
            yield from over_repeats([self._found.metrics[run.cell_id] for run in ordered], point_id=point_id)

    def _search(self, load: SaturateLoad, arm: str) -> list[Point]:
        """Looks for an arm's knee; gives the rates to measure below it."""
        start = load.start or self._offline_rate(load, arm)
        search = Search(start=start, share=load.share, tolerance=load.tolerance, most=load.probes)
        probes: list[Probe] = []
        asked: Counter[str] = Counter()
        while (rate := search.next()) is not None:
            long_enough = load.model_copy(update={"seconds": max(load.seconds, _LEAST_PROBED / rate)})
            point = probe(long_enough, arm=arm, rate=rate)
            run = self._cell(point, repeat=asked[point.point_id])
            asked[point.point_id] += 1
            measured = [taken.measured for taken in run.measured]
            if not measured:
                break
            met = sum(meets(each, self._benchmark.slo) for each in measured)
            probes.append(Probe(rate=rate, met=met, asked=len(measured)))
            search.took(probes[-1])
        knee = search.knee
        self._found.knees.append(_knee_metric(knee, probes, arm=arm, share=load.share))
        if knee.rate is None:
            self._found.warnings.append(
                f"{arm}: no rate kept the SLO for {load.share:.0%} of the requests, so that there is no knee"
            )
            return []
        return below_knee(load, arm=arm, knee=knee.rate)

    def _offline_rate(self, load: SaturateLoad, arm: str) -> float:
        """Requests a second that an offline load gets: a guess at the knee from above."""
        offline = OfflineLoad(kind="offline", requests=_FIRST_GUESS)
        run = self._cell(Point(arm=arm, name="probe-offline", load=offline, is_probe=True), repeat=0)
        answered = sum(taken.measured.answered for taken in run.measured)
        return max(1, answered) / max(1e-3, run.ended_at - run.began_at)

    def _cell(self, point: Point, *, repeat: int) -> CellRun:
        """Measures one cell and writes its rows. One during which the engine died is left behind, and the run goes on
        with another engine, as often as `engine.failures` says."""
        run = CellRun(
            point=point,
            cell_id=self._cell_id(point, repeat),
            repeat=repeat,
            order_index=self._done,
        )
        self._tell(run, 0)
        self._found.metrics[run.cell_id] = []
        try:
            with self._watched(run):
                self._run(run)
        except EngineDied as died:
            self._died(run, died)
        else:
            self._write(run)
        self._done += 1
        self._found.runs.append(run)
        return run

    def _cell_id(self, point: Point, repeat: int) -> str:
        """A resumed run measures anew under other names: what was measured before keeps its own."""
        again = f"-s{self._session.run.revision}" if self._session.run.resumed else ""
        return point.cell_id(engine_id=self._built.engine_id, repeat=repeat) + again

    def _run(self, run: CellRun) -> None:
        benchmark, client = self._benchmark, self._engine.client
        pulse = Pulse(
            pid=client.pid,
            hang_s=hang_seconds(self._session.run.experiment.vllm.failures.hang_s, device=self._built.device.kind),
        )
        said = time.monotonic()

        def on_answer(answers: int) -> None:
            nonlocal said
            if time.monotonic() - said >= _SAY_EVERY_S:
                said = time.monotonic()
                self._tell(run, answers)

        run_cell(
            run,
            _Attended(self._clients or client, pulse),
            self._questions.of(run.point, repeat=run.repeat, cell_id=run.cell_id, forget=self._forget()),
            warmup=benchmark.warmup,
            cooldown=benchmark.cooldown,
            wait_s=benchmark.wait_s,
            seed=benchmark.seed,
            on_warm=self._warm,
            on_answer=on_answer,
        )
        self._telemetry.mark()

    def _warm(self) -> None:
        """What came until now is of no measured cell; counters are read where the load begins."""
        self._take_steps(None)
        self._telemetry.mark()

    def _forget(self) -> Callable[[], None] | None:
        """None where the engine keeps no prefixes, or cannot forget them."""
        resolved = self._built.resolved
        if resolved.get("enable_prefix_caching") is False or not resolved.get("resets_prefix_cache", True):
            return None
        return self._engine.client.reset_prefix_cache

    @contextmanager
    def _watched(self, run: CellRun) -> Iterator[None]:
        """Takes the engine's steps of the cell, also where it ends early."""
        try:
            yield
        finally:
            totals = self._take_steps(run.cell_id)
            self._found.metrics[run.cell_id] += _of_cell(totals, run, engine_id=self._built.engine_id)

    def _take_steps(self, cell_id: str | None) -> StepTotals:
        if is_served(self._built):
            self._engine.client.stats()  # has it tell what it last read of the server
        messages: list[Steps] = (self._clients or self._engine.client).take_steps()
        self._steps.take(messages, engine_id=self._built.engine_id, cell_id=cell_id)
        totals = StepTotals()
        for message in messages:
            totals.add(message.totals)
        return totals

    def _write(self, run: CellRun, *, lost: str | None = None) -> None:
        contexts = {phase: replace(self._clock, cell_id=run.cell_id, phase=phase) for phase in _PHASES}
        rows = list(request_rows(run, contexts, **({} if lost is None else {"lost": lost})))
        self._session.store.write("requests", rows)
        if lost is not None:
            return
        self._found.statuses.update(row["status"] for row in rows if row["phase"] == "measure")
        metrics = cell_metrics(run, slo=self._benchmark.slo)
        self._found.metrics[run.cell_id] += metrics
        self._look(run, metrics)
        self._session.store.write("cells", [self._row(run)])

    def _look(self, run: CellRun, metrics: Sequence[Aggregate]) -> None:
        """What of the cell the reader must know."""
        late = next((metric.value for metric in metrics if metric.name == "perf.late_ms.p99"), None)
        if late is not None and late > LATE_MS:
            run.disturbed.append(f"client_late {late:.1f} ms")
            self._found.warnings.append(
                f"{run.point.point_id}: the client itself sent late (p99 {late:.1f} ms) and was the bottleneck: "
                "fewer requests a second, or a machine of its own for the client"
            )
        wrong = sum(not taken.has_right_length for taken in run.measured)
        if wrong:
            self._found.warnings.append(
                f"{run.point.point_id}: {wrong} of {len(run.measured)} answers have not the length that was asked for"
            )

    def _died(self, run: CellRun, died: EngineDied) -> None:
        """Writes what came of the cell, and starts another engine. Raises EngineError where there shall be none."""
        self._found.abandoned.append(run.cell_id)
        run.disturbed.append(DIED)
        self._write(run, lost=DIED)
        self._session.store.write("cells", [self._row(run)])
        self._found.warnings.append(f"{run.point.point_id}, repeat {run.repeat}: {DIED}; it is not among the numbers")
        before = self._built
        after = self._engine.after(died, plan=before.plan, model=before.model, while_="answering", in_flight=0, left=0)
        self._built = build_engine(
            self._session, self._engine, plan=after.plan, model=before.model, device=before.device
        )
        self._clock = replace(self._clock, engine_id=self._built.engine_id)
        self._telemetry.watch(self._engine.client.pid)

    def _row(self, run: CellRun) -> dict[str, object]:
        return cell_row(
            run,
            engine_id=self._clock.engine_id,
            prompts=self._questions.kind,
            context=self._clock,
            abandoned=run.cell_id in self._found.abandoned,
        )

    def _tell(self, run: CellRun, answers: int) -> None:
        if self._say is not None:
            self._say(self._done, max(self._total, self._done + 1), f"{run.point.point_id}, {answers:,} answers")

    def _leave_behind(self) -> None:
        """Takes what an earlier session measured out of its points."""
        run = self._session.run
        if not run.resumed:
            return
        before = [row for row in read_rows(run.home, "cells", run.run_id, parse_json=True) if row["kind"] != "quality"]
        words = "left behind: the run was interrupted, and measured anew"
        keep = [{key: value for key, value in row.items() if key not in ("run_id", "revision")} for row in before]
        self._session.store.write(
            "cells",
            [
                row | {"kind": "abandoned", "point_id": None, "disturbed": [*(row["disturbed"] or []), words]}
                for row in keep
            ],
        )


class _Attended:
    """The engine, or several clients of one, as a load sends to it, and whether it still works looked at meanwhile."""

    def __init__(self, server: EngineClient | Clients, pulse: Pulse) -> None:
        self._server = server
        self._pulse = pulse

    def submit(self, requests: list[WireRequest]) -> None:
        self._server.submit(requests)

    def results(self, *, wait_s: float) -> Iterator[WireResult]:
        yield from self._server.results(wait_s=wait_s)

    def look(self, *, in_flight: int) -> None:
        """Raises EngineDied for an engine that has work and has hung."""
        why = self._pulse.stopped(self._server.silent_s) if in_flight else None
        if why is not None:
            raise self._server.hung(why)


def _of_cell(totals: StepTotals, run: CellRun, *, engine_id: str) -> list[Aggregate]:
    """`perf.engine.*`: what the engine did in the cell, by the definitions of `engine.*`."""
    return [
        replace(metric, name=f"perf.{metric.name}", arm=run.point.arm, cell_id=run.cell_id)
        for metric in engine_metrics(totals, engine_id=engine_id)
    ]


def _of_disturbed(runs: Sequence[CellRun]) -> list[str]:
    """A line for all that disturbed cells, with how many."""
    kinds = Counter(word.split()[0] for run in runs for word in set(run.disturbed))
    if not kinds:
        return []
    listed = ", ".join(f"{kind} ({n} of {len(runs)} cells)" for kind, n in kinds.most_common())
    return [f"measured cells were disturbed: {listed}; `disturbed` in the table `cells` says by how much"]


def _knee_metric(knee: Knee, probes: Sequence[Probe], *, arm: str, share: float) -> Aggregate:
    return Aggregate(
        scope="run",
        name="perf.knee_requests_per_s",
        arm=arm,
        value=knee.rate,
        unit="requests/s",
        direction="higher",
        n=len(probes),
        n_failed=0,
        lo=knee.rate,
        hi=knee.above,
        method="bisection: the highest rate that keeps the SLO, and the lowest that breaks it",
        cell_id=f"{arm}-saturate",
        details={
            "share": share,
            "decided": knee.decided,
            "above": knee.above,
            "probes": [{"rate": each.rate, "met": each.met, "asked": each.asked} for each in probes],
        },
    )
