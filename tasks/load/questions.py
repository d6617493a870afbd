"""What the cells of a run ask: its own prompts, drawn ones, or those of a trace."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from schemas.arm import Arm, arm_adapter, arm_kind, arm_name
from schemas.benchmark import (
    Benchmark,
    ClosedLoad,
    LatencyLoad,
    Load,
    OfflineLoad,
    SaturateLoad,
    TraceLoad,
)
from schemas.engine import Sampling
from schemas.plan import ModelFacts, PlannedLoad
from schemas.points import Point
from schemas.prompts import SessionPrompts, ShareGptPrompts
from schemas.sample import Request
from tasks.dataset.tokenizer import Tokenizer
from tasks.engine.protocol import WireResult
from tasks.load.asks import Ask, drawn_asks, lengths_of, next_turn, ordinary_tokens, own_asks, trace_asks
from tasks.load.cell import Asking
from tasks.load.course import expected_requests
from tasks.load.traces import Traced, read_trace
from tasks.responses import Words
from tasks.session import Session

OPEN_AT_ONCE = 256
"""Requests that an open load may come to have in flight, as the plan takes it: where answers are slow they pile up."""


class Questions:
    """Asks of each point and repeat. The same repeat asks the same of every arm, and in every run.

    kind: what the table `cells` calls it. sampling: by dataset; that of drawn prompts, greedy, is under "". warnings:
    what is not asked, and why."""

    def __init__(
        self,
        session: Session,
        benchmark: Benchmark,
        *,
        arms: Sequence[str],
        model: ModelFacts,
        folder: Path,
        words: Words | None = None,
        exact: bool = True,
    ) -> None:
        self._words = words
        self._exact = exact
        """Whether the engine can make an answer go on to a length."""
        experiment = session.run.experiment
        self._benchmark = benchmark
        self._adapters = {arm_name(arm): arm_adapter(arm, own=None) for arm in experiment.arms}
        self.sampling = {dataset.name: dataset.sampling for dataset in experiment.datasets} | {"": Sampling()}
        self.warnings: list[str] = []
        self._own: dict[str, list[Request]] = {}
        self._tokenizer: Tokenizer | None = None
        self._vocabulary: list[int] = []
        self._traces: dict[str, list[Traced]] = {}
        if benchmark.brings_prompts:
            self._tokenizer = Tokenizer.from_folder(folder)
            self._vocabulary = ordinary_tokens(self._tokenizer.inner, end_ids=model.eos_token_ids)
            self.warnings += _without_grammar(experiment.arms, arms)
        else:
            self._own, left_out = own_requests(session.requests, arms=arms)
            self.warnings += left_out
        if not exact and (benchmark.brings_prompts or benchmark.answers == "exact"):
            self.warnings.append(
                "the server cannot go on past a model's end of text: answers end where they end, and not at the length "
                "that was asked for"
            )
        if benchmark.prompts is not None:
            self.kind = benchmark.prompts.kind
        else:
            self.kind = "trace" if benchmark.brings_prompts else "datasets"

    def of(self, point: Point, *, repeat: int, cell_id: str, forget: Callable[[], None] | None) -> Asking:
        """What one cell asks. cell_id: what its drawn prompts differ by from those of all others, where the engine
        cannot forget prefixes."""
        salt = "" if forget is not None else cell_id
        asks, times = self._asks(point, seed=self._benchmark.seed, repeat=repeat, salt=salt)
        warmup, _ = self._asks(point, seed=self._benchmark.seed, repeat=repeat, salt=f"{salt} warmup")
        return Asking(
            asks=asks,
            warmup_asks=warmup,
            sampling=self.sampling,
            adapter=self._adapters[point.arm],
            exact=self._exact and self._benchmark.answers == "exact",
            lengths=self._exact,
            forget=forget,
            words=self._words,
            trace_s=times,
            next_turn=self._next_turn(repeat, salt),
        )

    def _next_turn(self, repeat: int, salt: str) -> Callable[[Ask, WireResult], Ask | None] | None:
        prompts = self._benchmark.prompts
        if not isinstance(prompts, SessionPrompts):
            return None
        base = f"{self._benchmark.seed} {repeat}{salt}"

        def follow(ask: Ask, result: WireResult) -> Ask | None:
            if ask.turn + 1 >= ask.turns:
                return None
            return next_turn(ask, result.token_ids, prompts=prompts, base=base, vocabulary=self._vocabulary)

        return follow

    def _asks(self, point: Point, *, seed: int, repeat: int, salt: str) -> tuple[Iterator[Ask], list[float]]:
        if isinstance(point.load, TraceLoad):
            traced = self._trace(point.load)
            return trace_asks(traced, trace=Path(point.load.path).name, salt=salt, vocabulary=self._vocabulary), [
                each.at_s for each in traced
            ]
        prompts = self._benchmark.prompts
        if prompts is None:
            return own_asks(self._own[point.arm], seed=seed, repeat=repeat, salt=salt), []
        return (
            drawn_asks(
                prompts, seed=seed, repeat=repeat, salt=salt, vocabulary=self._vocabulary, tokenizer=self._tokenizer
            ),
            [],
        )

    def _trace(self, load: TraceLoad) -> list[Traced]:
        if load.path not in self._traces:
            self._traces[load.path] = read_trace(Path(load.path), load.format)
        return self._traces[load.path][: load.requests]


def own_requests(requests: Sequence[Request], *, arms: Sequence[str]) -> tuple[dict[str, list[Request]], list[str]]:
    """The generating requests of each arm, of those samples alone that every one of the arms asks, so that they are
    compared on the same; and what is left out, in words."""
    by_arm: dict[str, dict[tuple[str, str], Request]] = {arm: {} for arm in arms}
    for request in requests:
        if request.arm in by_arm and request.kind == "generate" and request.repeat == 0 and request.refused is None:
            by_arm[request.arm][request.dataset, request.sample_id] = request
    shared = set.intersection(*(set(each) for each in by_arm.values())) if by_arm else set()
    every = {key for each in by_arm.values() for key in each}
    words = []
    missing = sorted({dataset for dataset, _ in every} - {dataset for dataset, _ in shared})
    if missing:
        words.append(
            f"the benchmark asks only what every arm asks, which leaves {', '.join(missing)} out: there is no grammar"
        )
    return {arm: [request for key, request in each.items() if key in shared] for arm, each in by_arm.items()}, words


def _without_grammar(arms: Sequence[Arm], measured: Sequence[str]) -> list[str]:
    left = [arm_name(arm) for arm in arms if arm_kind(arm) == "guided" and arm_name(arm) not in measured]
    return [f"the arm {', '.join(left)} is not measured: drawn prompts have no grammar"] if left else []


def planned_lengths(
    benchmark: Benchmark, *, requests: Sequence[Request], arms: Sequence[str], folder: Path
) -> PlannedLoad:
    """What the benchmark puts on the engine at its most, as the plan looks at it: as many requests as may be in flight,
    of the lengths that it asks. folder: the model's, for its tokenizer."""
    n = max(_at_once(load) for load in benchmark.load)
    if benchmark.prompts is not None:
        tokenizer = Tokenizer.from_folder(folder) if isinstance(benchmark.prompts, ShareGptPrompts) else None
        pairs = lengths_of(benchmark.prompts, n=n, tokenizer=tokenizer)
    elif benchmark.brings_prompts:
        traces = [read_trace(Path(load.path), load.format) for load in benchmark.load if isinstance(load, TraceLoad)]
        pairs = [(each.prompt_tokens, each.output_tokens) for trace in traces for each in trace]
    else:
        own, _ = own_requests(requests, arms=arms)
        every = [request for each in own.values() for request in each]
        pairs = [(len(request.prompt_token_ids), request.max_tokens) for request in every]
        pairs = list(itertools.islice(itertools.cycle(pairs), n)) if pairs else []
    return PlannedLoad(prompt_tokens=[prompt for prompt, _ in pairs], output_tokens=[output for _, output in pairs])


def _at_once(load: Load) -> int:
    match load:
        case ClosedLoad():
            return max(load.concurrency)
        case OfflineLoad():
            return load.requests
        case LatencyLoad():
            return 1
        case SaturateLoad():
            return load.at_once or OPEN_AT_ONCE
        case _:
            return min(load.at_once or OPEN_AT_ONCE, max(1, expected_requests(load) or OPEN_AT_ONCE))
