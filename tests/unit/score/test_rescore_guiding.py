"""`assay rescore` of a run with every arm: what guiding and repairing did, computed again from the stored requests."""

import dataclasses
import datetime
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from offline_files import assay, last_object

from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling
from schemas.run import RunContext
from schemas.summary import DatasetsSummary, DatasetSummary
from tasks.config.resolve import load_experiment
from tasks.dataset.load import Row
from tasks.predictions.record import run_row
from tasks.predictions.rescore import Rescored, rescore, write_rescored
from tasks.predictions.samples import judged_samples
from tasks.record.rows import sample_rows
from tasks.score.guiding import RESUMED
from tasks.score.stage import score_run
from tasks.session import Session
from warehouse.parquet import compact_run, read_rows, write_rows

RUN = "20261129T120000-abcdef"
NOON = datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC)
ARMS = ["free", "guided", "free_matched", "repair"]
GUIDES = {
    "forms": {"kind": "json_schema", "schema": {"type": "object"}},
    "digits": {"kind": "regex", "pattern": "[0-9]+"},
}
SAMPLES = 12


def dataset(name: str) -> NamedDataset:
    config = {
        "source": {"kind": "jsonl", "path": f"{name}.jsonl"},
        "id_field": "id",
        "prompt": {"text": "{{ q }}"},
        "target": "7",
        "cluster": "book",
        "guide": GUIDES[name],
        "metrics": ["exact_match"],
    }
    return NamedDataset(name=name, config=Dataset.model_validate(config), sampling=Sampling())


def answer(name: str, number: int, arm: str, sent: int, **changes: Any) -> dict[str, Any]:
    """Its times and lengths differ from row to row, by a seed of its own."""
    chance = random.Random(f"{name} {number} {arm} {changes}")
    right = "{}" if name == "forms" else "7"
    valid = arm == "guided" or chance.random() < 0.4
    tokens = 8 + number % 5 if arm in ("guided", "free_matched") else 8 + chance.randrange(30)
    request_id = f"{name}:{number} {arm} {changes.get('repair_try', 0)}"
    return {
        "request_id": request_id,
        "request_key": f"key of {request_id}",
        "attempt": 0,
        "dataset": name,
        "sample_id": f"{name}:{number}",
        "arm": arm,
        "kind": "generate",
        "repeat": 0,
        "phase": "quality",
        "status": "ok" if valid or arm == "free_matched" else "invalid",
        "output": right if valid else "I think 7",
        "valid": None if arm == "free_matched" else valid,
        "finish_reason": "stop" if chance.random() < 0.8 else "length",
        "prompt_tokens": 20 + number,
        "output_tokens": tokens,
        "whitespace_share": chance.random() / 4 if name == "forms" else None,
        "sent_at": NOON + datetime.timedelta(milliseconds=40 * sent),
        "ttft_ms": 30 + chance.random(),
        "tpot_ms": 20 + chance.random(),
        "e2e_ms": 30 + 21.0 * tokens,
        "queued_ms": 1.0,
        "prefill_ms": 29 + chance.random(),
        "decode_ms": (tokens - 1) * (20 + chance.random()),
    } | changes


def answers() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def ask(numbers: Iterable[int], arm: str, **changes: Any) -> None:
        for number in numbers:
            for name in GUIDES:
                rows.append(answer(name, number, arm, len(rows), **changes))

    ask(range(SAMPLES), "free")
    for block in range(0, SAMPLES, 4):  # the two arms take turns
        ask(range(block, block + 4), "guided")
        ask(range(block, block + 4), "free_matched")
    failed = {row["sample_id"] for row in rows if row["arm"] == "free" and not row["valid"]}
    for try_ in (1, 2):
        for sample_id in sorted(failed):
            name, _, number = sample_id.partition(":")
            rows.append(answer(name, int(number), "repair", len(rows), repair_try=try_))
            if rows[-1]["valid"]:
                failed.discard(sample_id)
    assert failed, "some sample is never mended"
    return rows


