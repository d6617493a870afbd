"""Free against guided: how well-formed each arm's answers are, and at what length."""

from typing import Any

from schemas.arm import REPAIR
from schemas.sample import ANSWERED
from tasks.report.data import ReportData, Row, arm_order
from tasks.report.latency import values
from tasks.score.guiding_lines import GuidingLine, guiding_lines
from tasks.score.repaired import judged_rows

_RECORDED = ("declared_coverage", "empirical_coverage", "compliance", "parse_failures", "whitespace_share")


def guided_datasets(data: ReportData) -> list[str]:
    """Datasets whose answers have a form to keep to: something was validated there, or asked for in a guided arm."""
    formed = {row["dataset"] for row in data.generated if row.get("valid") is not None or _guided(data, row.get("arm"))}
    return [name for name in data.dataset_names if name in formed]


def _guided(data: ReportData, arm: str | None) -> bool:
    return arm is not None and data.arm_kinds.get(arm) == "guided"


def repaired_datasets(data: ReportData) -> set[str]:
    """Those that have the arm `repair`, by the profiles, which have a row for each arm of a dataset."""
    return {row["dataset"] for row in data.profiles if row["arm"] == REPAIR}


def guiding(data: ReportData) -> list[GuidingLine]:
    """What the grammar does and costs, figure by figure, as the run recorded it."""
    return guiding_lines(data.metrics, datasets=data.dataset_names)


def _mean(found: list[float]) -> float | None:
    return sum(found) / len(found) if found else None


def _form(rows: list[Row], *, guided: bool) -> dict[str, Any]:
    n = len(rows)
    refused = sum(row.get("status") == "refused" for row in rows)
    judged = [row for row in rows if row.get("valid") is not None]
    valid = sum(row["valid"] is True for row in judged)
    finished = [row for row in rows if row.get("status") in ANSWERED]
    accepted = n - refused
    return {
        "n": n,
        "refused": refused,
        "judged": len(judged),
        "valid": valid,
        "invalid": len(judged) - valid,
        "well_formed": valid / n if judged or refused else None,
        "declared_coverage": accepted / n if guided else None,
        "empirical_coverage": valid / n if guided and (judged or refused) else None,
        "compliance": valid / accepted if guided and accepted and judged else None,
        "parse_failures": None,
        "tokens": _mean(values(finished, "output_tokens")),
        "whitespace_share": _mean(values(finished, "whitespace_share")),
        "length": sum(row.get("finish_reason") == "length" for row in finished),
    }


def _aggregated(data: ReportData, *, dataset: str, arm: str) -> dict[str, Any]:
    """What the run itself recorded of one arm's form (`<dataset>.form.<name>` in `metrics`); it goes before ours."""
    prefix = f"{dataset}.form."
    return {
        row["name"].removeprefix(prefix): row["value"]
        for row in data.metrics
        if row["name"].startswith(prefix) and row.get("arm") == arm and row.get("value") is not None
    }


def form_rows(data: ReportData) -> list[dict[str, Any]]:
    """One row a dataset and arm whose answers are judged. Refused requests stay in every denominator, as does an answer
    that never came. Of the arm `repair` the last answers count."""
    table = []
    judged = judged_rows(data.generated, datasets=repaired_datasets(data))
    for dataset in guided_datasets(data):
        own = [row for row in judged if row["dataset"] == dataset]
        for arm in sorted({row["arm"] for row in own}, key=arm_order):
            answers = [row for row in own if row["arm"] == arm]
            counted = _form(answers, guided=data.arm_kinds.get(arm) not in ("free", REPAIR))
            recorded = _aggregated(data, dataset=dataset, arm=arm)
            kept = {name: recorded[name] for name in _RECORDED if name in recorded}
            table.append({"dataset": dataset, "arm": arm, "kind": data.arm_kinds.get(arm), **counted, **kept})
    return table


def well_formed(data: ReportData) -> dict[str, tuple[int, int]]:
    """(well-formed answers, requests) by arm, over the datasets that every arm with a form to keep to was asked."""
    asked = form_rows(data)
    arms = {row["arm"] for row in asked}
    shared = [name for name in guided_datasets(data) if {row["arm"] for row in asked if row["dataset"] == name} == arms]
    return {
        arm: (
            sum(row["valid"] for row in asked if row["arm"] == arm and row["dataset"] in shared),
            sum(row["n"] for row in asked if row["arm"] == arm and row["dataset"] in shared),
        )
        for arm in sorted(arms, key=arm_order)
    }
