"""Judging answers that are there: what is still to be asked, of whom, and the rows of what came."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.dataset import MetricUse
from schemas.engine import VllmEngine
from schemas.errors import ConfigError, RunError
from schemas.judge import Endpoint, Judgement, JudgeOptions
from schemas.sample import ANSWERED, Response, Sample
from tasks.config.judges import judge_model
from tasks.generate import PART_EVERY_S, PART_ROWS, Update
from tasks.judge.ask import FAILED, FINAL, Ask, Judge, Reply, Row, judgement_row, make_ask, make_judge
from tasks.score.registry import metric

_JUDGEMENT = tuple(Judgement.__slots__)
Slot = Callable[[], AbstractContextManager[None]]
"""What is entered before an engine starts and left when it has ended: it waits for its turn on the device."""


@dataclass(frozen=True, kw_only=True)
class OwnEngine:
    """How a judge that assay runs itself is run. cache: where models are kept; engine: the block of settings."""

    cache: Path
    engine: VllmEngine
    log_path: Path
    slot: Slot = nullcontext


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers of one dataset, with the metrics that they are scored by."""

    metrics: Sequence[MetricUse]
    samples: Sequence[Sample]
    responses: Sequence[Response]


@dataclass(kw_only=True)
class Judged:
    """What came of it. rows: of `judgements`, those of before too. reused: how many of them; stopped: why a judge was
    not asked about all answers, one sentence a judge."""

    wanted: int = 0
    reused: int = 0
    rows: list[Row] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def judgements(self) -> list[Judgement]:
        return judgements_of(self.rows)

    @property
    def statuses(self) -> Counter[str]:
        """How the calls of now ended."""
        return Counter(row["status"] for row in self.new)

    @property
    def failed(self) -> int:
        """Answers without a verdict that the judge did not lose by its form: refused, timed out, failed, not asked."""
        return self.wanted - len(self.rows) + sum(row["status"] in FAILED for row in self.rows)

    @property
    def warnings(self) -> list[str]:
        found = list(self.stopped)
        without = Counter(row["status"] for row in self.rows if row["status"] != "ok")
        if without:
            counts = ", ".join(f"{count:,} {status}" for status, count in sorted(without.items()))
            found.append(f"judge: {without.total():,} of {self.wanted:,} answers have no verdict ({counts})")
        return found


def judges_in(metrics: Iterable[MetricUse]) -> list[tuple[str, JudgeOptions]]:
    """Those of the metrics that rest on a judge: what the dataset calls them, and their options."""
    found = []
    for use in metrics:
        each = metric(use.use)
        if each.score_judged is not None:
            options = each.Options(**use.options)
            if not isinstance(options, JudgeOptions):
                raise TypeError(f"the options of {use.use} are no JudgeOptions")
            found.append((use.name, options))
    return found


def judgements_of(rows: Iterable[Mapping[str, Any]]) -> list[Judgement]:
    """Rows of `judgements` as scores read them."""
    return [Judgement(**{name: row[name] for name in _JUDGEMENT}) for row in rows]


def judge_answers(
    answers: Sequence[Answers],
    *,
    before: Iterable[Mapping[str, Any]],
    write: Callable[[Sequence[Row]], None],
    own: OwnEngine,
    on_update: Callable[[Update], None] | None = None,
    ask: bool = True,
    strict: bool = False,
) -> Judged:
    """Has every answer judged that has none of its judge's judgements yet.

    before: rows of `judgements` that are there: one whose judge and message are the same, and whose judge answered, is
    not asked again. write: takes new rows and returns once they are on disk; called as they come, about every two
    seconds. ask: False to look only at what is there. strict: an endpoint that cannot be used is a ConfigError, and not
    a sentence in `stopped`.

    Raises ConfigError for a prompt that does not fit a row, EngineError for an engine that cannot be built or dies. An
    endpoint that goes away costs the answers that are left, and `stopped` says so."""
    started = time.monotonic()
    work = _Work(before=before, write=write, on_update=on_update)
    models = _Models(own)
    for each in answers:
        for name, options in judges_in(each.metrics):
            judge = models.judge(name, options)
            work.add(judge, each)
    try:
        if ask:
            _ask(work, models, strict=strict)
        elif left := work.left:
            work.judged.stopped.append(f"judge: {left:,} answers are not judged yet, and no judge was asked")
    finally:
        work.flush(force=True)
        work.judged.wall_s = time.monotonic() - started
    return work.judged


def _ask(work: "_Work", models: "_Models", *, strict: bool) -> None:
    for title, asks in work.by_place().items():
        options = asks[0].judge.options
        if options.endpoint is not None:
            _ask_endpoint(work, options.endpoint, asks, strict=strict)
        else:
            from tasks.judge.engine import ask_engine  # noqa: PLC0415 - only a judge that assay runs needs an engine

            ask_engine(
                models.opened[title],
                asks,
                engine=models.own.engine,
                log_path=models.own.log_path,
                slot=models.own.slot,
                take=work.take,
                tick=work.flush,
                on_update=work.on_update,
            )


