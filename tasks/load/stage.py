"""The measuring step of a run: every cell of its benchmark, on the engine that stands."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from schemas.benchmark import Benchmark, SaturateLoad
from schemas.built import BuiltEngine
from schemas.metric import Aggregate
from schemas.points import Point, below_knee, in_turns, measured_arms, points, searches
from schemas.summary import MeasuredSummary
from tasks.engine.answering import answer_words
from tasks.engine.failure import EngineDied
from tasks.engine.keeper import EngineKeeper
from tasks.engine.protocol import Steps
from tasks.engine.pulse import Pulse, hang_seconds
from tasks.engine.stage import build_engine
from tasks.load.attended import Attended
from tasks.load.cell import CellRun, Phase, run_cell
from tasks.load.clients import Clients, beside
from tasks.load.elsewhere import ClientElsewhere
from tasks.load.finish import Found, finish, is_measured, leave_behind
from tasks.load.questions import Questions
from tasks.load.rows import cell_metrics, cell_row, request_rows
from tasks.load.search import find_knee
from tasks.load.watched import is_served
from tasks.record.steps import StepRecorder, StepTotals, engine_metrics
from tasks.responses import RowContext
from tasks.session import Session
from tasks.telemetry import Telemetry

LATE_MS = 5.0
"""A client that is later than this at the 99th percentile is itself what is measured."""
FAST_S = 0.1
"""Telemetry is read so often while a cell is measured."""
_SAY_EVERY_S = 0.25
DIED = "the engine died while this cell was measured"
_PHASES: tuple[Phase, ...] = ("warmup", "measure", "cooldown")

Say = Callable[[int, int, str], None]
"""Cells done, cells in all as far as is known, and what is measured now."""
Gather = Callable[[Callable[[str], None]], AbstractContextManager[Sequence[ClientElsewhere]]]
"""Has clients on other machines come, and sends them home at its end. It is given what to say meanwhile."""


def measure_load(
    session: Session,
    engine: EngineKeeper,
    *,
    built: BuiltEngine,
    folder: Path,
    say: Say | None = None,
    gather: Gather | None = None,
) -> MeasuredSummary:
    """Measures the run's benchmark; writes cells, requests, steps, telemetry and the metrics `perf.*`.

    A run that is resumed measures everything anew, as half of its cells would be of another engine and another day,
    unless it had measured everything. folder: the model's, for its tokenizer. gather: where `client_hosts` asks for
    clients on other machines. Raises EngineError where the engine died too often, or clients did not come; what had
    been measured is on disk."""
    benchmark = session.run.experiment.benchmark
    if benchmark is None:
        raise ValueError("the experiment has no benchmark")
    began = time.monotonic()
    session.built = built
    if benchmark.client_hosts is not None and gather is None:
        raise ValueError("nobody has clients on other machines come")
    measuring = _Measuring(session, engine, benchmark, built=built, folder=folder, say=say, gather=gather)
    if session.run.resumed and is_measured(session):
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
        gather: Gather | None,
    ) -> None:
        self._session = session
        self._engine = engine
        self._benchmark = benchmark
        self._built = built
        self._say = say
        self._gather = gather if benchmark.client_hosts is not None else None
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
        self._found = Found(warnings=list(self._questions.warnings))
        self._clock = RowContext(engine_id=built.engine_id, sampling=self._questions.sampling, keys={}, attempts={})
        self._own_steps = session.steps is None
        self._steps = session.steps or StepRecorder(
            run=session.run, arms=[], write=session.store.write, utc=self._clock.utc
        )
        self._telemetry = Telemetry(pid=engine.client.pid, write=lambda rows: session.store.write("telemetry", rows))
        self._clients: Clients | None = None
        """Those that send a load together; None where one does."""
        self._telemetry.every(FAST_S)
        self._late: dict[str, float] = {}
        """How late the client was at the 99th percentile, in ms, by point, where that is too late."""
        self._done = 0
        searching = sum(load.probes + len(load.sweep) * benchmark.repeats for load in searches(benchmark))
        self._total = len(self._points) * benchmark.repeats + searching * len(self._arms)

    def all(self) -> None:
        """Every cell, in its order."""
        if self._session.run.resumed:
            leave_behind(self._session)
        self._telemetry.start()
        with ExitStack() as stack:
            elsewhere = [] if self._gather is None else stack.enter_context(self._gather(self._waits))
            if elsewhere or self._benchmark.clients > 1:
                own = beside(self._engine.client, n=self._benchmark.clients, elsewhere=elsewhere)
                self._clients = stack.enter_context(own)
            self._every_cell()
        self._clients = None

    def _every_cell(self) -> None:
        more = [point for load in searches(self._benchmark) for arm in self._arms for point in self._below(load, arm)]
        for repeat, point in in_turns([*self._points, *more], repeats=self._benchmark.repeats):
            self._cell(point, repeat)
        self._found.whole = True

    def _below(self, load: SaturateLoad, arm: str) -> list[Point]:
        """The rates to measure below an arm's knee, which is looked for."""
        knee = find_knee(load, arm=arm, measure=self._cell, slo=self._benchmark.slo)
        self._found.knees.append(knee)
        if knee.value is None:
            self._found.warnings.append(
                f"{arm}: no rate kept the SLO for {load.share:.0%} of the requests, so that there is no knee"
            )
            return []
        return below_knee(load, arm=arm, knee=knee.value)

    def end(self) -> Found:
        """Ends telemetry and writes what rests on all cells."""
        found = self._found
        found.warnings += [
            f"{point_id}: the client itself sent late (p99 up to {late:.1f} ms) and was the bottleneck: fewer requests "
            "a second, or a machine of its own for the client"
            for point_id, late in self._late.items()
        ]
        self._telemetry.stop()
        if self._telemetry.warning:
            found.warnings.append(self._telemetry.warning)
        self._steps.take(self._engine.client.take_steps(), engine_id=self._built.engine_id)
        if self._own_steps:
            self._steps.end()
        finish(self._session, found, benchmark=self._benchmark, built=self._built, arms=self._arms, row=self._row)
        return found

    def _cell(self, point: Point, repeat: int) -> CellRun | None:
        """Measures one cell and writes its rows. One during which the engine died is left behind, None, and the run
        goes on with another engine, as often as `engine.failures` says."""
        for before in self._found.runs[-1:]:
            before.taken.clear()  # it is on disk, and a long benchmark has many
        run = CellRun(
            point=point,
            cell_id=self._cell_id(point, repeat),
            engine_id=self._built.engine_id,
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
        return None if run.cell_id in self._found.abandoned else run

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
            Attended(self._clients or client, pulse),
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
        self._engine.client.cell_begins()
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
            self._late[run.point.point_id] = max(late, self._late.get(run.point.point_id, 0.0))
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
        if self._clients is not None:
            raise died  # the others are clients of what is gone
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
            prompts=self._questions.kind,
            context=self._clock,
            abandoned=run.cell_id in self._found.abandoned,
        )

    def _waits(self, said: str) -> None:
        if self._say is not None:
            self._say(0, max(self._total, 1), said)

    def _tell(self, run: CellRun, answers: int) -> None:
        if self._say is not None:
            self._say(self._done, max(self._total, self._done + 1), f"{run.point.point_id}, {answers:,} answers")


def _of_cell(totals: StepTotals, run: CellRun, *, engine_id: str) -> list[Aggregate]:
    """`perf.engine.*`: what the engine did in the cell, by the definitions of `engine.*`."""
    return [
        replace(metric, name=f"perf.{metric.name}", arm=run.point.arm, cell_id=run.cell_id)
        for metric in engine_metrics(totals, engine_id=engine_id)
    ]
