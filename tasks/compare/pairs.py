"""What of two runs is compared with what: arms, datasets, metrics, versions, samples. And what is refused."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.errors import ConfigError, Problem
from schemas.metric import Score
from tasks.compare.read import RunRows, SampleKey
from tasks.config.nearest import did_you_mean_or_list
from tasks.score.arrange import SampleMeans, arrange

_SHOWN = 5
_TEXT = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One dataset, metric and pair of arms that both sides have scores of, under one version of the metric.

    scores: by sample, in the order of the repeats."""

    dataset: str
    metric: str
    candidate_arm: str
    baseline_arm: str
    candidate: SampleMeans
    baseline: SampleMeans
    candidate_scores: Mapping[str, Sequence[Score]]
    baseline_scores: Mapping[str, Sequence[Score]]

    @property
    def common(self) -> list[str]:
        """The samples that both sides have, scored or not."""
        return [sample_id for sample_id in self.candidate_scores if sample_id in self.baseline_scores]

    @property
    def scored(self) -> list[str]:
        """The samples that have a value on both sides."""
        return [sample_id for sample_id in self.candidate.means if sample_id in self.baseline.means]


def arm_pairs(
    *, candidate: RunRows, baseline: RunRows, arms: tuple[str | None, str | None] | None
) -> list[tuple[str, str]]:
    """The arms to compare: the two that were named; one that was named with itself; else each that both have.

    Raises ConfigError for an arm that a run does not have, a run that would be compared with itself, or no common arm.
    """
    own, other = arms or (None, None)
    own, other = own or other, other or own
    for side, arm in ((candidate, own), (baseline, other)):
        if arm is not None and arm not in side.arms:
            raise ConfigError.one(
                f"run {side.run_id} has no scores of an arm {arm}", suggestion=did_you_mean_or_list(arm, side.arms)
            )
    if candidate.run_id == baseline.run_id and own == other:
        raise ConfigError.one(
            f"run {candidate.run_id} would be compared with itself",
            suggestion=f"name two of its arms, as in RUN:guided RUN:free; it has {', '.join(candidate.arms)}",
        )
    if own is not None and other is not None:
        return [(own, other)]
    common = [(arm, arm) for arm in candidate.arms if arm in baseline.arms]
    if not common:
        raise ConfigError.one(
            f"no arm is common: the candidate has {', '.join(candidate.arms)}, the baseline {', '.join(baseline.arms)}",
            suggestion="name one of each, as in RUN:guided RUN:free",
        )
    return common


def paired_scores(
    *, candidate: RunRows, baseline: RunRows, arms: Sequence[tuple[str, str]], metrics: Collection[str] | None
) -> tuple[list[Pair], list[str]]:
    """What can be compared, and notes on what only one side has.

    metrics: names (`exact_match`) or with their dataset (`arithmetic.exact_match`); None: all. Of a metric that a run
    was scored with in several versions, the highest that both have counts. Raises ConfigError for a metric that is not
    there, versions that differ, nothing in common, or a sample scored twice.
    """
    ours, theirs = _grouped(candidate.scores), _grouped(baseline.scores)
    known = {(dataset, name) for dataset, name, _ in (*ours, *theirs)}
    wanted = _wanted(known, metrics)
    pairs: list[Pair] = []
    missing: dict[str, list[str]] = {"candidate": [], "baseline": []}
    problems: list[Problem] = []
    for own, other in arms:
        for dataset, name in dict.fromkeys((dataset, name) for dataset, name, _ in (*ours, *theirs)):
            if (dataset, name) not in wanted:
                continue
            one, two = ours.get((dataset, name, own)), theirs.get((dataset, name, other))
            if one is None or two is None:
                if one is not None or two is not None:
                    missing["baseline" if one is not None else "candidate"].append(f"{dataset}.{name}")
                continue
            if not one.keys() & two.keys():
                problems.append(_versions_differ(f"{dataset}.{name}", one, two))
                continue
            version = max(one.keys() & two.keys())
            pairs.append(_pair((dataset, name, own, other), one[version], two[version]))
    if problems:
        raise ConfigError(list({problem.message: problem for problem in problems}.values()))
    _check_common(pairs, ours=ours, theirs=theirs)
    notes = [
        f"the {side} has no scores of {', '.join(dict.fromkeys(names))}, so that is not compared"
        for side, names in missing.items()
        if names
    ]
    return [pair for pair in pairs if pair.common], notes