def run_of(home: Path, *, resumed: bool = False, scored: bool = True, sessions: int = 1) -> str:
    """A run as its own steps record it; only the engine is not there."""
    datasets = [dataset(name) for name in GUIDES]
    experiment = load_experiment("quickstart").model_copy(update={"datasets": datasets, "arms": ARMS, "groups": {}})
    folder = home / "runs" / RUN
    folder.mkdir(parents=True)
    session = Session(
        RunContext(
            run_id=RUN, home=home, folder=folder, revision=0, resumed=resumed, started_at=NOON, experiment=experiment
        )
    )
    samples = []
    for each in datasets:
        fields = [{"id": str(n), "q": f"q{n}", "book": f"b{n // 2}"} for n in range(SAMPLES)]
        lines = [Row(sample_id=f"{each.name}:{n}", row_index=n, raw=b"{}", fields=row) for n, row in enumerate(fields)]
        samples += judged_samples(each, lines)
    session.keep_samples(samples)
    session.store.write("samples", sample_rows(samples))
    rows = answers()
    session.request_keys = {row["request_id"]: row["request_key"] for row in rows}
    half = len(rows) // sessions
    for number in range(sessions):
        part = rows[number * half :] if number == sessions - 1 else rows[number * half : (number + 1) * half]
        write_rows(home=home, table="requests", run_id=RUN, rows=part, part=f"{number:04d}-a", revision=number)
    run = run_row(
        flow="experiment", config=experiment.model_dump(mode="json", by_alias=True), started_at=NOON, warnings=[]
    )
    session.store.write("runs", [run])
    if scored:
        score_run(session, DatasetsSummary(datasets=[_summary(name) for name in GUIDES]))
    return RUN


def _summary(name: str) -> DatasetSummary:
    return DatasetSummary(
        dataset=name, rows_total=SAMPLES, rows_used=SAMPLES, fingerprint="f", template_hash="t", bos_policy="none",
        tokenize_s=0.0, tokenizer_fingerprint="k", max_len=16, over_limit=0, needs=["generate"], arms=ARMS, warnings=[],
    )  # fmt: skip


FIELDS = ("scope", "unit", "direction", "value", "n", "n_failed", "stderr", "lo", "hi", "method", "details")


def is_of_guiding(name: str) -> bool:
    return name.startswith("guide.") or ".guide." in name or ".repair." in name


