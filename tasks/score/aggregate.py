"""From scores to the numbers of a run: each a mean with n, the failed, its error and its interval."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from schemas.guide import GuideKind
from schemas.metric import Aggregate, MetricInfo, Score
from schemas.sample import ANSWERED, Response
from tasks.guide.strict_json import NotJson, parse
from tasks.guide.validate import whitespace_share
from tasks.score.arrange import SampleMeans, arrange, clusters_of
from tasks.score.registry import metric
from tasks.score.stats.clustered import clustered
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.no_spread import no_spread
from tasks.score.stats.ratio import pooled
from tasks.score.stats.wilson import rate_interval

_MOST_REASONS = 5
_ROUNDING = 1e-12
"""A standard error below that is one of rounding."""


def _estimate(*, means: Mapping[str, float], rate: bool, share: bool, clusters: Mapping[str, str] | None) -> Estimate:
    """rate: each value is 0 or 1, but for repeats. share: it lies between them."""
    values = list(means.values())
    groups = clusters_of(means, clusters=clusters)
    if rate and all(value in (0, 1) for value in values):
        return rate_interval(values, clusters=groups)
    estimate = mean_stderr(values) if groups is None else clustered(values, clusters=groups)
    if share and estimate.value is not None and estimate.stderr is not None and estimate.stderr < _ROUNDING:
        units = estimate.n if groups is None else len(set(groups))
        value = min(1.0, max(0.0, estimate.value))
        lo, hi = no_spread(value=value, n=units, lowest=0, highest=1)
        return replace(estimate, lo=lo, hi=hi, method="no_spread")
    return estimate


def _details(group: SampleMeans, *, clusters: Mapping[str, str] | None) -> dict[str, Any]:
    details: dict[str, Any] = {"metric_version": group.version}
    dependent = clusters_of(group.means, clusters=clusters)
    if dependent is not None:
        details["clusters"] = len(set(dependent))
    if group.most_repeats > 1:
        details["repeats"] = group.most_repeats
    if group.failed_scores:
        details["failed_scores"] = group.failed_scores
        details["reasons"] = dict(Counter(group.reasons).most_common(_MOST_REASONS))
    if group.ties:
        details["samples_with_ties"] = group.ties
    return details


def _base_details(info: MetricInfo, group: SampleMeans, *, name: str) -> dict[str, Any]:
    """The metric behind a name of one's own; of a ratio of sums, the sums."""
    found: dict[str, Any] = {} if group.base == name else {"base_metric": group.base}
    if info.over_samples != "mean":
        found["over_samples"] = info.over_samples
        found["numerator"] = math.fsum(above for above, _ in group.sums.values())
        found["denominator"] = math.fsum(below for _, below in group.sums.values())
    return found


def aggregate(*, scores: Sequence[Score], clusters: Mapping[str, str] | None = None) -> list[Aggregate]:
    """One number per dataset, metric and arm, named `<dataset>.<metric>`.

    A sample's repeats are averaged first; n counts samples that have a value, n_failed those that have none (refused,
    failed, cancelled, NaN), which stay out of the mean. Zeros and ones have Wilson's interval (with clusters, on the
    effective n), everything else Student's t (with clusters, C-1 degrees); shares that are all alike have the interval
    of tasks/score/stats/no_spread.py. A metric that is a ratio of sums is that, with the error of
    tasks/score/stats/ratio.py. clusters: sample_id to cluster.
    Raises ValueError as tasks.score.arrange.arrange does.
    """
    rows: list[Aggregate] = []
    for (dataset, name, arm), group in arrange(scores).items():
        info = metric(group.base).info
        if info.over_samples == "mean":
            estimate = _estimate(means=group.means, rate=info.is_rate, share=info.unit == "share", clusters=clusters)
        else:
            estimate = pooled(
                [group.sums[sample_id] for sample_id in group.means],
                exponential=info.over_samples == "exp_ratio",
                clusters=clusters_of(group.means, clusters=clusters),
            )
        row = Aggregate(
            scope="dataset",
            name=f"{dataset}.{name}",
            arm=arm,
            value=estimate.value,
            unit=info.unit,
            direction=info.direction,
            n=estimate.n,
            n_failed=len(group.failed),
            stderr=estimate.stderr,
            lo=estimate.lo,
            hi=estimate.hi,
            method=estimate.method,
            details=_details(group, clusters=clusters) | _base_details(info, group, name=name),
        )
        rows.append(row)
    return rows


def _is_json(text: str | None) -> bool:
    try:
        parse(text or "")
    except NotJson:
        return False
    return True


