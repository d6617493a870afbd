"""What a grammar does to the answers and what it costs: arms against each other, pair by pair on the same samples.

Names, definitions and units stand in docs/metrics.md, "Guiding". Times are of the quality phase: they compare arms that
answered side by side, and are no measurement of a service.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from schemas.arm import FREE_MATCHED, Arm, arm_kind, arm_name, compared_arms
from schemas.guide import GuideKind
from schemas.metric import Aggregate
from schemas.sample import ANSWERED
from tasks.guide.strict_json import NotJson, parse
from tasks.score.arrange import clusters_of
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.paired import paired
from tasks.score.stats.quotient import quotient
from tasks.score.stats.ratio import pooled

Row = Mapping[str, Any]
Value = Callable[[Row], float | None]
Clusters = Mapping[str, str] | None

JSON_KINDS = ("json_schema", "json_object")
RESUMED = "the run was interrupted"


def guiding_metrics(
    rows: Sequence[Row],
    *,
    arms: Sequence[Arm],
    guides: Mapping[str, GuideKind],
    clusters: Clusters = None,
    resumed: bool = False,
) -> list[Aggregate]:
    """The metrics `<dataset>.guide.*` of every dataset with a guide, and `guide.*` of the run.

    rows: of `requests`, each request's last attempt. guides: the kind of each dataset's, by name. resumed: the run was
    interrupted, so that its arms did not answer under the same conditions: figures of time are NULL."""
    found: list[Aggregate] = []
    answers = [row for row in rows if row["kind"] == "generate" and row["status"] in ANSWERED]
    kinds = {arm_name(arm): arm_kind(arm) for arm in arms}
    pairs = [pair for pair in compared_arms(arms) if [kinds[arm] for arm in pair] == ["guided", "free"]]
    turns = [row for row in answers if row["dataset"] in guides and row["arm"] in ("guided", FREE_MATCHED)]
    blocks = blocks_of(turns)
    for dataset, kind in guides.items():
        own = [row for row in answers if row["dataset"] == dataset]
        for candidate, baseline in pairs:
            sides = _Sides(own, prefix=f"{dataset}.guide", arms=(candidate, baseline), clusters=clusters)
            found += _of_form(sides, json_kind=kind in JSON_KINDS)
            found += _of_speed(sides, resumed=resumed)
        for arm in dict.fromkeys(each for pair in pairs for each in pair) | dict.fromkeys(_cost_arms(arms)):
            found += _stream_rate([row for row in own if row["arm"] == arm], f"{dataset}.guide", arm, resumed=resumed)
        if FREE_MATCHED in arms:
            found += _cost(own, prefix=f"{dataset}.guide", scope="dataset", blocks=blocks, resumed=resumed)
    if FREE_MATCHED in arms:
        found += _cost(turns, prefix="guide", scope="run", blocks=blocks, resumed=resumed)
        found += _throughput(turns, blocks=blocks, resumed=resumed)
    return found


def _cost_arms(arms: Sequence[Arm]) -> list[str]:
    return ["guided", FREE_MATCHED] if FREE_MATCHED in arms else []


class _Sides:
    """Two arms' answers to the same samples and repeats."""

    def __init__(self, rows: Iterable[Row], *, prefix: str, arms: tuple[str, str], clusters: Clusters) -> None:
        self.prefix, self.arms, self.clusters = prefix, arms, clusters
        sides: list[dict[tuple[str, int], Row]] = [{}, {}]
        for row in rows:
            if row["arm"] in arms:
                sides[arms.index(row["arm"])][row["sample_id"], row["repeat"] or 0] = row
        # In one order, so that a bootstrap gives the same numbers again.
        both = sorted(key for key in sides[0] if key in sides[1])
        self.pairs = [(key[0], sides[0][key], sides[1][key]) for key in both]

    def values(self, of: Value) -> tuple[list[str], list[float], list[float]]:
        """Samples, and the value of each side: repeats averaged, pairs left out in which one has none."""
        found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for sample_id, one, two in self.pairs:
            ours, theirs = of(one), of(two)
            if ours is not None and theirs is not None:
                found[sample_id].append((ours, theirs))
        means = [[math.fsum(side) / len(both) for side in zip(*both, strict=True)] for both in found.values()]
        return list(found), [ours for ours, _ in means], [theirs for _, theirs in means]

    def difference(
        self, name: str, of: Value, *, unit: str, shares: bool = False, averaged: bool = True, lower: bool = True
    ) -> Aggregate:
        """candidate - baseline, its mean over samples."""
        samples, ours, theirs = self.values(of)
        result = paired(
            candidate=ours,
            baseline=theirs,
            clusters=clusters_of(samples, clusters=self.clusters),
            averaged=averaged,
            unbounded=not shares,
            lower_is_better=lower,
        )
        return self.row(
            name, value=result.effect, n=result.n, lo=result.lo, hi=result.hi, method=result.method, unit=unit,
            direction="lower" if lower else "higher", ours=_mean(ours), theirs=_mean(theirs), p_value=result.p_value,
        )  # fmt: skip

    def reduction(self, name: str, of: Value) -> Aggregate:
        """1 - candidate / baseline, of shares."""
        samples, ours, theirs = self.values(of)
        clusters = clusters_of(samples, clusters=self.clusters)
        found = quotient(ours, theirs, shares=True, clusters=clusters)
        return self.row(
            name,
            value=None if found.value is None else 1 - found.value,
            n=found.n,
            lo=None if found.hi is None else 1 - found.hi,
            hi=None if found.lo is None else 1 - found.lo,
            stderr=found.stderr,
            method=found.method if theirs and math.fsum(theirs) else "none: the baseline has no failures to reduce",
            unit="share",
            direction="higher",
            ours=_mean(ours),
            theirs=_mean(theirs),
        )

    def row(
        self, name: str, *, ours: float | None, theirs: float | None, p_value: float | None = None, **told: Any
    ) -> Aggregate:
        details: dict[str, Any] = {"baseline_arm": self.arms[1], "candidate": ours, "baseline": theirs}
        if p_value is not None:
            details["p_value"] = p_value
        return Aggregate(
            scope="dataset", name=f"{self.prefix}.{name}", arm=self.arms[0], n_failed=0, details=details, **told
        )


