"""What the backends made of a corpus, as tables for terminals, Markdown and pages. What is not known is a dash."""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.corpus import BackendFigures
from tasks.corpus.figures import share_of
from tasks.report.numbers import DASH

Rows = list[dict[str, str]]
WRONG = ("over", "under", "both")
_COSTS = ("compile ms", "mask µs", "peak MiB")
_NAMED = ("split", "backend", "version", "schemas")


def backends_table(
    found: Sequence[BackendFigures], *, versions: Mapping[str, str | None] | None = None, narrow: bool = False
) -> Rows:
    """A line a backend, over the whole corpus. narrow: for a terminal, without intervals."""
    return [
        {
            "backend": each.backend,
            **({} if versions is None else {"version": versions.get(each.backend) or DASH}),
            **_cells(each, narrow=narrow),
        }
        for each in found
        if each.split is None
    ]


def splits_table(found: Sequence[BackendFigures]) -> Rows:
    """A line a split and backend; none where the corpus has one split."""
    parts = [each for each in found if each.split is not None]
    order = {split: number for number, split in enumerate(dict.fromkeys(each.split for each in parts))}
    return [
        {"split": str(each.split), "backend": each.backend, **_cells(each)}
        for each in sorted(parts, key=lambda each: order[each.split])
    ]


def in_two(rows: Rows) -> tuple[Rows, Rows]:
    """The same lines as two tables, for a page that is not wide enough: what came of the schemas, and what it cost."""
    verdicts = [{head: cell for head, cell in row.items() if not head.startswith(_COSTS)} for row in rows]
    return verdicts, [
        {head: cell for head, cell in row.items() if head.startswith(_COSTS) or head in _NAMED} for row in rows
    ]


def _cells(each: BackendFigures, *, narrow: bool = False) -> dict[str, str]:
    shares = {"takes": "accepted", "right": "right", "over": "over", "under": "under"}
    return {
        "schemas": f"{each.schemas:,}",
        **{name: _share(each, field, narrow=narrow) for name, field in shares.items()},
        "refused": f"{each.refused:,}",
        "timeout": f"{each.timeout:,}",
        "crashed": f"{each.crashed + each.error:,}",
        "compile ms p50/p99": _pair(each.compile_ms, "p50", "p99"),
        "mask µs p50/p99": _pair(each.mask_us, "p50", "p99"),
        **({} if narrow else {"mask µs mean": _number(each.mask_us.get("mean"))}),
        "peak MiB": DASH if each.peak_bytes is None else f"{each.peak_bytes / (1 << 20):,.0f}",
    }


def _share(each: BackendFigures, field: str, *, narrow: bool) -> str:
    share = share_of(each, field)
    if share is None:
        return DASH
    value, lo, hi = share
    return f"{value:.1%}" if narrow else f"{value:.1%} [{lo:.1%}, {hi:.1%}]"


def _pair(values: Mapping[str, float], first: str, second: str) -> str:
    return f"{_number(values.get(first))}/{_number(values.get(second))}" if values else DASH


def _number(value: float | None) -> str:
    if value is None:
        return DASH
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def wrong_schemas(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of `corpus_schemas` of those that a backend takes and gets wrong."""
    return [row for row in rows if row["verdict"] in WRONG]
