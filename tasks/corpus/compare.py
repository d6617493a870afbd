"""Two runs over a corpus against each other, schema by schema: such as two releases of a backend, or two backends."""

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.metric import Comparison
from tasks.compare.runs import check_margin
from tasks.config.nearest import did_you_mean_or_list
from tasks.corpus.figures import stored_schemas
from tasks.corpus.tables import WRONG
from tasks.record.rows import comparison_rows
from tasks.score.stats.holm import holm
from tasks.score.stats.paired import PairedResult, paired
from tasks.score.stats.verdict import decide
from warehouse.build import ensure_fresh
from warehouse.parquet import read_rows, write_rows

FLOW = "grammars"
Row = Mapping[str, Any]
Pair = tuple[Row, Row]


def _takes(row: Row) -> float | None:
    return float(row["status"] == "accepted")


def _is_right(row: Row) -> float | None:
    return None if row["verdict"] == "untested" or not row["tests"] else float(row["verdict"] == "right")


def _is_wrong(row: Row) -> float | None:
    return None if row["verdict"] == "untested" or not row["tests"] else float(row["verdict"] in WRONG)


def _compile_ms(row: Row) -> float | None:
    if row["status"] != "accepted" or row["check_s"] is None or row["compile_s"] is None:
        return None
    return math.log(max((row["check_s"] + row["compile_s"]) * 1000, 1e-6))


def _mask_us(row: Row) -> float | None:
    return None if row["mask_us_mean"] is None else math.log(max(row["mask_us_mean"], 1e-6))