def _ask_endpoint(work: "_Work", endpoint: Endpoint, asks: Sequence[Ask], *, strict: bool) -> None:
    from tasks.judge.endpoint import ask_endpoint, check_endpoint  # noqa: PLC0415 - loads an HTTP client

    try:
        check_endpoint(endpoint)
    except ConfigError as error:
        if strict:
            raise
        stopped: str | None = str(error)
    else:
        stopped = ask_endpoint(endpoint, asks, take=work.take, tick=work.tick)
    if stopped is not None:
        left = len(asks) - work.taken_of(asks)
        work.judged.stopped.append(
            f"judge: {left:,} of {len(asks):,} answers were not judged: {stopped}; "
            "`assay rescore` asks for what is missing"
        )


class _Models:
    """The judges of one session; a model that several use is opened once."""

    def __init__(self, own: OwnEngine) -> None:
        self.own = own
        self.opened: dict[str, Any] = {}

    def judge(self, name: str, options: JudgeOptions) -> Judge:
        endpoint = options.endpoint
        if endpoint is not None:
            return make_judge(
                name,
                options,
                who={"kind": "endpoint", "model": endpoint.model, "body": endpoint.body},
                place={"url": endpoint.url},
                model=endpoint.model,
            )
        from tasks.judge.engine import open_model  # noqa: PLC0415 - only a judge that assay runs needs an engine

        if options.model is None:
            raise RunError("a judge has neither an endpoint nor a model")
        model = open_model(judge_model(options.model), cache=self.own.cache)
        self.opened.setdefault(model.title, model)
        return make_judge(
            name,
            options,
            who=model.who(self.own.engine),
            place=model.place(),
            model=model.title,
            control_tokens=model.control_tokens(),
        )


class _Work:
    """What is to be asked, and what came."""

    def __init__(
        self,
        *,
        before: Iterable[Mapping[str, Any]],
        write: Callable[[Sequence[Row]], None],
        on_update: Callable[[Update], None] | None,
    ) -> None:
        self.judged = Judged()
        self.on_update = on_update
        self._before = {(row["request_id"], row["metric"]): row for row in before}
        self._write = write
        self._asks: list[Ask] = []
        self._taken: set[tuple[str, str]] = set()
        self._fresh: list[Row] = []
        self._since = self._started = time.monotonic()

    def add(self, judge: Judge, answers: Answers) -> None:
        """Takes in the answers that this judge is to see."""
        samples = {sample.sample_id: sample for sample in answers.samples}
        for response in answers.responses:
            answered = response.kind == "generate" and response.status in ANSWERED and response.output is not None
            if not answered or response.sample_id not in samples:
                continue
            ask = make_ask(judge, sample=samples[response.sample_id], response=response)
            self.judged.wanted += 1
            known = self._before.get((response.request_id, judge.metric))
            if known is not None and known["judge_key"] == ask.key and known["status"] in FINAL:
                self.judged.rows.append(dict(known))
                self.judged.reused += 1
            else:
                self._asks.append(ask)

    @property
    def left(self) -> int:
        """How many answers are to be asked about."""
        return len(self._asks)

    def by_place(self) -> dict[str, list[Ask]]:
        """What is to be asked, by where: an endpoint's settings, or a model."""
        found: dict[str, list[Ask]] = {}
        for ask in self._asks:
            endpoint = ask.judge.options.endpoint
            place = ask.judge.model if endpoint is None else endpoint.model_dump_json()
            found.setdefault(place, []).append(ask)
        return found

    def take(self, ask: Ask, reply: Reply) -> None:
        if not self._fresh:
            self._since = time.monotonic()
        row = judgement_row(ask, reply)
        self._fresh.append(row)
        self.judged.new.append(row)
        self.judged.rows.append(row)
        self._taken.add((ask.response.request_id, ask.judge.metric))

    def taken_of(self, asks: Iterable[Ask]) -> int:
        return sum((ask.response.request_id, ask.judge.metric) in self._taken for ask in asks)

    def tick(self) -> None:
        """Writes what is due, and tells how far it is."""
        self.flush()
        if self.on_update is not None:
            tokens = sum(row["output_tokens"] for row in self.judged.new if row["output_tokens"] is not None)
            elapsed = time.monotonic() - self._started
            total = len(self._asks)
            self.on_update(Update(done=len(self._taken), total=total, output_tokens=tokens, elapsed_s=elapsed))

    def flush(self, *, force: bool = False) -> None:
        due = len(self._fresh) >= PART_ROWS or time.monotonic() - self._since >= PART_EVERY_S
        if self._fresh and (force or due):
            self._write(self._fresh)
            self._fresh = []
