"""Two runs over a corpus against each other, schema by schema: such as two releases of a backend, or two backends."""

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.metric import Comparison
from tasks.compare.runs import check_margin
from tasks.config.nearest import did_you_mean_or_list
from tasks.corpus.answers import stored_answers
from tasks.corpus.figures import stored_schemas
from tasks.corpus.pairs import (
    TIMES,
    Coverage,
    Pair,
    Ratio,
    Row,
    Value,
    compared,
    coverage,
    is_right,
    is_wrong,
    ratio,
    takes,
    valid_answer,
    values,
)
from tasks.record.rows import comparison_rows
from tasks.score.stats.holm import holm
from tasks.score.stats.verdict import decide
from warehouse.build import ensure_fresh
from warehouse.parquet import read_rows, write_rows

FLOW = "grammars"

_SHARES: dict[str, tuple[Value, bool]] = {
    "takes": (takes, False),
    "right": (is_right, False),
    "silently_wrong": (is_wrong, True),
    "valid_answer": (valid_answer, False),
}
_WITH_A_MODEL = "valid_answer"
"""The share that is there only where a model answered in both runs."""
_UNLIKE = {
    "fingerprint": "the corpus's file had another content: schemas pair by place and content, instances may differ",
    "tokenizer": "other tokens, {own} against {other}: masks do not cost the same",
    "jobs": "{own} jobs beside each other against {other}: times may differ by that alone",
    "limit_s": "{own} s to compile a schema against {other} s: that alone may time one out",
    "memory_gb": "{own} GiB for a schema against {other} GiB: that alone may crash one",
}
"""By key of a run's config: what a reader must know where the two differ in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A schema that came out otherwise. message: what was said against it in the candidate; before_message: in the
    baseline."""

    case_id: str
    name: str
    split: str
    before: str
    after: str
    message: str | None
    before_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCompared:
    """One backend of the candidate against one of the baseline. shares: takes, right, silently_wrong, and valid_answer
    where a model answered in both. coverage: of the whole corpus and by split. changed: those that came out worse
    first."""

    candidate: str
    baseline: str
    candidate_version: str | None
    baseline_version: str | None
    n_pairs: int
    shares: list[Comparison]
    coverage: list[Coverage]
    ratios: list[Ratio]
    changed: list[Changed]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSide:
    """One of the two runs. tokenizer: the model whose tokens were used; None: single bytes."""

    run_id: str
    name: str
    status: str
    started_at: datetime.datetime | None
    vllm_version: str | None
    tokenizer: str | None
    schemas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusComparison:
    """sides: the candidate and the baseline. unpaired: schemas and backends that only one of the two has."""

    candidate: str
    baseline: str
    sides: tuple[CorpusSide, CorpusSide]
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
    sides = [_by_backend(home, run_id) for run_id in (candidate, baseline)]
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
        sides=(_side(runs[0], sides[0]), _side(runs[1], sides[1])),
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
    columns = ["run_id", "name", "status", "config", "started_at", "revision"]
    return read_rows(home, "runs", run_id, columns=columns, parse_json=True)[-1]


def _by_backend(home: Path, run_id: str) -> dict[str, dict[str, Row]]:
    answers = {(row["case_id"], row["backend"]): row for row in stored_answers(home, run_id)}
    found: dict[str, dict[str, Row]] = {}
    for row in stored_schemas(home, run_id):
        answer = answers.get((row["case_id"], row["backend"]))
        told = {} if answer is None else {name: answer[name] for name in ("request_status", "valid")}
        found.setdefault(row["backend"], {})[row["case_id"]] = row | told
    return found


def _side(run: Row, backends: Mapping[str, Mapping[str, Row]]) -> CorpusSide:
    rows = [row for own in backends.values() for row in own.values()]
    first: Row = next((row for row in rows if row["vllm_version"] is not None), {})
    return CorpusSide(
        run_id=run["run_id"],
        name=str(run["name"]),
        status=run["status"],
        started_at=run["started_at"],
        vllm_version=first.get("vllm_version"),
        tokenizer=next((row["tokenizer"] for row in rows if row["tokenizer"] is not None), None),
        schemas=len({row["case_id"] for row in rows}),
    )


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
    shares = [_share(pairs, name, dataset=dataset, own=own, other=other, margin=margin) for name in _SHARES]
    return BackendCompared(
        candidate=own,
        baseline=other,
        candidate_version=pairs[0][0]["backend_version"],
        baseline_version=pairs[0][1]["backend_version"],
        n_pairs=len(pairs),
        shares=[share for share in shares if share.n_pairs or share.metric != _WITH_A_MODEL],
        coverage=coverage(pairs),
        ratios=[ratio(pairs, name) for name in TIMES],
        changed=sorted(
            (_changed(after, before) for after, before in pairs if after["verdict"] != before["verdict"]),
            key=lambda each: (each.before != "right", each.after == "right"),
        ),
    )


def _changed(after: Row, before: Row) -> Changed:
    return Changed(
        case_id=after["case_id"],
        name=after["name"],
        split=after["split"],
        before=before["verdict"],
        after=after["verdict"],
        message=after["message"],
        before_message=before["message"],
    )


def _share(pairs: Sequence[Pair], name: str, *, dataset: str, own: str, other: str, margin: float) -> Comparison:
    of, lower_is_better = _SHARES[name]
    found = compared(pairs, of, lower_is_better=lower_is_better)
    left, right = values(pairs, of)
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
