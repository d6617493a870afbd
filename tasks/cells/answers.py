"""Whether the answers are still the same texts: a candidate's against its control's, and the control's own."""

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from schemas.cell_figures import Changed, TextsChanged
from schemas.sample import ANSWERED
from tasks.record.answers import last_attempts

Answers = Mapping[str, Mapping[str, Any]]
_COLUMNS = ["arm", "kind", "phase", "status", "sampling", "output", "reasoning"]


def answers_changed(home: Path, *, control: Sequence[str], candidate: Sequence[str]) -> Changed | None:
    """How many answers have another text in the candidate than in the control of the same round, and how many in two
    rounds of the control that follow each other: where nothing was changed, and a text is another one all the same.

    control, candidate: run ids, one a round. Only greedy answers count; None where there are none, as with a
    temperature above 0, under which texts differ by themselves. Reasoning is text too. Raises ValueError for sides of
    unequal length, AssayError for tables that cannot be read."""
    controls, candidates = ([_greedy(home, run_id) for run_id in runs] for runs in (control, candidate))
    rounds = list(zip(controls, candidates, strict=True))
    same, changed, left_out = Counter[str](), Counter[str](), 0
    for own, against in rounds:
        left_out += len(own.keys() ^ against.keys())
        _count(own, against, same=same, changed=changed)
    if not same and not changed:
        return None
    own_same, own_changed = Counter[str](), Counter[str]()
    for one, following in itertools.pairwise(controls):
        _count(one, following, same=own_same, changed=own_changed)
    several = bool(own_same or own_changed)
    return Changed(
        samples=(same + changed).total(),
        changed=changed.total(),
        control_samples=(own_same + own_changed).total() if several else None,
        control_changed=own_changed.total() if several else None,
        left_out=left_out,
        arms={
            arm: TextsChanged(samples=same[arm] + changed[arm], changed=changed[arm]) for arm in sorted(same | changed)
        },
    )


def _greedy(home: Path, run_id: str) -> dict[str, dict[str, Any]]:
    """The greedy answers of the quality phase, by request. A request has the same id in every run of an experiment."""
    return {
        row["request_id"]: row
        for row in last_attempts(home, run_id, columns=_COLUMNS)
        if row["kind"] == "generate"
        and row["phase"] in (None, "quality")
        and row["status"] in ANSWERED
        and _temperature(row["sampling"]) == 0
    }


@lru_cache(maxsize=64)
def _temperature(sampling: str | None) -> float | None:
    """None where it was not recorded."""
    value = json.loads(sampling).get("temperature") if sampling else None
    return None if value is None else float(value)


def _count(one: Answers, other: Answers, *, same: Counter[str], changed: Counter[str]) -> None:
    for request_id, row in one.items():
        against = other.get(request_id)
        if against is not None:
            texts = [(each["reasoning"], each["output"]) for each in (row, against)]
            (same if texts[0] == texts[1] else changed)[row["arm"]] += 1
