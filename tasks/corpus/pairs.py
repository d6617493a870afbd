"""The same schemas in two runs over a corpus: what a pair's two rows say, and what follows from all pairs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.corpus.answers import COUNTED
from tasks.corpus.tables import WRONG
from tasks.score.stats.paired import PairedResult, paired

Row = Mapping[str, Any]
"""Of `corpus_schemas`, with `request_status` and `valid` of `corpus_answers` where a model answered."""
Pair = tuple[Row, Row]
"""The candidate's row and the baseline's."""
Value = Callable[[Row], float | None]
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}


def takes(row: Row) -> float | None:
    """Declared coverage: the backend takes the schema."""
    return float(row["status"] == "accepted")


def is_right(row: Row) -> float | None:
    """It tells all its instances apart; None where none has a verdict."""
    return None if row["verdict"] == "untested" or not row["tests"] else float(row["verdict"] == "right")


def is_wrong(row: Row) -> float | None:
    """It takes the schema and gets an instance wrong; None as above."""
    return None if row["verdict"] == "untested" or not row["tests"] else float(row["verdict"] in WRONG)


def valid_answer(row: Row) -> float | None:
    """Empirical coverage: the backend takes it and the model's answer obeys it; None where no model was asked."""
    return None if row.get("request_status") not in COUNTED else float(row["valid"] is True)


def compile_ms(row: Row) -> float | None:
    """Time of vLLM's check and of compiling, of a schema that it takes."""
    if row["status"] != "accepted" or row["check_s"] is None or row["compile_s"] is None:
        return None
    return float(row["check_s"] + row["compile_s"]) * 1000


def mask_us(row: Row) -> float | None:
    """Mean time of a token's mask."""
    return None if row["mask_us_mean"] is None else float(row["mask_us_mean"])


COVERAGE: dict[str, Value] = {"takes": takes, "right": is_right, "valid_answer": valid_answer}
"""The shares that are told by split."""
TIMES: dict[str, Value] = {"compile_ms": compile_ms, "mask_us": mask_us}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A share of the schemas of a split on both sides. split: None: the whole corpus. figure: takes (declared), right,
    valid_answer (empirical). effect: candidate - baseline, lo and hi its 95 % interval; None without a pair."""

    split: str | None
    figure: str
    candidate: float | None
    baseline: float | None
    effect: float | None
    lo: float | None
    hi: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A time of the candidate over the baseline's: the exponential of the mean difference of logarithms over the
    schemas of which both have one, and its interval; None without any. candidate, baseline: p50, p95 and p99 over these
    schemas, in the figure's unit; empty without any."""

    figure: str
    value: float | None
    lo: float | None
    hi: float | None
    n: int
    candidate: dict[str, float]
    baseline: dict[str, float]


def values(pairs: Sequence[Pair], of: Value) -> tuple[list[float], list[float]]:
    """The candidate's values and the baseline's, of the pairs in which both have one."""
    both = [(one, two) for one, two in ((of(after), of(before)) for after, before in pairs) if None not in (one, two)]
    return [float(one) for one, _ in both if one is not None], [float(two) for _, two in both if two is not None]


def compared(pairs: Sequence[Pair], of: Value, *, lower_is_better: bool = False) -> PairedResult:
    """The paired difference of a share."""
    left, right = values(pairs, of)
    return paired(candidate=left, baseline=right, lower_is_better=lower_is_better)


def coverage(pairs: Sequence[Pair]) -> list[Coverage]:
    """Each share that anything is known of: over the whole corpus, and where it has several splits, by split, in the
    corpus's order."""
    splits = list(dict.fromkeys(after["split"] for after, _ in pairs))
    parts: list[str | None] = [None, *(splits if len(splits) > 1 else [])]
    found = []
    for split in parts:
        own = [pair for pair in pairs if split in (None, pair[0]["split"])]
        for figure, of in COVERAGE.items():
            left, right = values(own, of)
            result = compared(own, of)
            if result.n:
                found.append(
                    Coverage(
                        split=split,
                        figure=figure,
                        candidate=math.fsum(left) / result.n,
                        baseline=math.fsum(right) / result.n,
                        effect=result.effect,
                        lo=result.lo,
                        hi=result.hi,
                        n=result.n,
                    )
                )
    return found


def ratio(pairs: Sequence[Pair], figure: str) -> Ratio:
    """A time of both, and the ratio."""
    left, right = values(pairs, TIMES[figure])
    logs = [[math.log(max(each, 1e-6)) for each in side] for side in (left, right)]
    found = paired(candidate=logs[0], baseline=logs[1], lower_is_better=True, unbounded=True, averaged=True)
    value, lo, hi = (None if each is None else math.exp(each) for each in (found.effect, found.lo, found.hi))
    return Ratio(
        figure=figure, value=value, lo=lo, hi=hi, n=found.n, candidate=_percentiles(left), baseline=_percentiles(right)
    )


def _percentiles(found: Sequence[float]) -> dict[str, float]:
    return {name: float(np.percentile(found, at)) for name, at in _PERCENTILES.items()} if found else {}