def _of_form(sides: _Sides, *, json_kind: bool) -> list[Aggregate]:
    found = [
        sides.reduction("invalid_reduction", lambda row: None if row["valid"] is None else float(not row["valid"])),
        sides.difference("output_tokens", lambda row: _number(row["output_tokens"]), unit="tokens"),
        sides.difference(
            "length_finishes", _cut, unit="share", shares=True,
            averaged=any(row["repeat"] for _, row, _ in sides.pairs),
        ),
    ]  # fmt: skip
    if json_kind:
        found.insert(0, sides.reduction("parse_failures_reduction", _unparsed))
        found.append(
            sides.difference(
                "whitespace_share", lambda row: _number(row["whitespace_share"]), unit="share", shares=True
            )
        )
    return [each for each in found if each.n]


def _of_speed(sides: _Sides, *, resumed: bool) -> list[Aggregate]:
    found = [sides.difference(name, lambda row, name=name: _number(row[name]), unit=unit)  # type: ignore[misc]
             for name, unit in (("ttft_ms", "ms"), ("tpot_ms", "ms/token"))]  # fmt: skip
    return [_interrupted(each) if resumed else each for each in found if each.n]


def us_per_token(row: Row) -> float | None:
    """Microseconds from one token of an answer to the next, by the engine's clock; None under two tokens."""
    tokens, decode_ms = row["output_tokens"], row["decode_ms"]
    return None if decode_ms is None or not tokens or tokens < 2 else 1000 * decode_ms / (tokens - 1)


def blocks_of(rows: Iterable[Row]) -> dict[str, int]:
    """In which block of a run each request was asked: the arms took turns, so that another block begins where a guided
    request was sent after one of `free_matched`."""
    timed = sorted((row for row in rows if row["sent_at"] is not None), key=lambda row: row["sent_at"])
    found: dict[str, int] = {}
    block, before = 0, "guided"
    for row in timed:
        block += row["arm"] == "guided" and before == FREE_MATCHED
        before = row["arm"]
        found[row["request_id"]] = block
    return found


def _cost(
    rows: Iterable[Row], *, prefix: str, scope: Literal["dataset", "run"], blocks: Mapping[str, int], resumed: bool
) -> list[Aggregate]:
    """What the mask costs: guided against `free_matched`, over the pairs that are of one length. Their error is one of
    blocks: the answers of a block share whatever the machine did meanwhile."""
    sides = _Sides(rows, prefix=prefix, arms=("guided", FREE_MATCHED), clusters=None)
    every = len(sides.pairs)
    sides.pairs = [pair for pair in sides.pairs if pair[1]["output_tokens"] == pair[2]["output_tokens"]]
    # A block is what a cluster of samples is elsewhere. Repeats of a sample are in several: each pair is one by itself.
    sides.pairs = [(f"{sample} {row['repeat'] or 0}", row, other) for sample, row, other in sides.pairs]
    sides.clusters = {sample: str(blocks.get(row["request_id"], 0)) for sample, row, _ in sides.pairs}
    cost = sides.difference("mask_us_per_token", us_per_token, unit="us/token")
    samples, ours, theirs = sides.values(lambda row: row["decode_ms"] if us_per_token(row) else None)
    ratio = pooled([*zip(theirs, ours, strict=True)], clusters=clusters_of(samples, clusters=sides.clusters))
    lo, hi = _on_a_logarithm(ratio)
    speed = sides.row(
        "tokens_per_s_ratio", value=ratio.value, n=ratio.n, lo=lo, hi=hi, stderr=ratio.stderr,
        method=ratio.method, unit="ratio", direction="higher", ours=None, theirs=None,
    )  # fmt: skip
    found = []
    for each in (cost, speed):
        told = {"scope": scope, "n_failed": every - each.n}
        row = replace(each, **told, details=each.details | {"blocks": len(set(sides.clusters.values()))})
        found.append(_interrupted(row) if resumed else row)
    return [each for each in found if each.n]


