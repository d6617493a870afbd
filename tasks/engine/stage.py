"""The engine's steps of a run: build what was planned and read back what it became, then let it answer."""

import contextlib
import dataclasses
import datetime
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schemas.built import BuiltEngine
from schemas.experiment import Experiment
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts
from schemas.sample import Request
from schemas.summary import GeneratedSummary
from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.keeper import EngineKeeper, OutOfTime
from tasks.engine.pulse import hang_seconds
from tasks.engine.reuse import take_over
from tasks.engine.settings import build_options, downgrades, identifying, process_settings
from tasks.engine.turns import Turns
from tasks.generate import Replacement, Update, generate
from tasks.record.answers import last_attempts
from tasks.record.rows import cell_rows, engine_row, grammar_rows, metric_rows, plan_rows
from tasks.record.steps import StepRecorder
from tasks.requests import engine_identity, request_key
from tasks.responses import FINAL, RowContext
from tasks.session import Session
from tasks.telemetry import Telemetry


def start_engine(experiment: Experiment, *, device: DeviceFacts, log_path: Path, home: Path) -> EngineClient:
    """Starts the engine's process, with what of the plan must be known before: its cores, whether it compiles, what
    vLLM reads while it is imported. home: ASSAY_HOME, which keeps what is compiled."""
    known = process_settings(experiment.engine, device=device, cache=home / "cache")
    return EngineClient(log_path=log_path, settings=known)


def _first(
    early: EngineClient | None, experiment: Experiment, *, device: DeviceFacts, log_path: Path, home: Path
) -> EngineClient:
    """The process that was started before the run had a folder, now with its log there; another one where there is
    none, it was started with other settings, or its log cannot be moved (to another disk, say). The log of an engine
    that stands belongs to the run that built it, too."""
    if early is not None:
        if early.settings == process_settings(experiment.engine, device=device, cache=home / "cache"):
            with contextlib.suppress(OSError):
                (early.move_log if early.standing is None else early.share_log)(log_path)
                return early
        early.close()
    return start_engine(experiment, device=device, log_path=log_path, home=home)


def keep_engine(
    session: Session,
    *,
    device: DeviceFacts,
    warn: Callable[[str], None],
    note: Callable[[str], None],
    early: EngineClient | None = None,
    hand_on: Callable[[EngineClient], bool] | None = None,
) -> EngineKeeper:
    """Who keeps the run's engine going, over its deaths. early: a process that was started before the run had a folder,
    or an engine that stands. warn: says what went wrong with an engine; note: that it goes on; hand_on: takes it when
    the run is over."""
    experiment = session.run.experiment
    return EngineKeeper(
        session,
        first=_first(early, experiment, device=device, log_path=session.run.engine_log, home=session.run.home),
        start=lambda path: start_engine(experiment, device=device, log_path=path, home=session.run.home),
        warn=warn,
        note=note,
        hand_on=hand_on,
    )


def build_engine(
    session: Session,
    engine: EngineKeeper,
    *,
    plan: EnginePlan,
    model: ModelFacts,
    device: DeviceFacts,
    deadline: float | None = None,
) -> BuiltEngine:
    """Builds the planned engine, or takes over one like it that stands; writes plans, engines and engine_starts.

    Where memory runs out, one of less, down the memory ladder. Raises EngineError where that does not help or something
    else went wrong, OutOfTime where it was not ready at `deadline` (monotonic), or within a cell's time."""
    cell = session.run.cell
    if deadline is None and cell is not None and cell.start_limit_s is not None:
        deadline = time.monotonic() + cell.start_limit_s
    while True:
        engine.asked(plan)
        try:
            engine.client.hello(timeout_s=engine.time_left(deadline))
            built = _build(session, engine, plan=plan, model=model, device=device, deadline=deadline)
        except EngineDied as died:
            if died.how == "timeout" and deadline is not None and time.monotonic() >= deadline:
                raise OutOfTime("the run's time was over before the engine was ready") from died
            plan = engine.after(died, plan=plan, model=model, while_="building", in_flight=0).plan
        else:
            engine.ready(built.engine_id)
            return built


