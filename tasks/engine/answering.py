"""The generating step of a run: its requests in the order in which they can be asked, over the deaths of engines."""

import dataclasses
import datetime
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schemas.built import BuiltEngine
from schemas.sample import Request
from schemas.summary import GeneratedSummary
from tasks.dataset.tokenizer import Tokenizer
from tasks.engine.endpoint_build import words_of
from tasks.engine.failure import EngineDied
from tasks.engine.keeper import EngineKeeper, OutOfTime
from tasks.engine.pulse import hang_seconds
from tasks.engine.stage import build_engine
from tasks.engine.turns import Turns
from tasks.engine.waves import Wave, Waves
from tasks.generate import GenerateSummary, Replacement, Update, generate
from tasks.preflight.words import disagreements
from tasks.record.answers import last_attempts
from tasks.record.rows import cell_rows, grammar_rows, metric_rows
from tasks.record.steps import StepRecorder
from tasks.requests import request_key
from tasks.responses import FINAL, RowContext, Words, unmatched_row
from tasks.session import Session
from tasks.telemetry import Telemetry


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
                arms=_arms(self._session),
                started_at=self._started_at,
                ended_at=_now(),
            ),
        )

    def about_to_ask(self, requests: Sequence[Request], before: dict[str, dict[str, Any]]) -> None:
        """Names what is asked next: its keys, and how often it was asked before."""
        keys = self.context.keys | _keys(self._session, requests, built=self.built)
        asked = {
            request.request_id: before[request.request_id]["attempt"] + 1
            for request in requests
            if request.request_id in before
        }
        self._session.request_keys = keys
        self.context = dataclasses.replace(self.context, keys=keys, attempts=self.context.attempts | asked)


def generate_answers(
    session: Session,
    engine: EngineKeeper,
    *,
    built: BuiltEngine,
    on_update: Callable[[Update], None] | None = None,
) -> GeneratedSummary:
    """Makes every request that this run has not answered yet; writes requests, cells, grammars, telemetry and steps.

    What hangs on another answer (the length of `free_matched`, the retries of `repair`) is asked when that is there.
    An engine that dies, hangs or runs out of memory is followed by another one, with what is not answered. Raises
    EngineError where it died too often; what had been answered is on disk."""
    run = session.run
    context = RowContext(
        engine_id=built.engine_id,
        sampling={dataset.name: dataset.sampling for dataset in run.experiment.datasets},
        keys={},
        attempts={},
        words=answer_words(session, built),
    )
    telemetry = Telemetry(pid=engine.client.pid, write=lambda rows: session.store.write("telemetry", rows))
    telemetry.start()
    steps = StepRecorder(run=run, arms=_arms(session), write=session.store.write, utc=context.utc)
    session.steps = steps
    going = _Succession(session, engine, telemetry, built=built, context=context)
    asking = _Asking(session, engine, going, steps, on_update=on_update)
    try:
        asking.all()
    finally:
        telemetry.stop()
        steps.take(engine.client.take_steps(), engine_id=going.built.engine_id)
        steps.end()
        going.write_cells()
        session.store.write("metrics", metric_rows(engine.metrics()))
    rows, summary = answered_so_far(session), asking.summary
    _write_grammars(session, going.built, session.requests, rows)
    return GeneratedSummary(
        requests=len(session.requests),
        reused=asking.reused,
        statuses=dict(summary.statuses),
        failed=summary.failed - asking.unmatched + asking.refused_before,
        output_tokens=summary.output_tokens,
        prompt_tokens=summary.prompt_tokens,
        wall_s=summary.wall_s,
        stopped=summary.stopped,
        warnings=[*([telemetry.warning] if telemetry.warning else []), *_surprises(session, rows)],
    )


