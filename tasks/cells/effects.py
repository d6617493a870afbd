"""What a candidate is worth against a control that ran beside it: round by round, with intervals.

Times, rates and sizes are compared by their ratio: the geometric mean of the rounds' ratios, with the t interval of
their logarithms. Counts and shares of the engine by their difference, with the t interval over rounds. One round alone
has no interval, and decides nothing.

Quality is compared by sample, as two runs are: a sample's answers of all rounds are repeats of it, so that its interval
is one of samples and not of rounds. Greedy answers hardly differ between rounds, and an interval over those would call
chance a fact.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from schemas.cell_figures import Direction, Effect, Figure, Slo, Verdict
from schemas.metric import Comparison
from tasks.cells.figures import QUALITY, figures_of
from tasks.cells.spread import by_ratio, geometric, t_test
from tasks.compare.pairs import Pair, arm_pairs, check_targets, paired_scores
from tasks.compare.read import RunRows, kind_of, read_run
from tasks.score.paired_arms import compare_means
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.holm import holm
from tasks.score.stats.mean_stderr import mean_stderr

Figures = Mapping[str, Figure]

_STARTS = "start"
_COLD = "start.cold"


def effects(home: Path, *, control: Sequence[str], candidate: Sequence[str], slo: Slo | None = None) -> list[Effect]:
    """Every figure that both have. control, candidate: run ids, one a round, in the order of the rounds.

    Raises ValueError for sides of unequal length, ConfigError where the two answered other samples or targets,
    AssayError for tables that cannot be read."""
    sides = [[figures_of(home, run_id, slo=slo) for run_id in runs] for runs in (control, candidate)]
    found = figure_effects(control=sides[0], candidate=sides[1])
    scored = all(any(name.startswith(QUALITY) for name in run) for side in sides for run in side)
    return found + (quality_effects(home, control=control, candidate=candidate) if control and scored else [])


def figure_effects(*, control: Sequence[Figures], candidate: Sequence[Figures]) -> list[Effect]:
    """Every figure but the quality's that both sides have in a common round. What is the same thing, better or worse,
    must be known of it: a figure without a direction is left out.

    Raises ValueError for sides of unequal length."""
    rounds = list(zip(control, candidate, strict=True))
    names = dict.fromkeys(name for one, other in rounds for name in one if name in other)
    found = []
    for name in names:
        pairs = [(one[name], other[name]) for one, other in rounds if name in one and name in other]
        pairs = _alike(name, pairs, rounds=rounds)
        if pairs and not name.startswith(QUALITY) and pairs[0][0].direction != "none":
            found.append(_effect(pairs))
    return found


def quality_effects(home: Path, *, control: Sequence[str], candidate: Sequence[str]) -> list[Effect]:
    """Every metric that both have scores of, arm by arm, paired by sample. Raises as `effects` does."""
    sides = [_together([read_run(home, run_id) for run_id in runs]) for runs in (candidate, control)]
    own, other = sides
    arms = arm_pairs(candidate=own, baseline=other, arms=None)
    pairs, _ = paired_scores(candidate=own, baseline=other, arms=arms, metrics=None)
    check_targets(candidate=own, baseline=other, pairs=pairs)
    rounds = min(len(control), len(candidate))
    return [effect for pair in pairs for effect in _quality(pair, own, other, rounds=rounds)]


def with_holm(candidates: Mapping[str, Sequence[Effect]]) -> dict[str, list[Effect]]:
    """The same, each p value adjusted over the candidates that have the figure. candidates: by name, all compared with
    one control. Verdicts stay those of the intervals."""
    tests: dict[str, list[tuple[str, int]]] = {}
    for name, own in candidates.items():
        for place, effect in enumerate(own):
            tests.setdefault(effect.figure, []).append((name, place))
    found = {name: list(own) for name, own in candidates.items()}
    for places in tests.values():
        adjusted = holm([found[name][place].p_value for name, place in places])
        for (name, place), p_value in zip(places, adjusted, strict=True):
            found[name][place] = found[name][place].model_copy(update={"p_adjusted": p_value})
    return found


def _alike(
    name: str, pairs: list[tuple[Figure, Figure]], *, rounds: Sequence[tuple[Figures, Figures]]
) -> list[tuple[Figure, Figure]]:
    """A start that compiled is no measure of one that found everything compiled: such rounds do not count."""
    if not name.startswith(_STARTS):
        return pairs
    return [
        (one[name], other[name])
        for one, other in rounds
        if name in one and name in other and _cold(one) == _cold(other)
    ]


def _cold(run: Figures) -> float | None:
    return run[_COLD].value if _COLD in run else None


def _effect(pairs: Sequence[tuple[Figure, Figure]]) -> Effect:
    figure = pairs[0][0]
    one, other = ([pair[side].value for pair in pairs] for side in (0, 1))
    ratio = difference = None
    if by_ratio(figure, [*one, *other]):
        estimate = geometric([candidate / control for control, candidate in zip(one, other, strict=True)])
        means = [_value(geometric(side)) for side in (one, other)]
        ratio, neutral = _value(estimate), 1.0
        shift = math.log(ratio)  # its stderr is that of the logarithm
    else:
        estimate = mean_stderr([candidate - control for control, candidate in zip(one, other, strict=True)])
        means = [_value(mean_stderr(side)) for side in (one, other)]
        shift, neutral = _value(estimate), 0.0
        difference = shift
    return Effect(
        figure=figure.name,
        unit=figure.unit,
        direction=figure.direction,
        control=means[0],
        candidate=means[1],
        ratio=ratio,
        difference=difference,
        lo=estimate.lo,
        hi=estimate.hi,
        rounds=len(pairs),
        p_value=t_test(shift, estimate.stderr, n=estimate.n),
        method=estimate.method if estimate.method in ("none", "log_t") else "paired_t",
        verdict=_verdict(figure.direction, estimate.lo, estimate.hi, neutral=neutral, equal=one == other),
    )


def _value(estimate: Estimate) -> float:
    """The mean. Raises ValueError where there is none: it is that of no rounds at all."""
    if estimate.value is None:
        raise ValueError("a mean of no rounds")
    return estimate.value


def _verdict(direction: Direction, lo: float | None, hi: float | None, *, neutral: float, equal: bool) -> Verdict:
    if equal:
        return "same"
    if lo is None or hi is None or lo <= neutral <= hi:
        return "undecided"
    return "better" if (lo > neutral) == (direction == "higher") else "worse"


def _together(runs: Sequence[RunRows]) -> RunRows:
    """One side's rounds as one run: an answer of a later round is a further repeat."""
    apart = 1 + max((score.repeat for run in runs for score in run.scores), default=0)
    scores = [
        replace(score, repeat=score.repeat + number * apart) for number, run in enumerate(runs) for score in run.scores
    ]
    return replace(runs[0], scores=scores)