def _is_structure(text: str | None) -> bool:
    return _is_json(text) and (text or "").lstrip()[:1] in ("{", "[")


def _share(
    *, name: str, arm: str, direction: Literal["higher", "lower"], values: list[tuple[str, float | None]]
) -> Aggregate:
    """A share over requests, each sample's repeats averaged first; a None is failed and left out."""
    by_sample: defaultdict[str, list[float]] = defaultdict(list)
    failed: set[str] = set()
    for sample_id, value in values:
        if value is None:
            failed.add(sample_id)
        else:
            by_sample[sample_id].append(value)
    means = {sample_id: math.fsum(found) / len(found) for sample_id, found in by_sample.items()}
    estimate = _estimate(means=means, rate=True, share=True, clusters=None)
    given = [value for _, value in values if value is not None]
    binary = all(value in (0, 1) for value in given)
    return Aggregate(
        scope="dataset",
        name=name,
        arm=arm,
        value=estimate.value,
        unit="share",
        direction=direction,
        n=estimate.n,
        n_failed=len(failed - by_sample.keys()),
        stderr=estimate.stderr,
        lo=estimate.lo,
        hi=estimate.hi,
        method=estimate.method,
        details={"count": int(sum(given)), "requests": len(given)} if binary else {"requests": len(given)},
    )


def aggregate_form(*, dataset: str, responses: Sequence[Response], kind: GuideKind | None = None) -> list[Aggregate]:
    """How well-formed the answers of one dataset are, per arm, named `<dataset>.form.<name>`.

    declared_coverage: requests that the backend accepted / all. empirical_coverage: accepted and valid / all.
    compliance: valid / accepted (empirical over declared). parse_failures: answers whose whole text is no JSON.
    length_finishes: answers that ended at max_tokens. refused, errors: requests that came to that, counted apart.
    whitespace_share: mean share of white space outside JSON strings. `all` leaves out cancelled requests (n_failed).
    Validity is that of the whole text (`requests.valid`): a fenced answer is not valid here, while the metrics look
    into the fence. parse_failures and whitespace_share are for JSON answers only: `kind` says so; without it, the
    answers are taken for JSON if one of them is an object or a list. Log-likelihood requests are left out.
    """
    arms: defaultdict[str, list[Response]] = defaultdict(list)
    for response in responses:
        if response.dataset == dataset and response.kind == "generate":
            arms[response.arm].append(response)
    if kind is None:
        json_kind = any(_is_structure(response.output) for found in arms.values() for response in found)
    else:
        json_kind = kind in ("json_schema", "json_object")
    judged = any(response.valid is not None for found in arms.values() for response in found)
    rows: list[Aggregate] = []
    for arm, found in arms.items():
        rows += _form_of_arm(prefix=f"{dataset}.form", arm=arm, responses=found, json_kind=json_kind, judged=judged)
    return rows


def _form_of_arm(*, prefix: str, arm: str, responses: list[Response], json_kind: bool, judged: bool) -> list[Aggregate]:
    asked = [(response, response.status in ANSWERED) for response in responses]

    def row(name: str, direction: Literal["higher", "lower"], values: list[float | None]) -> Aggregate:
        pairs = [(response.sample_id, value) for (response, _), value in zip(asked, values, strict=True)]
        return _share(name=f"{prefix}.{name}", arm=arm, direction=direction, values=pairs)

    def of_all(flags: list[bool]) -> list[float | None]:
        return [
            None if response.status == "cancelled" else float(flag)
            for (response, _), flag in zip(asked, flags, strict=True)
        ]

    def of_answers(values: list[float | None]) -> list[float | None]:
        return [value if accepted else None for (_, accepted), value in zip(asked, values, strict=True)]

    rows = [
        row("length_finishes", "lower", of_answers([float(one.finish_reason == "length") for one in responses])),
        row("refused", "lower", of_all([one.status == "refused" for one in responses])),
        row("errors", "lower", of_all([one.status == "error" for one in responses])),
    ]
    if judged:
        valid = [None if one.valid is None else float(one.valid) for one in responses]
        rows += [
            row("declared_coverage", "higher", of_all([accepted for _, accepted in asked])),
            row("empirical_coverage", "higher", of_all([ok and one.valid is True for one, ok in asked])),
            row("compliance", "higher", of_answers(list(valid))),
        ]
    if json_kind:
        unparsed = [None if one.output is None else float(not _is_json(one.output)) for one in responses]
        blanks = [None if one.output is None else whitespace_share(one.output) for one in responses]
        rows += [
            row("parse_failures", "lower", of_answers(list(unparsed))),
            row("whitespace_share", "lower", of_answers(blanks)),
        ]
    return rows
