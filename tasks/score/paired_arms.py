"""Two arms of one run on the same samples: is one better, and is that more than chance?"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from schemas.metric import Comparison, Score
from tasks.score.arrange import SampleMeans, arrange, clusters_of
from tasks.score.registry import metric
from tasks.score.stats.holm import holm
from tasks.score.stats.paired import paired
from tasks.score.stats.ratio import paired_ratios, pooled
from tasks.score.stats.verdict import decide


def compare_arms(
    *,
    scores: Sequence[Score],
    arms: Sequence[tuple[str, str]] = (("guided", "free"),),
    margin: float,
    clusters: Mapping[str, str] | None = None,
    prompts_differ: bool = False,
) -> list[Comparison]:
    """One comparison per dataset and metric that both arms of a pair have, the p values adjusted over all of them
    (Holm). arms: the pairs, each (candidate, baseline).

    Samples pair up by sample_id; one that is not scored in both arms is left out (n_pairs says how many are in).
    effect = candidate - baseline, in the metric's unit; wins and the verdict look at the metric's direction.
    margin: the loss that still counts as `same`. Raises ValueError where the arms hold different versions of a metric.
    """
    groups = arrange(scores)
    rows: list[Comparison] = []
    for (candidate_arm, baseline_arm), (key, candidate) in itertools.product(arms, groups.items()):
        dataset, name, arm = key
        baseline = groups.get((dataset, name, baseline_arm))
        if arm != candidate_arm or baseline is None:
            continue
        if candidate.version != baseline.version:
            raise ValueError(f"{dataset}.{name}: versions {candidate.version} and {baseline.version} do not compare")
        if candidate.base != baseline.base:
            raise ValueError(f"{dataset}.{name}: {candidate.base} and {baseline.base} do not compare")
        info = metric(candidate.base).info
        row = compare_means(
            candidate=candidate,
            baseline=baseline,
            margin=margin,
            clusters=clusters,
            lower_is_better=info.direction == "lower",
            exponential=info.over_samples == "exp_ratio",
        )
        names = {"dataset": dataset, "metric": name, "candidate_arm": candidate_arm, "baseline_arm": baseline_arm}
        rows.append(replace(row, **names, prompts_differ=prompts_differ))
    adjusted = holm([row.p_value for row in rows])
    return [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]


def compare_means(
    *,
    candidate: SampleMeans,
    baseline: SampleMeans,
    margin: float,
    clusters: Mapping[str, str] | None,
    lower_is_better: bool,
    exponential: bool = False,
) -> Comparison:
    """The samples that are scored on both sides, pair by pair, with the verdict. Of what dataset, metric and arms they
    are, and what several comparisons do to the p value, the caller fills in.

    A metric that is a ratio of sums is compared as such: each side's is that of the pairs' sums (`exponential`: exp of
    it), not a mean of the samples' own, and the effect is their difference."""
    both = [sample_id for sample_id in candidate.means if sample_id in baseline.means]
    sides: list[float | None]
    if candidate.sums and baseline.sums:
        sums = [[side.sums[sample_id] for sample_id in both] for side in (candidate, baseline)]
        result = paired_ratios(
            candidate=sums[0],
            baseline=sums[1],
            exponential=exponential,
            clusters=clusters_of(both, clusters=clusters),
            lower_is_better=lower_is_better,
        )
        sides = [pooled(side, exponential=exponential).value for side in sums]
    else:
        values = [[side.means[sample_id] for sample_id in both] for side in (candidate, baseline)]
        result = paired(
            candidate=values[0],
            baseline=values[1],
            clusters=clusters_of(both, clusters=clusters),
            lower_is_better=lower_is_better,
            averaged=max(candidate.most_repeats, baseline.most_repeats) > 1,
        )
        sides = [math.fsum(side) / len(side) if side else None for side in values]
    decision = decide(
        effect=result.effect, lo=result.lo, hi=result.hi, margin=margin, n=result.n, lower_is_better=lower_is_better
    )
    return Comparison(
        dataset="",
        metric="",
        candidate_arm="",
        baseline_arm="",
        n_pairs=result.n,
        prompts_differ=False,
        candidate=sides[0],
        baseline=sides[1],
        effect=result.effect,
        lo=result.lo,
        hi=result.hi,
        p_value=result.p_value,
        p_adjusted=None,
        method=result.method,
        margin=margin,
        verdict=decision.word,
        n_needed=decision.n_needed,
        wins=result.wins,
        losses=result.losses,
        ties=result.ties,
    )
