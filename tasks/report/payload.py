"""The samples with their answers, packed into the page: an index to list, filter and sort, and the texts in chunks.

Both are JSON, compressed (zlib) and in base64: ten thousand samples stay a few MB, nothing in them can end an element,
and the page opens before a text is unpacked. JSON escapes all that is not ASCII, half characters too, so that the
page's script sees every character as it was recorded.
"""

import base64
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from tasks.report.data import ReportData, Row, outcome
from tasks.report.numbers import is_number
from tasks.report.quality import split_name
from tasks.report.samples import as_text, reason_of
from tasks.report.text import shortened

CHUNK = 250
"""Samples whose texts are unpacked together."""
TEXT_BUDGET = 24_000_000
"""Characters of prompts and answers that one page carries; beyond it each text is shortened to fit."""
MOST_CHARACTERS = 20_000
"""The longest text that is carried whole."""
_FEWEST_CHARACTERS = 400
_MOST_VIOLATIONS = 20
_MOST_EXTRACTED = 1_000
_LEVEL = 6
_SHARED_FROM = 200
"""A start that all prompts of a dataset share is stored once if it has at least so many characters."""
_WORST = ("error", "refused", "cancelled", "invalid", "truncated", "ok")

_Text = str | list[Any] | None
"""A text; or its head, the number of characters left out and its tail."""


class Packed(NamedTuple):
    """What the page carries of its samples. `index` and `chunks` are base64; `limit` is the longest whole text."""

    index: str
    chunks: list[str]
    metrics: list[str]
    limit: int
    shortened: int


class _Names:
    """Names by number, in the order in which they first come."""

    def __init__(self, names: list[str] | None = None) -> None:
        self.numbers = {name: number for number, name in enumerate(names or [])}

    def __call__(self, name: str | None) -> int:
        return self.numbers.setdefault(name or "", len(self.numbers))


class _Packer:
    def __init__(self, data: ReportData) -> None:
        self.data = data
        self.datasets, self.arms = _Names(data.dataset_names), _Names(data.arms)
        self.metrics, self.states, self.ends = _Names(), _Names(list(_WORST)), _Names()
        self.requests = _by_sample(row for row in data.requests if row.get("phase") in ("quality", None))
        self.scores = _by_sample(data.scores)
        self.prefixes = _shared_starts(data)
        self.limit = _limit(data, self.prefixes)
        self.shortened = 0
        self.answers: list[list[Any]] = []
        self.values: list[list[Any]] = []

    def text(self, value: Any) -> _Text:
        """A text as the page carries it."""
        text = as_text(value)
        if text is None or len(text) <= self.limit:
            return text
        self.shortened += 1
        return list(shortened(text, limit=self.limit))

    def sample(self, position: int, sample: Row) -> list[Any]:
        """One sample's texts; what can be filtered and sorted goes to `answers` and `values`."""
        key = (sample["dataset"], sample["sample_id"])
        own = sorted(
            self.requests.get(key, []),
            key=lambda row: (self.arms(row["arm"]), row.get("repeat") or 0, row.get("choice_index") or 0),
        )
        generated = [row for row in own if row.get("kind") != "loglikelihood"]
        scored = [row for row in own if row.get("kind") == "loglikelihood"]
        self.answers += [self._answer(position, row) for row in generated]
        for arm in dict.fromkeys(row["arm"] for row in scored):
            self.answers.append(self._choices(position, arm, [row for row in scored if row["arm"] == arm]))
        scores = sorted(
            self.scores.get(key, []), key=lambda row: (row["metric"], self.arms(row["arm"]), row.get("repeat") or 0)
        )
        self.values += [
            [
                position,
                self.arms(row["arm"]),
                self.metrics(row["metric"]),
                row.get("repeat") or 0,
                _short(row["value"], 6),
            ]
            for row in scores
        ]
        return [
            self.text((sample.get("prompt") or "")[len(self.prefixes.get(sample["dataset"], "")) :])
            if sample.get("prompt") is not None
            else None,
            self.text(sample.get("target")),
            [self._answer_texts(row) for row in generated],
            [self._choice_texts(sample, row) for row in scored],
            [[_brief(row.get("extracted")), _brief(row.get("reason"))] for row in scores],
        ]

    def _answer(self, position: int, row: Row) -> list[Any]:
        return [
            position,
            self.arms(row["arm"]),
            row.get("repeat") or 0,
            self.states(outcome(row)),
            self.ends(row.get("finish_reason")),
            None if row.get("valid") is None else int(row["valid"]),
            row.get("output_tokens"),
            row.get("cached_tokens"),
            *(_short(row.get(name), 1) for name in ("ttft_ms", "tpot_ms", "e2e_ms", "queued_ms")),
            int(bool(row.get("reused"))),
            0,
        ]

    def _choices(self, position: int, arm: str, rows: list[Row]) -> list[Any]:
        found = {outcome(row) for row in rows}
        worst = next((status for status in _WORST if status in found), "ok")
        total = [row["e2e_ms"] for row in rows if is_number(row.get("e2e_ms"))]
        return [
            position, self.arms(arm), 0, self.states(worst), self.ends(None), None, None, None, None, None,
            _short(max(total), 1) if total else None, None, int(any(row.get("reused") for row in rows)), len(rows),
        ]  # fmt: skip

    def _answer_texts(self, row: Row) -> list[Any]:
        violations = row.get("violations") or []
        return [
            self.text(row.get("output")),
            self.text(row.get("reasoning")),
            None if outcome(row) == "ok" else reason_of(row)[:2_000],
            [[v.get("path"), str(v.get("message"))[:1_000]] for v in violations[:_MOST_VIOLATIONS]],
            len(violations),
        ]

    def _choice_texts(self, sample: Row, row: Row) -> list[Any]:
        choices, index = sample.get("choices") or [], row.get("choice_index")
        option = choices[index] if isinstance(index, int) and index < len(choices) else None
        if option is None and isinstance(index, int) and sample.get("windows"):
            option = f"window {index + 1} of {sample['windows']}"
        return [index, self.text(option), self.arms(row["arm"]), _short(row.get("logprob_sum"), 4), row.get("error")]


