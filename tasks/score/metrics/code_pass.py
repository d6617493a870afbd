"""code_pass: 1 if the program in the answer passes the sample's tests, else 0. Run in a sandbox.

Formula: the mean over samples of [the tests run to their end without an error]. Unit: share, higher is better. Its
mean is pass@1; pass@k over repeats is computed of it (tasks/score/stats/pass_at_k.py). Source: HumanEval (Chen et al.
2021) and MBPP (Austin et al. 2021). The target is a mapping, or its JSON text, with `tests` (a text, or a list of
them), and where there are such: `entry_point` (the name that HumanEval's `check` is called with), `prompt` (the code
that the answer goes on from) and `setup` (code before the tests). A list alone is the tests. A program that fails,
takes too long or too much, or dies is wrong (0), and the reason says which; tests that are no Python are no score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from schemas.base import Config
from schemas.metric import Aggregate, MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.guide.strict_json import NotJson, parse
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.normalize import cut_at
from tasks.score.sandbox.extract import How, extract_code
from tasks.score.sandbox.outcome import Limits, Outcome, Program
from tasks.score.sandbox.sandbox import UNSANDBOXED, Sandbox, find_sandbox
from tasks.score.stats.pass_at_k import pass_at_k_aggregates

INFO = MetricInfo(name="code_pass", version=1, unit="share", direction="higher", needs="generate", is_rate=True)

_KEYS = ("tests", "entry_point", "prompt", "setup")
_MOST_EXTRACTED = 4000


class Options(Config):
    """How the program is found, and what it may use."""

    extract: How = "auto"
    """Where the program is: auto looks for a fenced block, then for code among words, then takes the answer as what
    goes on from the prompt; continuation takes it so always; whole takes the answer as it is."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins, before anything else (`[DONE]`)."""
    pass_at: list[int] = Field(default=[1], min_length=1)
    """The k of pass@k, computed of the repeats."""
    cpu_s: int = Field(default=5, ge=1, le=600)
    """Seconds of CPU for a program with its tests."""
    wall_s: float = Field(default=8.0, gt=0, le=3600)
    """Seconds by the clock."""
    memory_mb: int = Field(default=1024, ge=64, le=1 << 20)
    """MiB of memory."""
    allow_unsandboxed: bool = False
    """Where no sandbox works, run the programs without one: they can then read and delete your files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    tests: str
    entry_point: str | None
    prompt: str


def sandbox_for(options: Options) -> Sandbox:
    """The sandbox that these options ask for. Raises SandboxMissing where none works and they do not allow that: call
    it when a run is planned."""
    limits = Limits(cpu_s=options.cpu_s, wall_s=options.wall_s, memory_bytes=options.memory_mb << 20)
    return find_sandbox(limits=limits, allow_unsandboxed=options.allow_unsandboxed)


def _mapping(target: Any) -> Any:
    if isinstance(target, str) and target.lstrip().startswith("{"):
        try:
            return parse(target)[0]
        except NotJson:
            return target
    return target


def _task(target: Any) -> _Task | str:
    """What the target says, or why it says nothing."""
    given = _mapping(target)
    if not isinstance(given, dict):
        given = {"tests": given}
    unknown = sorted(set(given) - set(_KEYS))
    if unknown:
        return f"the target has {unknown[0]!r}; it takes {', '.join(_KEYS)}"
    texts = {key: given.get(key) for key in _KEYS}
    for key in ("tests", "setup"):
        lines = texts[key]
        if isinstance(lines, list) and all(isinstance(line, str) for line in lines):
            texts[key] = "\n".join(lines)
    wrong = [key for key, text in texts.items() if text is not None and not isinstance(text, str)]
    if wrong:
        return f"the target's {wrong[0]!r} is no text"
    if not (texts["tests"] or "").strip():
        return "the target has no tests"
    if texts["entry_point"] is not None and not texts["entry_point"].isidentifier():
        return f"the target's entry_point {texts['entry_point']!r} is no name"
    tests = "\n".join(text for text in (texts["setup"], texts["tests"]) if text)
    return _Task(tests=tests, entry_point=texts["entry_point"], prompt=texts["prompt"] or "")


def _program(*, sample: Sample, response: Response, options: Options) -> tuple[Program, str] | str:
    """The program to run and the code found in the answer, or why there is none."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return unscored or "no output"
    task = _task(sample.target)
    if isinstance(task, str):
        return task
    answer = cut_at(response.output, options.stop_at)
    text = extract_code(answer, prompt=task.prompt, entry_point=task.entry_point, how=options.extract)
    shown = text.removeprefix(task.prompt)[:_MOST_EXTRACTED]
    return Program(text=text, tests=task.tests, entry_point=task.entry_point), shown


def _judged(*, response: Response, outcome: Outcome, shown: str, closed: bool) -> Score:
    said = outcome.error or ""
    if outcome.status == "broken_tests":
        return scored(info=INFO, response=response, value=None, reason=f"the sample's tests are no Python: {said}")
    passed = outcome.status == "passed"
    words = [] if passed else [f"{outcome.status}: {said}" if said else outcome.status]
    if not closed:
        words.append(UNSANDBOXED)
    reason = "; ".join(words) or None
    return scored(info=INFO, response=response, value=float(passed), extracted=shown, reason=reason)


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer. Raises SandboxMissing where no sandbox works, RunError where it does not start."""
    return score_many([(sample, response)], options=options, workers=1)[0]


def score_many(
    pairs: Sequence[tuple[Sample, Response]], *, options: Options, workers: int | None = None
) -> list[Score]:
    """The scores of many answers, in their order: `workers` programs run at once (one a core if None)."""
    prepared = [_program(sample=sample, response=response, options=options) for sample, response in pairs]
    programs = [found[0] for found in prepared if not isinstance(found, str)]
    sandbox = sandbox_for(options) if programs else None
    outcomes = iter([] if sandbox is None else sandbox.run_many(programs, workers=workers))
    closed = sandbox is None or sandbox.closed
    scores: list[Score] = []
    for (_, response), found in zip(pairs, prepared, strict=True):
        if isinstance(found, str):
            scores.append(scored(info=INFO, response=response, value=None, reason=found))
        else:
            scores.append(_judged(response=response, outcome=next(outcomes), shown=found[1], closed=closed))
    return scores


def further(scores: Sequence[Score], *, options: Options, clusters: Mapping[str, str] | None = None) -> list[Aggregate]:
    """pass@k for the k that the options name."""
    return pass_at_k_aggregates(scores, ks=options.pass_at, clusters=clusters)


METRIC = Metric(info=INFO, Options=Options, score=score, score_many=score_many, ready=sandbox_for, further=further)
