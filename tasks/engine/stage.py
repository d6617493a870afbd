"""The engine's steps of a run: build what was planned and read back what it became, then let it answer."""

import contextlib
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
from tasks.engine.settings import build_options, downgrades
from tasks.generate import Update, generate
from tasks.plan.graphs import plan_compile
from tasks.plan.host import plan_cores
from tasks.record.answers import last_attempts
from tasks.record.rows import cell_rows, engine_row, grammar_rows, plan_rows
from tasks.requests import engine_identity, request_key
from tasks.responses import FINAL, RowContext
from tasks.session import Session
from tasks.telemetry import Telemetry


def start_engine(experiment: Experiment, *, device: DeviceFacts, log_path: Path) -> EngineClient:
    """Starts the engine's process, with what of the plan must be known before: its cores, and whether it compiles."""
    cores, compiles = _known_before(experiment, device)
    return EngineClient(log_path=log_path, cores=cores, compiles=compiles)


def take_over(
    early: EngineClient | None, experiment: Experiment, *, device: DeviceFacts, log_path: Path
) -> EngineClient:
    """The process that was started before the run had a folder, now with its log there; another one where there is
    none, it was started with other cores, or its log cannot be moved (to another disk, say)."""
    if early is not None:
        if early.settings == _known_before(experiment, device):
            with contextlib.suppress(OSError):
                early.move_log(log_path)
                return early
        early.close()
    return start_engine(experiment, device=device, log_path=log_path)


def _known_before(experiment: Experiment, device: DeviceFacts) -> tuple[tuple[int, ...], bool]:
    compiled = plan_compile(device=device, asked=experiment.engine.compile).value
    return tuple(plan_cores(device).value), device.kind != "cpu" or compiled != "none"


def build_engine(
    session: Session,
    engine: EngineClient,
    *,
    plan: EnginePlan,
    model: ModelFacts,
    device: DeviceFacts,
) -> BuiltEngine:
    """Builds the planned engine, writes the tables plans and engines. Raises EngineError."""
    options = build_options(plan)
    hello = engine.hello()
    asked_at = time.monotonic()
    ready = engine.build(model=model.path, options=options)
    start_s = sum(hello.phases.values()) + time.monotonic() - asked_at
    settings = [model.fingerprint, hello.versions, device.name, options]
    identity = engine_identity(
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
        phases=ready.phases,
        sizes=ready.sizes,
        downgrades=downgrades(options, ready.resolved),
        start_s=start_s,
        log_path=str(engine.log_path),
    )
    session.store.write("plans", plan_rows(plan, engine_id=built.engine_id))
    session.store.write("engines", [engine_row(built)])
    return built


def generate_answers(
    session: Session,
    engine: EngineClient,
    *,
    built: BuiltEngine,
    on_update: Callable[[Update], None] | None = None,
) -> GeneratedSummary:
    """Makes every request that this run has not answered yet; writes requests, cells, grammars and telemetry.

    Raises EngineError if the engine dies; what had been answered is on disk."""
    run, requests = session.run, session.requests
    sampling = {dataset.name: dataset.sampling for dataset in run.experiment.datasets}
    keys = {
        request.request_id: request_key(request, identity=built.identity, sampling=sampling[request.dataset])
        for request in requests
    }
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
    telemetry = Telemetry(pid=engine.pid, write=lambda rows: session.store.write("telemetry", rows))
    telemetry.start()
    started_at = datetime.datetime.now(datetime.UTC)
    try:
        summary = generate(
            engine=engine,
            requests=todo,
            context=context,
            window=2 * int(built.resolved["max_num_seqs"]),
            write=lambda rows: session.store.write("requests", rows),
            on_update=on_update,
            deadline=None if run.max_time_s is None else time.monotonic() + run.max_time_s,
        )
    finally:
        telemetry.stop()
        session.store.write(
            "cells",
            cell_rows(
                engine_id=built.engine_id,
                arms=sorted({request.arm for request in requests}),
                started_at=started_at,
                ended_at=datetime.datetime.now(datetime.UTC),
            ),
        )
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
