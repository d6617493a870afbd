"""What a model answered to a corpus's schemas, counted from its rows and shown: by backend, and by split."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.corpus import BackendFigures
from tasks.corpus.figures import share_of
from tasks.report.numbers import DASH
from warehouse.parquet import read_rows

Row = Mapping[str, Any]
COUNTED = ("ok", "invalid", "truncated", "refused", "error", "not_asked")
"""Statuses of schemas that say something of the backend; the others (skipped, cancelled, none) say nothing of it."""


def stored_answers(home: Path, run_id: str) -> list[dict[str, Any]]:
    """The rows of `corpus_answers` of a run, in the corpus's order; none where it had no model."""
    return sorted(read_rows(home, "corpus_answers", run_id), key=lambda row: (row["case_id"], row["backend"]))


def with_answers(found: Sequence[BackendFigures], rows: Sequence[Row]) -> list[BackendFigures]:
    """The figures with what the model's answers come to. rows: those of `corpus_answers`."""
    return [
        each.model_copy(update=_counted([row for row in rows if _is_of(row, each)])) if rows else each for each in found
    ]


def _is_of(row: Row, figures: BackendFigures) -> bool:
    return row["backend"] == figures.backend and figures.split in (None, row["split"])


def _counted(rows: Sequence[Row]) -> dict[str, int]:
    counted = [row for row in rows if row["request_status"] in COUNTED]
    ended = [row for row in counted if row["finish_reason"] == "stop"]
    skipped = sum(row["request_status"] == "skipped" for row in rows)
    return {
        "asked": len(counted),
        "skipped": skipped,
        "valid": sum(row["valid"] is True for row in counted),
        "ended": len(ended),
        "ended_valid": sum(row["valid"] is True for row in ended),
        "cut": sum(row["finish_reason"] == "length" for row in counted),
        "failed": sum(row["request_status"] in ("refused", "error") for row in counted),
        "no_answer": len(rows) - len(counted) - skipped,
    }


def answers_table(found: Sequence[BackendFigures], *, narrow: bool = False) -> list[dict[str, str]]:
    """A line a backend that a model's answers were asked of; none without a model. narrow: without intervals."""
    whole = [each for each in found if each.split is None and _has(each)]
    return [{"backend": each.backend, **_cells(each, narrow=narrow)} for each in whole]


def answers_by_split(found: Sequence[BackendFigures]) -> list[dict[str, str]]:
    """A line a split and backend; none where the corpus has one split."""
    parts = [each for each in found if each.split is not None and _has(each)]
    order = {split: number for number, split in enumerate(dict.fromkeys(each.split for each in parts))}
    return [
        {"split": str(each.split), "backend": each.backend, **_cells(each)}
        for each in sorted(parts, key=lambda each: order[each.split])
    ]


def _has(each: BackendFigures) -> bool:
    return bool(each.asked or each.skipped or each.no_answer)


def _cells(each: BackendFigures, *, narrow: bool = False) -> dict[str, str]:
    return {
        "asked": f"{each.asked:,}",
        "takes": _share(each, "accepted", narrow=narrow),
        "valid answer": _share(each, "valid", narrow=narrow),
        "valid of ended": _share(each, "ended_valid", narrow=narrow),
        "ended": f"{each.ended:,}",
        "cut": f"{each.cut:,}",
        "failed": f"{each.failed:,}",
        "skipped": f"{each.skipped:,}",
        "no answer": f"{each.no_answer:,}",
    }


def _share(each: BackendFigures, field: str, *, narrow: bool) -> str:
    share = share_of(each, field)
    if share is None:
        return DASH
    value, lo, hi = share
    return f"{value:.1%}" if narrow else f"{value:.1%} [{lo:.1%}, {hi:.1%}]"
