"""pass@k: the chance that at least one of k answers is right, from n answers of which c are.

Formula: 1 - prod_{i = n-c+1 .. n} (1 - k/i), which is 1 - C(n-c, k) / C(n, k) and computed so, in whole numbers; 1
where n - c < k; none where n < k. It is the unbiased estimate for drawing k of the n without replacement (Chen et al.
2021, "Evaluating Large Language Models Trained on Code"). Unit: share, higher is better.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from schemas.metric import Aggregate, Score
from tasks.score.arrange import clusters_of, has_value
from tasks.score.stats.clustered import clustered
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.wilson import rate_interval


def pass_at_k(*, n: int, c: int, k: int) -> float | None:
    """The estimate for one sample with n answers, c of them right; None for n < k.

    Raises ValueError for k < 1, n < 0 or c outside 0 to n.
    """
    if k < 1 or n < 0 or not 0 <= c <= n:
        raise ValueError(f"no pass@k: {c} of {n} right, k = {k}")
    if n < k:
        return None
    draws = math.comb(n, k)
    return (draws - math.comb(n - c, k)) / draws


def pass_at_k_aggregates(
    scores: Sequence[Score], *, ks: Sequence[int], clusters: Mapping[str, str] | None = None
) -> list[Aggregate]:
    """pass@k of each dataset, metric and arm, named `<dataset>.<metric>.pass_at_<k>`: the mean over samples.

    scores: of a metric of rights and wrongs; a sample's repeats are its n answers, those without a value are none. A
    sample with fewer than k answers has no pass@k: it counts in n_failed and stays out of the mean. The error is that
    of the mean over samples (with clusters, clustered), the interval Wilson's where every sample has 0 or 1, else
    Student's t, cut at 0 and 1. clusters: sample_id to cluster. Raises ValueError for k < 1 or a value that is
    neither 0 nor 1.
    """
    groups: defaultdict[tuple[str, str, str], list[Score]] = defaultdict(list)
    for score in scores:
        groups[(score.dataset, score.metric, score.arm)].append(score)
    return [_aggregate(scores=group, k=k, clusters=clusters) for group in groups.values() for k in ks]


def _aggregate(*, scores: Sequence[Score], k: int, clusters: Mapping[str, str] | None) -> Aggregate:
    answers: defaultdict[str, list[float]] = defaultdict(list)
    for score in scores:
        values = answers[score.sample_id]
        if score.value is None or not has_value(score):
            continue
        if score.value not in (0, 1):
            raise ValueError(f"{score.dataset}.{score.metric}: pass@k of {score.value}, which is neither 0 nor 1")
        values.append(score.value)
    shares = {sample: pass_at_k(n=len(values), c=int(sum(values)), k=k) for sample, values in answers.items()}
    means = {sample: share for sample, share in shares.items() if share is not None}
    estimate = _estimate(means, clusters=clusters)
    first = scores[0]
    return Aggregate(
        scope="dataset",
        name=f"{first.dataset}.{first.metric}.pass_at_{k}",
        arm=first.arm,
        value=estimate.value,
        unit="share",
        direction="higher",
        n=estimate.n,
        n_failed=len(shares) - len(means),
        stderr=estimate.stderr,
        lo=None if estimate.lo is None else max(0.0, estimate.lo),
        hi=None if estimate.hi is None else min(1.0, estimate.hi),
        method=estimate.method,
        details={
            "metric_version": first.metric_version,
            "k": k,
            "fewest_answers": min(len(values) for values in answers.values()),
            "most_answers": max(len(values) for values in answers.values()),
        },
    )


def _estimate(means: Mapping[str, float], *, clusters: Mapping[str, str] | None) -> Estimate:
    values = list(means.values())
    groups = clusters_of(means, clusters=clusters)
    if values and all(value in (0, 1) for value in values):
        return rate_interval(values, clusters=groups)
    return mean_stderr(values) if groups is None else clustered(values, clusters=groups)
