"""How good the answers are: the run's aggregates by dataset, metric and arm, and the paired comparisons of its arms."""

from collections import defaultdict
from typing import Any

from schemas.metric import NO_SCORES
from tasks.report.data import ReportData, Row, arm_order
from tasks.report.numbers import is_number

_TIMES = ("timing.", "perf.")
_NO_SCORES = tuple(part.removeprefix(".") for part in NO_SCORES)


def split_name(name: str, datasets: list[str]) -> tuple[str | None, str]:
    """`extract.json_valid` -> (`extract`, `json_valid`); a name of no dataset keeps its whole self."""
    fitting = [dataset for dataset in datasets if name.startswith(f"{dataset}.")]
    if not fitting:
        return None, name
    dataset = max(fitting, key=len)
    return dataset, name[len(dataset) + 1 :]


def quality_rows(data: ReportData) -> list[dict[str, Any]]:
    """The rows of `metrics` that judge answers, with `dataset` and `metric` apart, in the datasets' order.

    Behind them the groups, each with its name as `dataset` and those of its datasets as `members`."""
    names = data.dataset_names
    rows = []
    for row in data.metrics:
        if row.get("cell_id") is not None and row.get("scope") != "dataset":
            continue
        if row["scope"] == "group":
            rows.append(row | _group(row))
            continue
        dataset, metric = split_name(row["name"], names)
        times = row["name"].startswith(_TIMES) or metric.startswith(_TIMES)
        if dataset is None or times or metric.startswith(_NO_SCORES):
            continue
        rows.append({**row, "dataset": dataset, "metric": metric, "members": None})
    place = {name: index for index, name in enumerate(names)}

    def order(row: Row) -> tuple[Any, ...]:
        grouped = row["scope"] == "group"
        first = (len(place), row["dataset"]) if grouped else (place[row["dataset"]], "")
        return (*first, row["metric"], arm_order(row.get("arm")))

    return sorted(rows, key=order)


def _group(row: Row) -> dict[str, Any]:
    """A group's name has no dot, so what is before the first one is it."""
    name, _, metric = row["name"].partition(".")
    details = row.get("details")
    return {
        "dataset": name,
        "metric": metric,
        "members": details.get("datasets") if isinstance(details, dict) else None,
    }


def drawable(row: Row) -> bool:
    """Whether a row fits an axis from 0 to 1: a share, or a number whose interval lies there too.

    The interval of a share's mean may reach beyond; the axis cuts it."""
    ends = [row.get(name) for name in ("value", "lo", "hi")]
    checked = ends[:1] if row.get("unit") == "share" else [end for end in ends if end is not None]
    return is_number(ends[0]) and all(is_number(end) and -0.0005 <= end <= 1.0005 for end in checked)


def grouped(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows by (dataset, metric), in the order in which they come."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["dataset"], row["metric"]].append(row)
    return dict(groups)


def arm_comparisons(data: ReportData) -> list[Row]:
    """Comparisons of two arms of this run (not of two runs), in the datasets' order."""
    own = [
        row
        for row in data.comparisons
        if row.get("baseline_run_id") in (None, data.run_id) and row.get("cell_id") is None  # those of loads are apart
    ]
    place = {name: index for index, name in enumerate(data.dataset_names)}
    return sorted(own, key=lambda row: (place.get(row["dataset"], len(place)), row["metric"]))


def plain_metric(name: str) -> str:
    """`exact_match` -> `exact match`."""
    return name.replace("_", " ")
