"""What the backends made of a corpus, counted from its rows: by backend, and by split."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.corpus import BackendFigures
from tasks.score.stats.wilson import wilson
from warehouse.parquet import read_rows

Row = Mapping[str, Any]
_STATUSES = ("refused", "timeout", "crashed", "error")
SHARES = (
    ("declared_coverage", "accepted", "higher"),
    ("right", "right", "higher"),
    ("over", "over", "lower"),
    ("under", "under", "lower"),
    ("refused", "refused", "lower"),
    ("timeout", "timeout", "lower"),
    ("crashed", "crashed", "lower"),
    ("empirical_coverage", "valid", "higher"),
    ("compliance", "ended_valid", "higher"),
)
"""(name, field, better): shares of the schemas, or of answers, each with Wilson's interval."""
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def stored_schemas(home: Path, run_id: str) -> list[dict[str, Any]]:
    """The rows of `corpus_schemas` of a run, without the schemas themselves, in the corpus's order."""
    from warehouse.schema.corpora import CORPUS_SCHEMAS  # noqa: PLC0415 - beside its only use

    columns = [name for name in CORPUS_SCHEMAS.names if name != "schema"]
    rows = read_rows(home, "corpus_schemas", run_id, columns=columns)
    return sorted(rows, key=lambda row: (row["case_id"], row["backend"]))


def stored_masks(home: Path, run_id: str) -> dict[tuple[str, str], "np.ndarray[Any, Any]"]:
    """Every token's mask time in microseconds, by backend and split."""
    rows = read_rows(
        home, "corpus_tests", run_id, columns=["case_id", "backend", "test_index", "split", "mask_us", "revision"]
    )
    found: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        if row["mask_us"]:
            found.setdefault((row["backend"], row["split"]), []).append(np.asarray(row["mask_us"], dtype=float))
    return {key: np.concatenate(each) for key, each in found.items()}


def figures(
    rows: Sequence[Row], masks: Mapping[tuple[str, str], "np.ndarray[Any, Any]"], *, backends: Sequence[str]
) -> list[BackendFigures]:
    """By backend: the whole corpus, then each split in the corpus's order."""
    splits = list(dict.fromkeys(row["split"] for row in rows))
    found = []
    for backend in backends:
        own = [row for row in rows if row["backend"] == backend]
        found.append(_counted(own, [masks[backend, each] for each in splits if (backend, each) in masks], backend))
        if len(splits) > 1:
            for split in splits:
                part = [row for row in own if row["split"] == split]
                times = [masks[backend, split]] if (backend, split) in masks else []
                found.append(_counted(part, times, backend, split=split))
    return found


def _counted(
    rows: Sequence[Row], masks: "list[np.ndarray[Any, Any]]", backend: str, *, split: str | None = None
) -> BackendFigures:
    statuses = [row["status"] for row in rows]
    accepted = [row for row in rows if row["status"] == "accepted"]
    seconds = [row["check_s"] + row["compile_s"] for row in accepted if None not in (row["check_s"], row["compile_s"])]
    times = np.concatenate(masks) if masks else np.array([])
    peaks = [row["peak_bytes"] for row in rows if row["peak_bytes"] is not None]
    return BackendFigures(
        backend=backend,
        split=split,
        schemas=len(rows),
        accepted=len(accepted),
        **{status: statuses.count(status) for status in _STATUSES},
        right=sum(row["verdict"] == "right" for row in rows),
        over=sum(row["verdict"] in ("over", "both") for row in rows),
        under=sum(row["verdict"] in ("under", "both") for row in rows),
        with_tests=sum(row["tests"] > 0 and row["verdict"] != "untested" for row in rows),
        untested=sum(row["verdict"] == "untested" for row in rows),
        tests=_sum(row["tests"] for row in accepted),
        over_tests=_sum(row["over"] for row in accepted),
        under_tests=_sum(row["under"] for row in accepted),
        reordered=_sum(row["reordered"] for row in accepted),
        unjudged=_sum(row["unjudged"] for row in accepted),
        disputed=_sum(row["disputed"] for row in accepted),
        compile_ms=_percentiles(np.array(seconds) * 1000),
        mask_us={"mean": float(times.mean()), **_percentiles(times)} if len(times) else {},
        mask_tokens=len(times),
        peak_bytes=max(peaks, default=None),
    )


def metric_rows(found: Sequence[BackendFigures]) -> list[dict[str, Any]]:
    """The rows of `metrics`: `grammars.<backend>.<figure>`, and `grammars.<backend>.<split>.<figure>`."""
    rows = []
    for each in found:
        stem = ".".join(filter(None, ("grammars", each.backend, each.split)))
        shared = {"scope": "group", "arm": None, "cell_id": None}
        for name, field, better in SHARES:
            share = share_of(each, field)
            if share is not None:
                value, lo, hi = share
                rows.append(
                    {**shared, "name": f"{stem}.{name}", "value": value, "lo": lo, "hi": hi, "method": "wilson"}
                    | {"unit": "share", "direction": better, "n": _of(each, field)}
                )
        for name, values, unit, number in (
            ("compile_ms", each.compile_ms, "ms", each.accepted),
            ("mask_us", each.mask_us, "us", each.mask_tokens),
        ):
            rows += [
                {**shared, "name": f"{stem}.{name}.{key}", "value": value, "unit": unit, "direction": "lower"}
                | {"n": number}
                for key, value in values.items()
            ]
    return rows


def share_of(found: BackendFigures, field: str) -> tuple[float, float, float] | None:
    """A count as a share with Wilson's 95 % interval; None where it rests on nothing."""
    n, count = _of(found, field), getattr(found, field)
    if not n:
        return None
    return count / n, *wilson(rate=count / n, n=n)


def _of(found: BackendFigures, field: str) -> int:
    """What a count is a share of: all schemas; where instances have to be told apart, those that have some, taken or
    not, so that a backend gains nothing by refusing; of answers, see `BackendFigures`."""
    if field in ("valid", "ended_valid"):
        return found.asked if field == "valid" else found.ended
    return found.with_tests if field in ("right", "over", "under") else found.schemas


def _percentiles(values: "np.ndarray[Any, Any]") -> dict[str, float]:
    if not len(values):
        return {}
    return {name: float(np.percentile(values, at)) for name, at in _PERCENTILES.items()}


def _sum(values: Iterable[int]) -> int:
    return sum(values)
