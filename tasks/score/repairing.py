"""What repairing costs and brings: `<dataset>.repair.*`, by the definitions of docs/metrics.md.

A sample's cost is that of all its tries, of the free answer too where that stands in the arm `free`. So the arm reads
as if it had been run by itself.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from schemas.arm import REPAIR
from schemas.metric import Aggregate
from schemas.sample import ANSWERED
from tasks.score.arrange import clusters_of
from tasks.score.guiding import RESUMED
from tasks.score.repaired import last_of, tries
from tasks.score.stats.clustered import clustered
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.quotient import quotient
from tasks.score.stats.wilson import rate_interval

Row = Mapping[str, Any]
Clusters = Mapping[str, str] | None


def seconds(row: Row) -> float | None:
    """The time that the engine worked on it: from scheduled to the last token, without the wait before."""
    prefill, decode = row["prefill_ms"], row["decode_ms"]
    return None if prefill is None or decode is None else (prefill + decode) / 1000


def _tokens(count: int | None) -> float | None:
    return None if count is None else float(count)


_COSTS: tuple[tuple[str, str, Callable[[Row], float | None]], ...] = (
    ("requests", "requests/sample", lambda row: 1.0),
    ("output_tokens", "tokens/sample", lambda row: _tokens(row["output_tokens"])),
    ("prompt_tokens", "tokens/sample", lambda row: _tokens(row["prompt_tokens"])),
    ("seconds", "s/sample", seconds),
)


def repair_metrics(
    rows: Sequence[Row], *, datasets: Sequence[str], clusters: Clusters = None, resumed: bool = False
) -> list[Aggregate]:
    """Of each dataset that has the arm: how many samples were asked again, how many of these came out valid, and what
    it took, against guiding all. rows: of `requests`, each request's last attempt."""
    every = tries(rows, datasets=datasets)
    guided = {
        (row["dataset"], row["sample_id"], row["repeat"] or 0): row
        for row in rows
        if row["arm"] == "guided" and row["kind"] == "generate" and row["status"] in ANSWERED
    }
    found: list[Aggregate] = []
    for dataset in datasets:
        own = {key: found for key, found in every.items() if key[0] == dataset and last_of(found)["status"] in ANSWERED}
        if own:
            found += _shares(dataset, own, clusters=clusters)
            beside = {key: guided[key] for key in own if key in guided}
            found += _costs(dataset, own, beside, clusters=clusters, resumed=resumed)
    return found


def _shares(dataset: str, own: Mapping[tuple[str, str, int], list[Row]], *, clusters: Clusters) -> list[Aggregate]:
    again = {key: float(len(found) > 1) for key, found in own.items()}
    mended = {key: float(last_of(found)["valid"] is True) for key, found in own.items() if len(found) > 1}
    rows = []
    for name, values, direction in (("retried_share", again, "lower"), ("repaired_share", mended, "higher")):
        means = _by_sample(values)
        if not means:
            continue
        groups = clusters_of(means, clusters=clusters)
        binary = all(value in (0, 1) for value in means.values())
        if binary:
            estimate = rate_interval([*means.values()], clusters=groups)
        else:
            estimate = (
                mean_stderr([*means.values()]) if groups is None else clustered([*means.values()], clusters=groups)
            )
        rows.append(
            Aggregate(
                scope="dataset", name=f"{dataset}.repair.{name}", arm=REPAIR, value=estimate.value, unit="share",
                direction=direction, n=estimate.n, n_failed=0, stderr=estimate.stderr, lo=estimate.lo, hi=estimate.hi,
                method=estimate.method, details={"count": int(sum(values.values())), "requests": len(values)},
            )  # type: ignore[arg-type]
        )  # fmt: skip
    return rows


def _costs(
    dataset: str,
    own: Mapping[tuple[str, str, int], list[Row]],
    guided: Mapping[tuple[str, str, int], Row],
    *,
    clusters: Clusters,
    resumed: bool,
) -> list[Aggregate]:
    rows = []
    for name, unit, cost in _COSTS:
        timed = name == "seconds"
        means = _by_sample({key: total for key, found in own.items() if (total := _total(found, cost)) is not None})
        if not means:
            continue
        groups = clusters_of(means, clusters=clusters)
        estimate = _mean([*means.values()], groups)
        rows.append(_row(f"{dataset}.repair.{name}", unit, estimate, gone=timed and resumed))
        against = _by_sample({key: value for key, row in guided.items() if (value := cost(row)) is not None})
        both = [sample for sample in means if sample in against]
        if both and name != "requests":
            ratio = quotient(
                [means[sample] for sample in both],
                [against[sample] for sample in both],
                clusters=clusters_of(both, clusters=clusters),
            )
            rows.append(
                _row(f"{dataset}.repair.{name}_ratio", "ratio", ratio, gone=timed and resumed, baseline_arm="guided")
            )
    return rows


def _mean(values: list[float], groups: list[Hashable] | None) -> Estimate:
    return mean_stderr(values) if groups is None else clustered(values, clusters=groups)


def _total(found: Sequence[Row], cost: Callable[[Row], float | None]) -> float | None:
    """Over all tries; None where one is not known, and not a smaller sum."""
    each = [cost(row) for row in found if row["status"] in ANSWERED]
    known = [value for value in each if value is not None]
    return math.fsum(known) if known and len(known) == len(each) else None


def _by_sample(values: Mapping[tuple[str, str, int], float]) -> dict[str, float]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for (_, sample_id, _), value in values.items():
        found[sample_id].append(value)
    return {sample_id: math.fsum(each) / len(each) for sample_id, each in found.items()}


def _row(name: str, unit: str, estimate: Estimate, *, gone: bool, **details: Any) -> Aggregate:
    return Aggregate(
        scope="dataset", name=name, arm=REPAIR, value=None if gone else estimate.value, unit=unit, direction="lower",
        n=estimate.n, n_failed=0, stderr=None if gone else estimate.stderr, lo=None if gone else estimate.lo,
        hi=None if gone else estimate.hi, method=RESUMED if gone else estimate.method, details=details,
    )  # fmt: skip