_SHARES: dict[str, tuple[Callable[[Row], float | None], bool]] = {
    "takes": (_takes, False),
    "right": (_is_right, False),
    "silently_wrong": (_is_wrong, True),
}
_TIMES: dict[str, Callable[[Row], float | None]] = {"compile_ms": _compile_ms, "mask_us": _mask_us}
"""Compared as ratios: the exponential of the mean difference of logarithms, over the schemas that both take."""
_UNLIKE = {
    "fingerprint": "the corpus's file had another content: schemas pair by place and content, instances may differ",
    "tokenizer": "other tokens, {own} against {other}: masks do not cost the same",
    "jobs": "{own} jobs beside each other against {other}: times may differ by that alone",
    "limit_s": "{own} s to compile a schema against {other} s: that alone may time one out",
    "memory_gb": "{own} GiB for a schema against {other} GiB: that alone may crash one",
}
"""By key of a run's config: what a reader must know where the two differ in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A time of the candidate over the baseline's: geometric mean over schemas, its interval; None without any."""

    figure: str
    value: float | None
    lo: float | None
    hi: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A schema that came out otherwise."""

    case_id: str
    name: str
    split: str
    before: str
    after: str
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCompared:
    """One backend of the candidate against one of the baseline. shares: takes, right, silently_wrong."""

    candidate: str
    baseline: str
    candidate_version: str | None
    baseline_version: str | None
    n_pairs: int
    shares: list[Comparison]
    ratios: list[Ratio]
    changed: list[Changed]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusComparison:
    """unpaired: schemas and backends that only one of the two has."""

    candidate: str
    baseline: str
    margin: float
    backends: list[BackendCompared]
    unpaired: int
    notes: list[str]
    compared_at: datetime.datetime


def are_corpora(home: Path, *run_ids: str) -> bool:
    """Whether these are runs over a corpus. Raises ConfigError where some are and some are not."""
    flows = {row["run_id"]: row["flow"] for row in read_rows(home, "runs", columns=["run_id", "flow", "revision"])}
    are = [flows.get(run_id) == FLOW for run_id in run_ids]
    if any(are) and not all(are):
        odd = next(run_id for run_id, is_one in zip(run_ids, are, strict=True) if not is_one)
        raise ConfigError.one(
            f"run {odd} is none over a corpus of schemas, and the other is",
            suggestion="compare two of `assay grammars`",
        )
    return all(are)


def compare_corpora(
    home: Path, *, candidate: str, baseline: str, arms: tuple[str | None, str | None], margin: float
) -> CorpusComparison:
    """Compares backend with backend, by name; arms: one of each instead. Raises ConfigError for a backend that a run
    does not have, one compared with itself, a margin that is none, and where no backend or schema is in both."""
    check_margin(margin)
    sides = [_by_backend(stored_schemas(home, run_id)) for run_id in (candidate, baseline)]
    pairs_of_names = _names(sides[0], sides[1], arms=arms)
    if candidate == baseline and any(own == other for own, other in pairs_of_names):
        raise ConfigError.one(
            f"run {candidate} would be compared with itself",
            suggestion=f"name two of its backends, as in RUN:xgrammar RUN:guidance; it has {', '.join(sides[0])}",
        )
    runs = [_run(home, run_id) for run_id in (candidate, baseline)]
    dataset = str(runs[0]["name"])
    found, unpaired = [], 0
    for own, other in pairs_of_names:
        both = sides[0][own].keys() & sides[1][other].keys()
        unpaired += len(sides[0][own].keys() ^ sides[1][other].keys())
        pairs = [(sides[0][own][key], sides[1][other][key]) for key in sorted(both)]
        if pairs:
            found.append(_compared(pairs, dataset=dataset, own=own, other=other, margin=margin))
    if not found:
        raise ConfigError.one("the two runs have no schema in common", suggestion="compare two over the same corpus")
    return CorpusComparison(
        candidate=candidate,
        baseline=baseline,
        margin=margin,
        backends=_adjusted(found),
        unpaired=unpaired,
        notes=[*_notes(found, unpaired), *([] if candidate == baseline else _unlike(runs[0], runs[1]))],
        compared_at=datetime.datetime.now(datetime.UTC),
    )


def save(home: Path, comparison: CorpusComparison) -> None:
    """Keeps the shares as rows of `comparisons` under the candidate's run. Raises OSError, AssayError."""
    before = read_rows(home, "comparisons", comparison.candidate, columns=["revision", "baseline_run_id"])
    revision = max((row["revision"] for row in before), default=-1) + 1
    rows = comparison_rows(
        [share for backend in comparison.backends for share in backend.shares],
        run_id=comparison.baseline,
        compared_at=comparison.compared_at,
    )
    part = f"{revision:04d}-compare"
    write_rows(home=home, table="comparisons", run_id=comparison.candidate, rows=rows, part=part, revision=revision)
    ensure_fresh(home)


def _run(home: Path, run_id: str) -> Row:
    columns = ["run_id", "name", "status", "config", "revision"]
    return read_rows(home, "runs", run_id, columns=columns, parse_json=True)[-1]


def _by_backend(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["backend"], {})[row["case_id"]] = row
    return found


def _names(
    own: Mapping[str, Any], other: Mapping[str, Any], *, arms: tuple[str | None, str | None]
) -> list[tuple[str, str]]:
    for arm, side in zip(arms, (own, other), strict=True):
        if arm is not None and arm not in side:
            raise ConfigError.one(f"there is no backend `{arm}` in the run", suggestion=did_you_mean_or_list(arm, side))
    first, second = arms
    if first is None and second is None:
        common = [(name, name) for name in own if name in other]
        if not common:
            raise ConfigError.one(
                f"no backend is in both: the candidate has {', '.join(own) or 'none'}, the baseline"
                f" {', '.join(other) or 'none'}",
                suggestion="name one of each, as in RUN:xgrammar RUN:guidance",
            )
        return common
    if first is None or second is None:
        return [(str(first or second), str(second or first))]
    return [(first, second)]


