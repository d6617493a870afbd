"""What the tables are made of: medians over passes, and Markdown."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def median(rows: Sequence[Row], figure: str, **key: Any) -> float | None:
    """The median over the passes of the rows with these values; None without any."""
    found = [
        row[figure]
        for row in rows
        if row.get(figure) is not None and row["load"] != "start" and all(row.get(k) == v for k, v in key.items())
    ]
    return statistics.median(found) if found else None


def values(rows: Sequence[Row], name: str) -> list[Any]:
    """Every value of a column, in the order in which it came."""
    return list(dict.fromkeys(row[name] for row in rows if row["load"] != "start"))


def shown(value: float | None, digits: int = 3) -> str:
    """A number with so many digits that count."""
    return "" if value is None else f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def ratio(one: float | None, other: float | None) -> str:
    """How many times the other the first one is."""
    return "" if one is None or not other else f"{one / other:.2f}"


def j_per_token(rows: Sequence[Row], **key: Any) -> float | None:
    """The median of the cards' joules for each token put out; None where no energy was read."""
    told = [{**row, "j": row["joules"] / row["output_tokens"]} for row in rows if row.get("joules") is not None]
    return median(told, "j", **key)


def without_empty(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """The table without its last columns that no row has anything in."""
    width = len(head)
    while width > 1 and not any(line[width - 1] for line in lines):
        width -= 1
    return table(head[:width], [line[:width] for line in lines])


def of_the_newest_plan(rows: Sequence[Row]) -> list[Row]:
    """Without what was measured under an earlier plan: of an arm that is planned (and, where they say beside which
    plan or cell they were measured, of its controls) only the rows that have the newest one's schedule."""
    newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def which(row: Row) -> tuple[Any, ...]:
        return row["load"], row.get("model"), None if "auto_threshold" in row else row["arm"]

    def planned(row: Row) -> tuple[Any, ...]:
        of_the_plan = ("threshold", "budget", "yields")
        names = (*(f"auto_{name}" for name in of_the_plan), "beside") if "auto_threshold" in row else of_the_plan
        return tuple(row.get(name) for name in names)

    for row in rows:
        newest[which(row)] = planned(row)
    return [row for row in rows if planned(row) == newest[which(row)]]
