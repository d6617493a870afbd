"""Whether two sides were judged by the same judge: verdicts of two judges are two metrics under one name."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from tasks.compare.pairs import Pair
from warehouse.parquet import read_rows

_COLUMNS = ["dataset", "metric", "arm", "judge_id", "judge_model", "judge", "status"]
_PLACE = frozenset({"url", "vllm"})
"""What is recorded of a judge and does not make it another one."""

Row = dict[str, Any]
Side = dict[tuple[str, str, str], list[Row]]


def check_judges(home: Path, *, candidate: str, baseline: str, pairs: Sequence[Pair]) -> list[str]:
    """Raises ConfigError where what is compared was judged by two judges: another model, prompt, scale, schema or
    sampling, or another version of the model by its endpoint's own word. Gives notes on where else they ran.

    candidate, baseline: run ids."""
    ours = _judges(home, candidate)
    theirs = ours if candidate == baseline else _judges(home, baseline)
    notes: list[str] = []
    for pair in pairs:
        one = ours.get((pair.dataset, pair.metric, pair.candidate_arm), [])
        two = theirs.get((pair.dataset, pair.metric, pair.baseline_arm), [])
        if not one or not two:
            continue
        if _names(one) != _names(two):
            raise ConfigError.one(
                f"{pair.dataset}.{pair.metric} was judged by another judge in the candidate than in the baseline, so "
                f"the scores do not compare; what differs: {_what_differs(one, two)}",
                suggestion="score both with the same judge, as in assay rescore RUN",
            )
        for key in sorted(_PLACE):
            places = [sorted({_told(_facts(row).get(key)) for row in side}) for side in (one, two)]
            if places[0] != places[1]:
                told = " against ".join(", ".join(each) for each in places)
                notes.append(f"{pair.dataset}.{pair.metric}: the judge's {key} was {told}")
    return list(dict.fromkeys(notes))


def _judges(home: Path, run_id: str) -> Side:
    """One row of each judge that gave a verdict, by dataset, metric and arm."""
    found: dict[tuple[str, str, str], dict[tuple[str, str, str], Row]] = {}
    for row in read_rows(home, "judgements", run_id, columns=_COLUMNS):
        if row["status"] == "ok":
            of = found.setdefault((row["dataset"], row["metric"], row["arm"]), {})
            of.setdefault((row["judge_id"], row["judge_model"], row["judge"]), row)
    return {key: list(rows.values()) for key, rows in found.items()}


def _names(rows: Iterable[Row]) -> set[tuple[str, str]]:
    return {(str(row["judge_id"]), str(row["judge_model"])) for row in rows}


def _facts(row: Row) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(row["judge"] or "{}")
    return facts


def _told(value: Any) -> str:
    return "not recorded" if value is None else str(value)


def _what_differs(one: Sequence[Row], two: Sequence[Row]) -> str:
    sides = [_facts(rows[0]) | {"model": rows[0]["judge_model"]} for rows in (one, two)]
    keys = [key for key in dict.fromkeys((*sides[0], *sides[1])) if sides[0].get(key) != sides[1].get(key)]
    found = [key for key in keys if key not in _PLACE]
    if "model" in found:
        found[found.index("model")] = f"model ({sides[0]['model']} against {sides[1]['model']})"
    return ", ".join(found) or "one side has verdicts of several judges"