def kept(home: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What the tables say, by name and arm."""
    rows = read_rows(home, "metrics", RUN, parse_json=True)
    return {
        (row["name"], row["arm"]): {field: row[field] for field in FIELDS} | {"details": row["details"] or {}}
        for row in rows
        if is_of_guiding(row["name"])
    }


def told(rescored: Rescored) -> dict[tuple[str, str | None], dict[str, Any]]:
    rows = [dataclasses.asdict(row) for row in rescored.metrics if is_of_guiding(row.name)]
    return {(row["name"], row["arm"]): {field: row[field] for field in FIELDS} for row in rows}


def test_scored_again_a_run_has_the_same_figures_of_guiding_and_repairing(tmp_path: Path) -> None:
    run_of(tmp_path)
    before = kept(tmp_path)
    names = {name for name, _ in before}
    assert {
        "forms.guide.parse_failures_reduction", "digits.guide.invalid_reduction", "forms.guide.mask_us_per_token",
        "guide.mask_us_per_token", "guide.throughput_ratio", "digits.repair.seconds_ratio",
        "forms.repair.repaired_share",
    } <= names  # fmt: skip
    assert all(
        row["value"] is not None and row["lo"] is not None for (name, _), row in before.items() if "ratio" in name
    )
    found = rescore(tmp_path, RUN)
    assert told(found) == before
    assert {change.name for change in found.changes} == {"forms.exact_match", "digits.exact_match"}
    assert len(found.guiding) == len(before) and all(change.same for change in found.guiding)
    assert write_rescored(tmp_path, found) == []
    assert kept(tmp_path) == before and {row["revision"] for row in read_rows(tmp_path, "metrics", RUN)} == {0, 1}
    (run,) = read_rows(tmp_path, "runs", RUN)
    assert "exact_match" in run["warnings"][-1] and "guide." not in run["warnings"][-1]  # what is the same is no news
    compact_run(home=tmp_path, run_id=RUN)
    assert told(rescore(tmp_path, RUN)) == before


def test_one_dataset_leaves_the_figures_of_the_others(tmp_path: Path) -> None:
    run_of(tmp_path)
    before = kept(tmp_path)
    found = told(rescore(tmp_path, RUN, dataset="digits", metrics=["contains"]))
    assert found == {key: row for key, row in before.items() if not key[0].startswith("forms.")}
    assert ("guide.throughput_ratio", "guided") in found  # of all the run's datasets, as before


def test_of_an_interrupted_run_no_time_is_told_now_either(tmp_path: Path) -> None:
    run_of(tmp_path, resumed=True)
    before = kept(tmp_path)
    assert before["guide.mask_us_per_token", "guided"]["value"] is None
    assert told(rescore(tmp_path, RUN)) == before


@pytest.mark.parametrize("how", ["whole", "two sessions", "engine died"])
def test_a_run_that_was_never_scored_gets_them_too(tmp_path: Path, how: str) -> None:
    run_of(tmp_path / "scored")
    run_of(tmp_path, scored=False, sessions=2 if how == "two sessions" else 1)
    if how == "engine died":
        start = {"start_id": "0-0", "order_index": 0, "ended_why": "died", "ended_while": "answering"}
        write_rows(home=tmp_path, table="engine_starts", run_id=RUN, rows=[start], part="0-s", revision=0)
    assert kept(tmp_path) == {}
    found, whole = told(rescore(tmp_path, RUN)), kept(tmp_path / "scored")
    assert found.keys() == whole.keys()
    untimed = {key for key in found if found[key] != whole[key]}
    if how == "whole":
        assert untimed == set()
    else:
        assert all((found[key]["value"], found[key]["method"]) == (None, RESUMED) for key in untimed)
        assert ("guide.tokens_per_s", "guided") in untimed and ("digits.repair.seconds", "repair") in untimed
        assert not any("output_tokens" in name or "reduction" in name or "share" in name for name, _ in untimed)


def test_what_was_not_measured_gives_no_figure(tmp_path: Path) -> None:
    run_of(tmp_path)
    absent = dict.fromkeys(
        ("valid", "finish_reason", "output_tokens", "prompt_tokens", "whitespace_share", "sent_at", "ttft_ms",
         "tpot_ms", "e2e_ms", "queued_ms", "prefill_ms", "decode_ms")
    )  # fmt: skip
    bare = [row | absent for row in answers()]
    write_rows(home=tmp_path, table="requests", run_id=RUN, rows=bare, part="0001-b", revision=1)
    names = {name for name, _ in told(rescore(tmp_path, RUN))}
    assert names == {"forms.guide.parse_failures_reduction"} | {
        f"{name}.repair.{figure}" for name in GUIDES for figure in ("retried_share", "repaired_share", "requests")
    }


def test_the_command_says_how_many_are_the_same_and_which_are_not(tmp_path: Path) -> None:
    run_of(tmp_path)
    done = assay("rescore", RUN, "--dry-run", home=tmp_path)
    count = len(kept(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"{count} figures of guiding and repairing are the same" in done.stdout and "guide." not in done.stdout
    row = next(row for row in answers() if row["request_id"] == "digits:0 free 0")
    longer = row | {"output_tokens": row["output_tokens"] + 12, "attempt": 1}
    write_rows(home=tmp_path, table="requests", run_id=RUN, rows=[longer], part="0000-z", revision=0)
    done = assay("rescore", RUN, "--dry-run", home=tmp_path)
    assert "digits.guide.output_tokens" in done.stdout and "-1.0000" in done.stdout, done.stdout  # 12 over 12 samples
    said = last_object(assay("rescore", RUN, "--dry-run", "--json", home=tmp_path))
    assert len(said["guiding"]) == count and not any(is_of_guiding(each["name"]) for each in said["changes"])
