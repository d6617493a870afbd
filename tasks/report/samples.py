"""Every sample with its answers, and every request that did not end well, with its reason."""

import json
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from tasks.report.data import ReportData, Row, arm_order, outcome
from tasks.report.text import shortened

MOST_SAMPLES = 600
MOST_FAILURES = 1_000
_TEXT_BUDGET = 1_600_000
"""Characters of prompts and answers that one page carries; beyond it each text is shortened."""


class Text(NamedTuple):
    """A text with the middle left out: head, characters missing, tail."""

    head: str
    left_out: int
    tail: str


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def text_of(value: Any, *, limit: int) -> Text | None:
    """A value as a text of at most about `limit` characters; None stays None."""
    text = _as_text(value)
    return None if text is None else Text(*shortened(text, limit=limit))


def reason_of(row: Row) -> str:
    """Why a request did not end well, in words."""
    if row.get("error"):
        return str(row["error"])
    violations = [f"{v.get('path') or '(whole answer)'}: {v.get('message')}" for v in row.get("violations") or []]
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        return violations[0] + more
    if row.get("finish_reason") == "length":
        return f"cut at max_tokens after {row.get('output_tokens') or 'an unknown number of'} tokens"
    if row.get("valid") is False:
        return "the answer is not of the form asked for"
    return "no reason was recorded"


def _worst(rows: list[Row]) -> str:
    order = ("error", "refused", "cancelled", "invalid", "truncated", "ok")
    found = {outcome(row) for row in rows}
    return next((status for status in order if status in found), "none")


def anchors(data: ReportData) -> dict[tuple[str, str], str]:
    """The id on the page of each sample that is shown, by (dataset, sample_id)."""
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in data.requests:
        rows[row["dataset"], row["sample_id"]].append(row)
    keys = [(row["dataset"], row["sample_id"]) for row in data.samples]
    if len(keys) > MOST_SAMPLES:
        bad = [key for key in keys if _worst(rows[key]) in ("error", "refused", "cancelled")]
        kept = set(list(dict.fromkeys([*bad, *keys]))[:MOST_SAMPLES])
        keys = [key for key in keys if key in kept]
    return {key: f"s{index}" for index, key in enumerate(keys)}


def _limit(data: ReportData, shown: dict[tuple[str, str], str]) -> int:
    lengths = [len(row.get("prompt") or "") for row in data.samples if (row["dataset"], row["sample_id"]) in shown]
    lengths += [len(row.get("output") or "") for row in data.requests if (row["dataset"], row["sample_id"]) in shown]
    limit = 6_000
    while limit > 300 and sum(min(length, limit) for length in lengths) > _TEXT_BUDGET:
        limit = int(limit * 0.8)
    return limit


def cards(data: ReportData, shown: dict[tuple[str, str], str]) -> list[dict[str, Any]]:
    """One card a shown sample: its prompt and target, and by arm the answer, scores and violations."""
    limit = _limit(data, shown)
    requests: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in data.requests:
        requests[row["dataset"], row["sample_id"]].append(row)
    scores: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in data.scores:
        scores[row["dataset"], row["sample_id"], row["arm"]].append(row)
    found = []
    for sample in data.samples:
        key = (sample["dataset"], sample["sample_id"])
        if key not in shown:
            continue
        own = sorted(requests[key], key=lambda row: (arm_order(row["arm"]), row.get("choice_index") or 0))
        answers = [
            {
                **row,
                "status": outcome(row),
                "text": text_of(row.get("output"), limit=limit),
                "thought": text_of(row.get("reasoning"), limit=limit),
                "why": None if outcome(row) == "ok" else reason_of(row),
            }
            for row in own
            if row.get("kind") != "loglikelihood"
        ]
        arms = sorted({row["arm"] for row in own}, key=arm_order)
        found.append(
            {
                "anchor": shown[key],
                "sample": sample,
                "prompt": text_of(sample.get("prompt"), limit=limit),
                "target": text_of(sample.get("target"), limit=limit),
                "answers": answers,
                "choices": [row for row in own if row.get("kind") == "loglikelihood"],
                "scores": [score for arm in arms for score in scores[(*key, arm)]],
                "arms": arms,
                "status": _worst(own),
                "statuses": sorted({outcome(row) for row in own}),
            }
        )
    return found


def failures(data: ReportData) -> list[dict[str, Any]]:
    """Every request that did not end well (see `outcome`), the ones without an answer first, each with its reason."""
    order = ("error", "cancelled", "refused", "invalid", "truncated")
    rows = [{**row, "status": outcome(row)} for row in data.requests if outcome(row) != "ok"]
    rows.sort(key=lambda row: (order.index(row["status"]) if row["status"] in order else len(order), row["dataset"]))
    return [{**row, "why": reason_of(row), "text": text_of(row.get("output"), limit=160)} for row in rows]


def failure_counts(data: ReportData) -> list[dict[str, Any]]:
    """How many requests of each dataset and arm ended how."""
    totals = Counter((row["dataset"], row["arm"]) for row in data.requests)
    counts = Counter((row["dataset"], row["arm"], outcome(row)) for row in data.requests)
    place = {name: index for index, name in enumerate(data.dataset_names)}
    return [
        {
            "dataset": dataset,
            "arm": arm,
            "n": n,
            **{
                status: counts[dataset, arm, status]
                for status in ("ok", "invalid", "truncated", "refused", "error", "cancelled")
            },
        }
        for (dataset, arm), n in sorted(
            totals.items(), key=lambda item: (place.get(item[0][0], 99), arm_order(item[0][1]))
        )
    ]