def _on_a_logarithm(ratio: Estimate) -> tuple[float | None, float | None]:
    """The interval of a ratio above 0, as wide on the ratio's logarithm as that of its sums: it never reaches 0."""
    if not ratio.value or ratio.hi is None:
        return None, None
    half = (ratio.hi - ratio.value) / ratio.value
    return ratio.value * math.exp(-half), ratio.value * math.exp(half)


def _stream_rate(rows: Sequence[Row], prefix: str, arm: str, *, resumed: bool) -> list[Aggregate]:
    """Tokens after the first over the time that they took, of all answers of an arm: the speed of one answer."""
    timed = [row for row in rows if us_per_token(row) is not None and row["decode_ms"] > 0]
    if not timed:
        return []
    value = 1000 * sum(row["output_tokens"] - 1 for row in timed) / math.fsum(row["decode_ms"] for row in timed)
    row = Aggregate(
        scope="dataset", name=f"{prefix}.stream_tokens_per_s", arm=arm, value=value, unit="tokens/s",
        direction="higher", n=len(timed), n_failed=len(rows) - len(timed), method="ratio of sums",
    )  # fmt: skip
    return [_interrupted(row) if resumed else row]


def _throughput(rows: Sequence[Row], *, blocks: Mapping[str, int], resumed: bool) -> list[Aggregate]:
    """Output tokens of an arm over its own time, that from the first request sent to the last token of each block, and
    the ratio: guided and `free_matched` answers each have the engine for themselves. The ratio is the geometric mean of
    the blocks', with Student's t on their logarithms."""
    spans: dict[str, dict[int, tuple[float, float, int]]] = {"guided": {}, FREE_MATCHED: {}}
    for row in rows:
        if row["arm"] in spans and row["sent_at"] is not None and row["e2e_ms"] is not None:
            sent, tokens, block = row["sent_at"].timestamp(), row["output_tokens"] or 0, blocks[row["request_id"]]
            begin, end, before = spans[row["arm"]].get(block, (sent, sent, 0))
            spans[row["arm"]][block] = min(begin, sent), max(end, sent + row["e2e_ms"] / 1000), before + tokens
    rates = {
        arm: {block: tokens / (end - begin) for block, (begin, end, tokens) in own.items() if end > begin and tokens}
        for arm, own in spans.items()
    }
    found = []
    for arm, own in spans.items():
        busy = math.fsum(end - begin for begin, end, _ in own.values())
        if busy > 0:
            rate = sum(tokens for *_, tokens in own.values()) / busy
            found.append(_run_row("tokens_per_s", arm, rate, "tokens/s", n=len(own), method="the arm's own time"))
    both = [block for block in rates["guided"] if block in rates[FREE_MATCHED]]
    if both:
        logs = mean_stderr([math.log(rates["guided"][block] / rates[FREE_MATCHED][block]) for block in both])
        lo, hi = (None if edge is None else math.exp(edge) for edge in (logs.lo, logs.hi))
        method = "geometric mean of the blocks, t of their logarithms"
        value = None if logs.value is None else math.exp(logs.value)
        found.append(
            _run_row("throughput_ratio", "guided", value, "ratio", n=len(both), method=method, lo=lo, hi=hi,
                     details={"baseline_arm": FREE_MATCHED})
        )  # fmt: skip
    return [_interrupted(each) for each in found] if resumed else found


def _run_row(name: str, arm: str, value: float | None, unit: str, *, n: int, method: str, **told: Any) -> Aggregate:
    return Aggregate(
        scope="run", name=f"guide.{name}", arm=arm, value=value, unit=unit, direction="higher", n=n, n_failed=0,
        method=method, **told,
    )  # fmt: skip


def _interrupted(row: Aggregate) -> Aggregate:
    """The same without a value."""
    baseline = row.details.get("baseline_arm")
    details = {} if baseline is None else {"baseline_arm": baseline}
    return replace(row, value=None, stderr=None, lo=None, hi=None, method=RESUMED, details=details)


def _unparsed(row: Row) -> float | None:
    if row["output"] is None:
        return None
    try:
        parse(row["output"])
    except NotJson:
        return 1.0
    return 0.0


def _cut(row: Row) -> float | None:
    return None if row["finish_reason"] is None else float(row["finish_reason"] == "length")


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
