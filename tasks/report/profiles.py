"""The token profiles, with arms of equal prompts as one."""

from typing import Any

from tasks.report.data import ReportData, arm_order

_NOT_COUNTS = ("run_id", "revision", "arm", "tokenize_s")


def profile_table(data: ReportData) -> list[dict[str, Any]]:
    """One row a dataset and set of equal prompts, in the datasets' order; `arms` names the arms that share it."""
    place = {name: index for index, name in enumerate(data.dataset_names)}
    ordered = sorted(data.profiles, key=lambda row: (place.get(row["dataset"], len(place)), arm_order(row.get("arm"))))
    table: list[dict[str, Any]] = []
    for row in ordered:
        counts = {name: value for name, value in row.items() if name not in _NOT_COUNTS}
        twin = next((other for other in table if all(other[name] == value for name, value in counts.items())), None)
        if twin:
            twin["arms"].append(row.get("arm"))
        else:
            table.append({**row, "arms": [row.get("arm")]})
    return table