def check_targets(*, candidate: RunRows, baseline: RunRows, pairs: Iterable[Pair]) -> list[str]:
    """Raises ConfigError, with the first samples, where a sample that is compared has another target, or other options
    to choose from; gives a note where a run has no record of its samples."""
    keys = list(dict.fromkeys((pair.dataset, sample_id) for pair in pairs for sample_id in pair.common))
    both = [key for key in keys if key in candidate.samples and key in baseline.samples]
    for what, title in (("target", "another target"), ("choices", "other options to choose from")):
        differing = [key for key in both if _answer_key(candidate, key, what) != _answer_key(baseline, key, what)]
        if differing:
            said = "; ".join(
                f"{'/'.join(key)}: {_short(candidate.samples[key][what])} against {_short(baseline.samples[key][what])}"
                for key in differing[:_SHOWN]
            )
            raise ConfigError.one(
                f"{len(differing)} of {len(both)} samples have {title} in the candidate than in the baseline, "
                f"so their scores do not compare: {said}{'; …' if len(differing) > _SHOWN else ''}",
                suggestion="compare runs on the same data, or score both with the same targets",
            )
    unknown = len(keys) - len(both)
    return [f"the targets of {unknown} samples were not recorded by both runs and not checked"] if unknown else []


def _answer_key(side: RunRows, key: SampleKey, what: str) -> Any:
    value = side.samples[key][what]
    if what == "target":
        return value
    # A prompt may set its options apart by other white space: that is another prompt, and not another question.
    return [option.strip() for option in value or ()]


def _grouped(scores: Iterable[Score]) -> dict[tuple[str, str, str], dict[int, list[Score]]]:
    """By dataset, metric and arm; then by version."""
    found: defaultdict[tuple[str, str, str], dict[int, list[Score]]] = defaultdict(dict)
    for score in scores:
        found[score.dataset, score.metric, score.arm].setdefault(score.metric_version, []).append(score)
    return dict(found)


def _wanted(known: Collection[tuple[str, str]], metrics: Collection[str] | None) -> set[tuple[str, str]]:
    if not metrics:
        return set(known)
    found: set[tuple[str, str]] = set()
    for asked in metrics:
        fitting = {(dataset, name) for dataset, name in known if asked in (name, f"{dataset}.{name}")}
        if not fitting:
            names = [name for dataset, metric in known for name in (metric, f"{dataset}.{metric}")]
            raise ConfigError.one(
                f"neither run has scores of {asked}",
                key="--metric",
                suggestion=did_you_mean_or_list(asked, dict.fromkeys(names)),
            )
        found |= fitting
    return found


def _pair(key: tuple[str, str, str, str], candidate: Sequence[Score], baseline: Sequence[Score]) -> Pair:
    dataset, name, own, other = key
    try:
        [one] = arrange(candidate).values()
        [two] = arrange(baseline).values()
    except ValueError as error:
        raise ConfigError.one(str(error), suggestion="score this run again: assay rescore RUN") from error
    return Pair(
        dataset=dataset,
        metric=name,
        candidate_arm=own,
        baseline_arm=other,
        candidate=one,
        baseline=two,
        candidate_scores=_by_sample(candidate),
        baseline_scores=_by_sample(baseline),
    )


def _by_sample(scores: Iterable[Score]) -> dict[str, list[Score]]:
    found: dict[str, list[Score]] = {}
    for score in scores:
        found.setdefault(score.sample_id, []).append(score)
    for repeats in found.values():
        repeats.sort(key=lambda score: score.repeat)
    return found


def _versions_differ(name: str, one: Collection[int], two: Collection[int]) -> Problem:
    def told(versions: Collection[int]) -> str:
        return ", ".join(str(version) for version in sorted(versions))

    return Problem(
        message=f"{name}: the candidate was scored with version {told(one)} of this metric, the baseline with version "
        f"{told(two)}; these scores do not compare",
        suggestion="score the older run again: assay rescore RUN",
    )


def _check_common(pairs: Sequence[Pair], *, ours: Iterable[Any], theirs: Iterable[Any]) -> None:
    if any(pair.common for pair in pairs):
        return
    if pairs:
        pair = pairs[0]
        one, two = (next(iter(scores)) for scores in (pair.candidate_scores, pair.baseline_scores))
        raise ConfigError.one(
            f"no sample is common: of {pair.dataset} the candidate has {len(pair.candidate_scores)}, as {_short(one)}, "
            f"the baseline {len(pair.baseline_scores)}, as {_short(two)}",
            suggestion="samples join by their id: give the dataset an id_field that both runs share",
        )
    one, two = (", ".join(sorted({f"{key[0]}.{key[1]}" for key in side})) for side in (ours, theirs))
    raise ConfigError.one(f"no dataset and metric is common in these arms: the candidate has {one}; the baseline {two}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
