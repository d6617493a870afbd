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


def cut_rows(data: ReportData) -> list[dict[str, Any]]:
    """What each dataset's prompts lost to fit the engine: only datasets that lost something."""
    table = []
    for name in data.dataset_names:
        own = [row for row in data.samples if row["dataset"] == name]
        cut = [row["cut_tokens"] for row in own if row.get("cut_tokens")]
        dropped = [row["shots_dropped"] for row in own if row.get("shots_dropped")]
        replaced = [row["replaced_characters"] for row in own if row.get("replaced_characters")]
        if cut or dropped or replaced:
            table.append(
                {
                    "dataset": name,
                    "n": len(own),
                    "cut": len(cut),
                    "cut_tokens": sum(cut),
                    "most": max(cut, default=0),
                    "dropped": len(dropped),
                    "shots": sum(dropped),
                    "replaced": len(replaced),
                    "characters": sum(replaced),
                }
            )
    return table
