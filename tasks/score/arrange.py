"""Scores in the order in which they are averaged: repeats of a sample first, then samples."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.metric import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMeans:
    """One dataset, metric and arm: each sample's mean over its scored repeats, and the samples without any.

    base: the metric that it is. sums: of a metric that is a ratio of sums, each scored sample's numerator and
    denominator, summed over its repeats; else empty."""

    means: dict[str, float]
    failed: list[str]
    failed_scores: int
    most_repeats: int
    ties: int
    reasons: list[str]
    version: int
    base: str
    sums: dict[str, tuple[float, float]] = field(default_factory=dict)


def has_value(score: Score) -> bool:
    """Whether a score counts: not None, and not NaN, which would make every mean NaN."""
    return score.value is not None and not math.isnan(score.value)


def arrange(scores: Iterable[Score]) -> dict[tuple[str, str, str], SampleMeans]:
    """The scores by (dataset, metric, arm), each sample's repeats averaged.

    Raises ValueError where one of these holds two versions of a metric, two metrics under one name, or one repeat of a
    sample twice.
    """
    groups: defaultdict[tuple[str, str, str], list[Score]] = defaultdict(list)
    for score in scores:
        groups[(score.dataset, score.metric, score.arm)].append(score)
    return {key: _sample_means(key=key, scores=group) for key, group in groups.items()}


def _sample_means(*, key: tuple[str, str, str], scores: Sequence[Score]) -> SampleMeans:
    versions = {score.metric_version for score in scores}
    if len(versions) > 1:
        raise ValueError(f"{'.'.join(key[:2])}: scores of versions {sorted(versions)} cannot be mixed")
    bases = {score.base_metric or score.metric for score in scores}
    if len(bases) > 1:
        raise ValueError(f"{'.'.join(key[:2])}: scores of {' and '.join(sorted(bases))} cannot be mixed")
    by_sample: defaultdict[str, dict[int, Score]] = defaultdict(dict)
    for score in scores:
        if score.repeat in by_sample[score.sample_id]:
            raise ValueError(f"{'.'.join(key)}: sample {score.sample_id}, repeat {score.repeat} is scored twice")
        by_sample[score.sample_id][score.repeat] = score
    means: dict[str, float] = {}
    sums: dict[str, tuple[float, float]] = {}
    failed: list[str] = []
    for sample_id, repeats in by_sample.items():
        values = [score.value for score in repeats.values() if score.value is not None and has_value(score)]
        if values:
            means[sample_id] = math.fsum(values) / len(values)
            parts = [
                (score.numerator, score.denominator)
                for score in repeats.values()
                if score.numerator is not None and score.denominator is not None and has_value(score)
            ]
            if parts:
                sums[sample_id] = (math.fsum(above for above, _ in parts), math.fsum(below for _, below in parts))
        else:
            failed.append(sample_id)
    missing = [score for score in scores if not has_value(score)]
    return SampleMeans(
        means=means,
        failed=failed,
        failed_scores=len(missing),
        most_repeats=max(len(repeats) for repeats in by_sample.values()),
        ties=sum(1 for score in scores if score.ties),
        reasons=[score.reason or "no reason given" for score in missing],
        version=versions.pop(),
        base=bases.pop(),
        sums=sums,
    )


def clusters_of(sample_ids: Iterable[str], *, clusters: Mapping[str, str] | None) -> list[Hashable] | None:
    """Each sample's cluster, a sample without one being its own; None where none of them has one."""
    ids = list(sample_ids)
    if not clusters or not any(sample_id in clusters for sample_id in ids):
        return None
    return [("cluster", clusters[item]) if item in clusters else ("sample", item) for item in ids]