def _by_sample(rows: Any) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["dataset"], row["sample_id"]].append(row)
    return found


def _shared_starts(data: ReportData) -> dict[str, str]:
    found = {}
    for name in data.dataset_names:
        prompts = [row["prompt"] for row in data.samples if row["dataset"] == name and row.get("prompt")]
        start = _shared_start(prompts)[:MOST_CHARACTERS] if len(prompts) > 1 else ""
        if len(start) >= _SHARED_FROM:
            found[name] = start
    return found


def _shared_start(texts: list[str]) -> str:
    """What all texts begin with: the shared start of the first and the last in alphabetical order."""
    first, last = min(texts), max(texts)
    shared = next((index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)
    return first[:shared] if shared is not None else first[: min(len(first), len(last))]


def _limit(data: ReportData, prefixes: dict[str, str]) -> int:
    lengths = [len(row.get("prompt") or "") - len(prefixes.get(row["dataset"], "")) for row in data.samples]
    lengths += [len(row.get(name) or "") for row in data.requests for name in ("output", "reasoning")]
    limit = MOST_CHARACTERS
    while limit > _FEWEST_CHARACTERS and sum(min(length, limit) for length in lengths) > TEXT_BUDGET:
        limit = int(limit * 0.8)
    return limit


def _brief(text: str | None) -> _Text:
    return text if text is None or len(text) <= _MOST_EXTRACTED else list(shortened(text, limit=_MOST_EXTRACTED))


def _short(value: Any, digits: int) -> float | int | None:
    if not is_number(value):
        return None
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=str)
    return base64.b64encode(zlib.compress(text.encode("ascii"), _LEVEL)).decode("ascii")


def _columns(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows of equal length as columns: equal neighbours compress better, and one array is quicker to read than many."""
    return [list(column) for column in zip(*rows, strict=True)]


def _chunks(packer: _Packer) -> Iterator[str]:
    samples = packer.data.samples
    for begin in range(0, len(samples), CHUNK):
        stretch = samples[begin : begin + CHUNK]
        yield _packed([packer.sample(begin + offset, sample) for offset, sample in enumerate(stretch)])


def _directions(data: ReportData) -> dict[str, str]:
    names = data.dataset_names
    return {split_name(row["name"], names)[1]: row["direction"] for row in data.metrics if row.get("direction")}


def pack(data: ReportData) -> Packed:
    """A run's samples for the page. The order is that of `data.samples`; nothing is left out but ends of long texts."""
    packer = _Packer(data)
    chunks = list(_chunks(packer))
    directions = _directions(data)
    metrics = list(packer.metrics.numbers)
    index = {
        "run": data.run_id,
        "chunk": CHUNK,
        "limit": packer.limit,
        "datasets": list(packer.datasets.numbers),
        "prefixes": [packer.prefixes.get(name, "") for name in packer.datasets.numbers],
        "arms": list(packer.arms.numbers),
        "pair": data.pair,
        "metrics": metrics,
        "lower": [int(directions.get(name) == "lower") for name in metrics],
        "states": list(packer.states.numbers),
        "ends": list(packer.ends.numbers),
        "samples": _columns(
            [
                [
                    packer.datasets(row["dataset"]), row["sample_id"], row.get("prompt_tokens"),
                    row.get("cut_tokens") or 0, row.get("shots_dropped") or 0, row.get("replaced_characters") or 0,
                ]
                for row in data.samples
            ]
        ),
        "answers": _columns(packer.answers),
        "values": _columns(packer.values),
    }  # fmt: skip
    return Packed(_packed(index), chunks, metrics, packer.limit, packer.shortened)
