"""What assay and lm-evaluation-harness said of the same samples, side by side."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.peers.inputs import CHOICE, GSM8K
from tests.e2e.command import rows

LOGPROB_TOLERANCE = 1e-3
"""Nats, of the sum over a choice's tokens. In float32 the order of a sum shows in the fifth decimal."""
_NO_MATCH = "[invalid]"
_SHOWN = 3

Key = tuple[int, str]
"""A sample's place in its file, and which of its values."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All that one side said: by task and kind of thing, the values by sample."""

    of: dict[str, dict[Key, Any]] = field(default_factory=dict)

    def add(self, what: str, sample: int, value: Any, part: str = "") -> None:
        """One value. part: which one of the sample's, such as the choice's number."""
        self.of.setdefault(what, {})[sample, part] = value


def assay_answers(home: Path, run_id: str) -> Answers:
    """What a run of assay's recorded."""
    found = Answers()
    where = f"WHERE {{}}.run_id = '{run_id}'"
    for row in rows(home, f"SELECT dataset, row_index, prompt FROM samples AS s {where.format('s')}"):
        found.add(f"{row['dataset']} prompts", row["row_index"], row["prompt"])
    asked = "SELECT s.row_index, r.dataset, r.kind, r.choice_index, r.output, r.logprob_sum FROM requests AS r JOIN "
    joined = "samples AS s USING (run_id, dataset, sample_id) "
    for row in rows(home, asked + joined + where.format("r")):
        if row["kind"] == "loglikelihood":
            found.add(f"{CHOICE} log-likelihoods", row["row_index"], row["logprob_sum"], str(row["choice_index"]))
        else:
            found.add(f"{GSM8K} texts", row["row_index"], row["output"])
    scored = "SELECT s.row_index, c.dataset, c.metric, c.value, c.extracted FROM scores AS c JOIN "
    for row in rows(home, scored + joined + where.format("c")):
        name = row["metric"].removeprefix("gsm8k_")
        found.add(f"{row['dataset']} {name} scores", row["row_index"], row["value"])
        if row["dataset"] == GSM8K:
            found.add(f"{GSM8K} {name} extracted", row["row_index"], row["extracted"])
    return found


def lm_eval_answers(folder: Path) -> Answers:
    """What `--log_samples` left in a folder."""
    found = Answers()
    for line in _lines(folder, GSM8K):
        sample = line["doc_id"]
        name = {"strict-match": "strict", "flexible-extract": "flexible"}[line["filter"]]
        [extracted] = line["filtered_resps"]
        found.add(f"{GSM8K} prompts", sample, line["arguments"]["gen_args_0"]["arg_0"])
        found.add(f"{GSM8K} texts", sample, line["resps"][0][0])
        found.add(f"{GSM8K} {name} extracted", sample, None if extracted == _NO_MATCH else extracted)
        found.add(f"{GSM8K} {name} scores", sample, line["exact_match"])
    for line in _lines(folder, CHOICE):
        sample = line["doc_id"]
        found.add(f"{CHOICE} prompts", sample, line["arguments"]["gen_args_0"]["arg_0"])
        for index, [[logprob, _]] in enumerate(line["resps"]):
            found.add(f"{CHOICE} log-likelihoods", sample, float(logprob), str(index))
        for name in ("acc", "acc_norm"):
            found.add(f"{CHOICE} {name} scores", sample, line[name])
    return found


def differences(ours: Answers, theirs: Answers) -> Iterator[tuple[str, list[str]]]:
    """For each kind of thing one line that says how much is equal, and the differences, each with both sides."""
    for what in sorted({*ours.of, *theirs.of}):
        mine, other = ours.of.get(what, {}), theirs.of.get(what, {})
        equal = _near if what.endswith("log-likelihoods") else _same
        keys = sorted({*mine, *other})
        unlike = [key for key in keys if key not in mine or key not in other or not equal(mine[key], other[key])]
        line = f"{what:<32}{len(keys) - len(unlike):>4} of {len(keys)} equal"
        if equal is _near:
            both = [abs(mine[key] - other[key]) for key in keys if key in mine and key in other]
            line += f", at most {max(both, default=0.0):.1e} nats apart"
        elif what.endswith("scores"):
            line += f", {_mean(mine.values())} and {_mean(other.values())} on average"
            if len({*mine.values(), *other.values()}) == 1:
                line += "; all alike, which says little"
        yield line, [_both_sides(key, mine, other) for key in unlike]


def show(ours: Answers, theirs: Answers, *, whose: str) -> int:
    """Prints how far the two agree. Gives the number of differences."""
    print(f"assay and {whose}")
    total = 0
    for line, unlike in differences(ours, theirs):
        print(f"  {line}")
        for text in unlike[:_SHOWN]:
            print(f"    {text}")
        if len(unlike) > _SHOWN:
            print(f"    and {len(unlike) - _SHOWN} more")
        total += len(unlike)
    return total


def _both_sides(key: Key, mine: dict[Key, Any], other: dict[Key, Any]) -> str:
    sample, part = key
    one, two = (repr(side.get(key, "nothing")) for side in (mine, other))
    at = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0)
    start = max(0, at - 40)
    of = f", {part}" if part else ""
    return f"sample {sample}{of}: assay …{one[start : start + 120]} against …{two[start : start + 120]}"


def _lines(folder: Path, task: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob(f"samples_{task}_*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= LOGPROB_TOLERANCE


def _mean(values: Iterable[Any]) -> str:
    numbers = [value for value in values if value is not None]
    return f"{sum(numbers) / len(numbers):.4f}" if numbers else "no value"
