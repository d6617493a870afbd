"""The engine of a run: started, built as it was planned, and what it became read back."""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from schemas.built import BuiltEngine
from schemas.experiment import Experiment
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts
from tasks.engine.client import EngineClient
from tasks.engine.endpoint_build import endpoint_device, endpoint_downgrades, endpoint_identity, endpoint_process
from tasks.engine.failure import EngineDied
from tasks.engine.keeper import EngineKeeper, OutOfTime
from tasks.engine.reuse import take_over
from tasks.engine.settings import ProcessSettings, build_options, downgrades, identifying, process_settings
from tasks.record.rows import engine_row, plan_rows
from tasks.requests import engine_identity
from tasks.session import Session


def start_engine(experiment: Experiment, *, device: DeviceFacts, log_path: Path, home: Path) -> EngineClient:
    """Starts the engine's process, with what of the plan must be known before: its cores, whether it compiles, what
    vLLM reads while it is imported. home: ASSAY_HOME, which keeps what is compiled."""
    return EngineClient(log_path=log_path, settings=_settings(experiment, device=device, home=home))


def _settings(experiment: Experiment, *, device: DeviceFacts, home: Path) -> ProcessSettings:
    if experiment.endpoint is not None:
        return endpoint_process()
    return process_settings(experiment.vllm, device=device, cache=home / "cache")


def _first(
    early: EngineClient | None, experiment: Experiment, *, device: DeviceFacts, log_path: Path, home: Path
) -> EngineClient:
    """The process that was started before the run had a folder, now with its log there; another one where there is
    none, it was started with other settings, or its log cannot be moved (to another disk, say). The log of an engine
    that stands belongs to the run that built it, too."""
    if early is not None:
        if early.settings == _settings(experiment, device=device, home=home):
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
    experiment, run_id = session.run.experiment, session.run.run_id
    endpoint = experiment.endpoint
    options = build_options(plan) if endpoint is None else endpoint.model_dump(mode="json")
    name = model.path if endpoint is None else endpoint.model
    stood = take_over(keeper.client, model=name, options=options)
    if stood is None and keeper.client.standing is not None:
        keeper.anew()
        keeper.asked(plan)
    engine = keeper.client
    hello = engine.hello(timeout_s=keeper.time_left(deadline))
    asked_at = time.monotonic()
    if stood is None:
        ready = engine.build(model=name, options=options, timeout_s=keeper.time_left(deadline), by=run_id)
    else:
        ready = stood.built
    start_s = sum(hello.phases.values()) + time.monotonic() - asked_at
    settings = [model.fingerprint, hello.versions, device.name, identifying(options)]
    if endpoint is None:
        identity = engine_identity(
            options=options,
            model_fingerprint=model.fingerprint,
            versions=hello.versions,
            device_name=device.name,
            resolved=ready.resolved,
        )
        lessened = downgrades(options, ready.resolved)
    else:
        device = endpoint_device(endpoint, device)
        identity = endpoint_identity(endpoint, resolved=ready.resolved, model_fingerprint=model.fingerprint)
        settings = [identity, device.name]
        lessened = endpoint_downgrades(ready.resolved)
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
        downgrades=[*lessened, *keeper.lowered],
        ladder=list(keeper.ladder),
        start_s=start_s if stood is None else None,
        log_path=str(engine.log_path if stood is None else session.run.engine_log),
        built_by=None if stood is None else stood.by,
    )
    if keeper.first_time(built.engine_id):  # one that was only started again has its rows already
        session.store.write("plans", plan_rows(plan, engine_id=built.engine_id))
        session.store.write("engines", [engine_row(built)])
    return built
