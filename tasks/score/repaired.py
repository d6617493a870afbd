"""The answers of the arm `repair`: of each sample, the last that there is.

Its first answer is that of `free`, where that is an arm too, and then it is asked once and stands there alone; its
retries are its own. So the arm's answers, and what they took, are put together from the rows of both.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from schemas.arm import FREE_MATCHED, REPAIR
from schemas.sample import ANSWERED

Row = Mapping[str, Any]
Key = tuple[str, str, int]
"""Dataset, sample and repeat."""


def tries(rows: Iterable[Row], *, datasets: Collection[str]) -> dict[Key, list[Row]]:
    """What the arm was answered, in order, the free answer first. rows: of `requests`; datasets: those that have the
    arm. A sample whose free answer is not there has none."""
    first: dict[Key, Row] = {}
    own: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] != "generate" or row["dataset"] not in datasets:
            continue
        key = (row["dataset"], row["sample_id"], row["repeat"] or 0)
        if row["arm"] == REPAIR:
            own[key].append(row)
        elif row["arm"] == "free":
            first[key] = row
    found: dict[Key, list[Row]] = {}
    for key in sorted({*first, *own}):
        ordered = sorted(own.get(key, []), key=lambda row: row["repair_try"] or 0)
        if not ordered or ordered[0]["repair_try"]:
            if key not in first:
                continue
            ordered = [first[key], *ordered]
        found[key] = ordered
    return found


def last_of(found: list[Row]) -> Row:
    """The one that counts: the last that the engine answered; where it answered none, the last."""
    return next((row for row in reversed(found) if row["status"] in ANSWERED), found[-1])


def judged_rows(rows: Iterable[Row], *, datasets: Collection[str]) -> list[Row]:
    """The rows whose answers are judged and scored: of the arm `repair`, one a sample and repeat, the one that counts,
    under that arm's name; of `free_matched` none. datasets: those that have the arm `repair`."""
    every = list(rows)
    kept = [row for row in every if row["arm"] not in (REPAIR, FREE_MATCHED)]
    final = [last_of(found) for found in tries(every, datasets=datasets).values()]
    return [*kept, *({**row, "arm": REPAIR} for row in final)]