def _build(
    session: Session,
    keeper: EngineKeeper,
    *,
    plan: EnginePlan,
    model: ModelFacts,
    device: DeviceFacts,
    deadline: float | None,
) -> BuiltEngine:
    options, run_id = build_options(plan), session.run.run_id
    stood = take_over(keeper.client, model=model.path, options=options)
    if stood is None and keeper.client.standing is not None:
        keeper.anew()
        keeper.asked(plan)
    engine = keeper.client
    hello = engine.hello(timeout_s=keeper.time_left(deadline))
    asked_at = time.monotonic()
    if stood is None:
        ready = engine.build(model=model.path, options=options, timeout_s=keeper.time_left(deadline), by=run_id)
    else:
        ready = stood.built
    start_s = sum(hello.phases.values()) + time.monotonic() - asked_at
    settings = [model.fingerprint, hello.versions, device.name, identifying(options)]
    identity = engine_identity(
        options=options,
        model_fingerprint=model.fingerprint,
        versions=hello.versions,
        device_name=device.name,
        resolved=ready.resolved,
    )
    built = BuiltEngine(
        engine_id=hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16],
        model_name=session.run.experiment.model.name,
        model=model,
        device=device,
        plan=plan,
        versions=hello.versions,
        resolved=ready.resolved,
        identity=identity,
        phases=ready.phases if stood is None else {},
        sizes=ready.sizes,
        downgrades=[*downgrades(options, ready.resolved), *keeper.lowered],
        ladder=list(keeper.ladder),
        start_s=start_s if stood is None else None,
        log_path=str(engine.log_path if stood is None else session.run.engine_log),
        built_by=None if stood is None else stood.by,
    )
    if keeper.first_time(built.engine_id):  # one that was only started again has its rows already
        session.store.write("plans", plan_rows(plan, engine_id=built.engine_id))
        session.store.write("engines", [engine_row(built)])
    return built


class _Succession:
    """What changes when another engine takes over while a run is answered: its rows' engine, attempts and keys, what
    telemetry looks at, and the cells. built, context: those of the engine that answers now."""

    def __init__(
        self, session: Session, keeper: EngineKeeper, telemetry: Telemetry, *, built: BuiltEngine, context: RowContext
    ) -> None:
        self.built = built
        self.context = context
        run = session.run
        self.deadline = None if run.max_time_s is None else time.monotonic() + run.max_time_s
        self._session = session
        self._keeper = keeper
        self._telemetry = telemetry
        self._started_at = _now()

    def replace(self, died: EngineDied, turns: Turns) -> Replacement | None:
        """The engine that goes on with these turns. None where the run's time is over before it is ready.

        Raises EngineError where there shall be none."""
        begun, waiting = list(turns.in_flight.values()), turns.waiting
        before, keeper = self.built, self._keeper
        after = keeper.after(
            died,
            plan=before.plan,
            model=before.model,
            while_="answering",
            in_flight=len(begun),
            left=len(waiting),
        )
        try:
            built = build_engine(
                self._session,
                keeper,
                plan=after.plan,
                model=before.model,
                device=before.device,
                deadline=self.deadline,
            )
        except OutOfTime:
            return None
        if built.engine_id != before.engine_id:
            self.write_cells()
            self._started_at = _now()
        keys = dict(self.context.keys)
        if built.identity != before.identity:  # another graph mode, say: what is answered from now on has another key
            keys |= _keys(self._session, [*begun, *waiting], built=built)
        self._session.request_keys = keys
        attempts = {request.request_id: self.context.attempts.get(request.request_id, 0) + 1 for request in begun}
        self.built = built
        self.context = dataclasses.replace(
            self.context,
            engine_id=built.engine_id,
            keys=keys,
            attempts=self.context.attempts | attempts,
        )
        self._telemetry.watch(keeper.client.pid)
        return Replacement(engine=keeper.client, context=self.context, window=_window(built), suspected=after.suspected)

    def write_cells(self) -> None:
        """The cells of the engine that answers now, until now."""
        self._session.store.write(
            "cells",
            cell_rows(
                engine_id=self.built.engine_id,
                arms=sorted({request.arm for request in self._session.requests}),
                started_at=self._started_at,
                ended_at=_now(),
            ),
        )