class _Asking:
    """The waves of a run, one after the other. summary: what came of all of them; unmatched: requests without a guided
    answer to be as long as, which count as no failure of their own."""

    def __init__(
        self,
        session: Session,
        engine: EngineKeeper,
        going: _Succession,
        steps: StepRecorder,
        *,
        on_update: Callable[[Update], None] | None,
    ) -> None:
        self.summary = GenerateSummary(total=len(session.requests))
        self.reused = self.refused_before = self.unmatched = 0
        self._session = session
        self._engine = engine
        self._going = going
        self._steps = steps
        self._on_update = on_update

    def all(self) -> None:
        """Asks everything, or until the run's time is over."""
        built = self._going.built
        waves = Waves(self._session, at_once=_window(built) // 2, room=built.resolved.get("kv_tokens"))
        while self.summary.stopped is None and (wave := waves.next(answered_so_far(self._session))) is not None:
            self._ask(wave)

    def _ask(self, wave: Wave) -> None:
        session, going, before = self._session, self._going, answered_so_far(self._session)
        going.about_to_ask([*wave.requests, *(request for request, _ in wave.unmatched)], before)
        answered = {
            request.request_id
            for request in wave.requests
            if (row := before.get(request.request_id)) is not None
            and row["status"] in FINAL
            and row["request_key"] == going.context.keys[request.request_id]
        }
        self.reused += len(answered)
        self.refused_before += sum(before[request_id]["status"] == "refused" for request_id in answered)
        without = [unmatched_row(request, going.context, why=why) for request, why in wave.unmatched]
        session.store.write("requests", without)
        self.unmatched += len(without)
        self.summary.done += len(without)
        self.summary.statuses.update(row["status"] for row in without)
        todo = [request for request in wave.requests if request.request_id not in answered]
        if todo and wave.forget:
            self._engine.client.reset_prefix_cache()
        if todo:
            self._add(self._generate(todo, ahead=wave.ahead))

    def _generate(self, todo: Sequence[Request], *, ahead: int) -> GenerateSummary:
        going, run = self._going, self._session.run
        return generate(
            engine=self._engine.client,
            requests=todo,
            context=going.context,
            window=_window(going.built),
            write=lambda rows: self._session.store.write("requests", rows),
            on_update=self._telling(len(todo) + ahead),
            on_steps=lambda messages, engine_id: self._steps.take(messages, engine_id=engine_id),
            deadline=going.deadline,
            hang_s=hang_seconds(run.experiment.vllm.failures.hang_s, device=going.built.device.kind),
            replace=going.replace,
        )

    def _telling(self, to_come: int) -> Callable[[Update], None] | None:
        """Tells of a wave as a part of all."""
        tell, before = self._on_update, dataclasses.replace(self.summary)
        if tell is None:
            return None
        return lambda update: tell(
            Update(
                done=before.done + update.done,
                total=before.done + to_come,
                output_tokens=before.output_tokens + update.output_tokens,
                elapsed_s=before.wall_s + update.elapsed_s,
            )
        )

    def _add(self, done: GenerateSummary) -> None:
        summary = self.summary
        summary.done += done.done
        summary.statuses.update(done.statuses)
        summary.output_tokens += done.output_tokens
        summary.prompt_tokens += done.prompt_tokens
        summary.wall_s += done.wall_s
        summary.stopped = done.stopped


def answer_words(session: Session, built: BuiltEngine) -> Words | None:
    """What a server that takes no token ids gets in their place; None for an engine that takes them."""
    if built.resolved.get("kind") != "endpoint":
        return None
    tokenizer = Tokenizer.from_folder(Path(built.model.path))
    return words_of(session.samples(), tokenizer=tokenizer, resolved=built.resolved)


def _arms(session: Session) -> list[str]:
    return sorted({request.arm for request in [*session.requests, *session.retries]})


def _keys(session: Session, requests: Sequence[Request], *, built: BuiltEngine) -> dict[str, str]:
    sampling = {dataset.name: dataset.sampling for dataset in session.run.experiment.datasets}
    return {
        request.request_id: request_key(request, identity=built.identity, sampling=sampling[request.dataset])
        for request in requests
    }


def _window(built: BuiltEngine) -> int:
    if built.resolved.get("kind") == "endpoint":
        return int(built.resolved["max_num_seqs"])
    return 2 * int(built.resolved["max_num_seqs"]) * int(built.resolved.get("data_parallel_size") or 1)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def answered_so_far(session: Session) -> dict[str, dict[str, Any]]:
    """What is known of each request so far, by request_id: of its last attempt."""
    columns = ["request_key", "status", "error", "valid", "output_tokens"]
    rows = last_attempts(session.run.home, session.run.run_id, columns=columns)
    return {row["request_id"]: row for row in rows}


def _surprises(session: Session, rows: dict[str, dict[str, Any]]) -> list[str]:
    """Where the engine did otherwise with a grammar than was found beforehand."""
    if session.preflight is None:
        return []
    statuses = {request_id: row["status"] for request_id, row in rows.items()}
    return disagreements(session.preflight, session.requests, statuses=statuses)


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
            examined=() if session.preflight is None else session.preflight.examined,
        ),
    )