def _quality(pair: Pair, own: RunRows, other: RunRows, *, rounds: int) -> Iterator[Effect]:
    kind = kind_of(pair.metric, base=pair.candidate.base, sides=(own, other), dataset=pair.dataset)
    found = compare_means(
        candidate=pair.candidate,
        baseline=pair.baseline,
        margin=0.0,
        clusters=_clusters(pair, own, other),
        lower_is_better=kind.direction == "lower",
        exponential=kind.over_samples == "exp_ratio",
    )
    if found.effect is None or found.candidate is None or found.baseline is None:
        return
    yield Effect(
        figure=f"{QUALITY}{pair.candidate_arm}.{pair.dataset}.{pair.metric}",
        unit=kind.unit,
        direction=kind.direction,
        control=found.baseline,
        candidate=found.candidate,
        ratio=None,
        difference=found.effect,
        lo=found.lo,
        hi=found.hi,
        rounds=rounds,
        samples=found.n_pairs,
        p_value=found.p_value,
        method=found.method,
        verdict=_verdict(kind.direction, found.lo, found.hi, neutral=0.0, equal=_equal(found)),
    )


def _equal(found: Comparison) -> bool:
    return found.wins == found.losses == 0


def _clusters(pair: Pair, *sides: RunRows) -> dict[str, str]:
    """Each sample's cluster, as the candidate has it, else as the control does."""
    found: dict[str, str] = {}
    for sample_id in pair.scored:
        rows = (side.samples.get((pair.dataset, sample_id)) for side in sides)
        cluster = next((row["cluster"] for row in rows if row is not None and row["cluster"] is not None), None)
        if cluster is not None:
            found[sample_id] = cluster
    return found