def _compared(pairs: Sequence[Pair], *, dataset: str, own: str, other: str, margin: float) -> BackendCompared:
    return BackendCompared(
        candidate=own,
        baseline=other,
        candidate_version=pairs[0][0]["backend_version"],
        baseline_version=pairs[0][1]["backend_version"],
        n_pairs=len(pairs),
        shares=[_share(pairs, name, dataset=dataset, own=own, other=other, margin=margin) for name in _SHARES],
        ratios=[_ratio(pairs, name) for name in _TIMES],
        changed=[
            Changed(
                case_id=after["case_id"],
                name=after["name"],
                split=after["split"],
                before=before["verdict"],
                after=after["verdict"],
                message=after["message"],
            )
            for after, before in pairs
            if after["verdict"] != before["verdict"]
        ],
    )


def _share(pairs: Sequence[Pair], name: str, *, dataset: str, own: str, other: str, margin: float) -> Comparison:
    of, lower_is_better = _SHARES[name]
    found, left, right = _paired(pairs, of, lower_is_better=lower_is_better)
    decision = decide(
        effect=found.effect, lo=found.lo, hi=found.hi, margin=margin, n=found.n, lower_is_better=lower_is_better
    )
    return Comparison(
        dataset=dataset,
        metric=name,
        candidate_arm=own,
        baseline_arm=other,
        n_pairs=found.n,
        prompts_differ=False,
        candidate=math.fsum(left) / found.n if found.n else None,
        baseline=math.fsum(right) / found.n if found.n else None,
        effect=found.effect,
        lo=found.lo,
        hi=found.hi,
        p_value=found.p_value,
        p_adjusted=None,
        method=found.method,
        margin=margin,
        verdict=decision.word,
        n_needed=decision.n_needed,
        wins=found.wins,
        losses=found.losses,
        ties=found.ties,
    )


def _ratio(pairs: Sequence[Pair], name: str) -> Ratio:
    found, *_ = _paired(pairs, _TIMES[name], lower_is_better=True, unbounded=True)
    value, lo, hi = (None if each is None else math.exp(each) for each in (found.effect, found.lo, found.hi))
    return Ratio(figure=name, value=value, lo=lo, hi=hi, n=found.n)


def _paired(
    pairs: Sequence[Pair], of: Callable[[Row], float | None], *, lower_is_better: bool, unbounded: bool = False
) -> tuple[PairedResult, list[float], list[float]]:
    both = [(one, two) for one, two in ((of(after), of(before)) for after, before in pairs) if None not in (one, two)]
    left, right = [float(one) for one, _ in both if one is not None], [float(two) for _, two in both if two is not None]
    found = paired(
        candidate=left, baseline=right, lower_is_better=lower_is_better, unbounded=unbounded, averaged=unbounded
    )
    return found, left, right


def _adjusted(found: Sequence[BackendCompared]) -> list[BackendCompared]:
    """With Holm's adjustment over all shares that are compared together."""
    adjusted = iter(holm([share.p_value for backend in found for share in backend.shares]))
    return [
        replace(backend, shares=[replace(share, p_adjusted=next(adjusted)) for share in backend.shares])
        for backend in found
    ]


def _notes(found: Sequence[BackendCompared], unpaired: int) -> list[str]:
    notes = [] if not unpaired else [f"{unpaired:,} schemas are in one of the two runs only, and are left out"]
    same = [
        each.candidate
        for each in found
        if each.candidate == each.baseline and each.candidate_version == each.baseline_version
    ]
    if same:
        notes.append(f"the same version on both sides: {', '.join(same)}")
    return notes


def _unlike(candidate: Row, baseline: Row) -> list[str]:
    """What else than the backends differs between the two, so that a difference may come from there."""
    notes = [
        f"the {side} is {run['status']}: it may have asked only some of its schemas"
        for side, run in (("candidate", candidate), ("baseline", baseline))
        if run["status"] != "finished"
    ]
    one, two = candidate["config"] or {}, baseline["config"] or {}
    for key, words in _UNLIKE.items():
        own, other = one.get(key), two.get(key)
        if own != other and key in one and key in two:
            notes.append(words.format(own=_told(own), other=_told(other)))
    return notes


def _told(value: Any) -> str:
    return "single bytes" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