def generate_answers(
    session: Session,
    engine: EngineKeeper,
    *,
    built: BuiltEngine,
    on_update: Callable[[Update], None] | None = None,
) -> GeneratedSummary:
    """Makes every request that this run has not answered yet; writes requests, cells, grammars, telemetry and steps.

    An engine that dies, hangs or runs out of memory is followed by another one, with what is not answered. Raises
    EngineError where it died too often; what had been answered is on disk."""
    run, requests = session.run, session.requests
    sampling = {dataset.name: dataset.sampling for dataset in run.experiment.datasets}
    keys = _keys(session, requests, built=built)
    session.request_keys = keys
    before = _answered_before(session)
    answered = {
        request_id
        for request_id, row in before.items()
        if row["status"] in FINAL and row["request_key"] == keys.get(request_id)
    }
    context = RowContext(
        engine_id=built.engine_id,
        sampling=sampling,
        keys=keys,
        attempts={request_id: row["attempt"] + 1 for request_id, row in before.items()},
    )
    todo = [request for request in requests if request.request_id not in answered]
    telemetry = Telemetry(pid=engine.client.pid, write=lambda rows: session.store.write("telemetry", rows))
    telemetry.start()
    steps = StepRecorder(
        run=run, arms=[request.arm for request in requests], write=session.store.write, utc=context.utc
    )
    going = _Succession(session, engine, telemetry, built=built, context=context)
    try:
        summary = generate(
            engine=engine.client,
            requests=todo,
            context=context,
            window=_window(built),
            write=lambda rows: session.store.write("requests", rows),
            on_update=on_update,
            on_steps=lambda messages, engine_id: steps.take(messages, engine_id=engine_id),
            deadline=going.deadline,
            hang_s=hang_seconds(run.experiment.engine.failures.hang_s, device=built.device.kind),
            replace=going.replace,
        )
    finally:
        telemetry.stop()
        steps.take(engine.client.take_steps(), engine_id=going.built.engine_id)
        steps.end()
        going.write_cells()
        session.store.write("metrics", metric_rows(engine.metrics()))
    built = going.built
    rows = _answered_before(session)
    _write_grammars(session, built, requests, rows)
    return GeneratedSummary(
        requests=len(requests),
        reused=len(answered),
        statuses=dict(summary.statuses),
        failed=summary.failed + sum(1 for request_id in answered if before[request_id]["status"] == "refused"),
        output_tokens=summary.output_tokens,
        prompt_tokens=summary.prompt_tokens,
        wall_s=summary.wall_s,
        stopped=summary.stopped,
        warnings=[telemetry.warning] if telemetry.warning else [],
    )


def _keys(session: Session, requests: Sequence[Request], *, built: BuiltEngine) -> dict[str, str]:
    sampling = {dataset.name: dataset.sampling for dataset in session.run.experiment.datasets}
    return {
        request.request_id: request_key(request, identity=built.identity, sampling=sampling[request.dataset])
        for request in requests
    }


def _window(built: BuiltEngine) -> int:
    return 2 * int(built.resolved["max_num_seqs"]) * int(built.resolved.get("data_parallel_size") or 1)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _answered_before(session: Session) -> dict[str, dict[str, Any]]:
    """What is known of each request so far: its last attempt's key, status and error, by request_id."""
    columns = ["request_key", "status", "error"]
    rows = last_attempts(session.run.home, session.run.run_id, columns=columns)
    return {row["request_id"]: row for row in rows}


def _write_grammars(
    session: Session, built: BuiltEngine, requests: Sequence[Request], rows: dict[str, dict[str, Any]]
) -> None:
    backend = str(built.resolved["grammar_backend"])
    session.store.write(
        "grammars",
        grammar_rows(
            requests,
            statuses={request_id: row["status"] for request_id, row in rows.items()},
            errors={request_id: row["error"] for request_id, row in rows.items()},
            backend=backend,
            version=built.versions.get(backend),
        ),
    )
