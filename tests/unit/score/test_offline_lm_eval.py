"""`assay import lm-eval`: files as lm-evaluation-harness 0.4.13 writes them."""

import json
from pathlib import Path
from typing import Any

import pytest
from offline_files import write_lines

from schemas.errors import ConfigError
from tasks.predictions.lm_eval import read_lm_eval
from tasks.predictions.record import record_import
from warehouse.parquet import read_rows

DATE = "2026-01-31T12-00-00.123456"


def generated(doc_id: int, *, filtered: str, name: str, value: float) -> dict[str, Any]:
    prompt = {"arg_0": f"Q: {doc_id}?\nA:", "arg_1": {"until": ["\n"]}}
    return {
        "doc_id": doc_id, "doc": {"q": f"{doc_id}?"}, "target": str(doc_id), "arguments": {"gen_args_0": prompt},
        "resps": [["It is 0"]], "filtered_resps": [filtered], "filter": name, "metrics": ["exact_match"],
        "doc_hash": f"h{doc_id}", "exact_match": value,
    }  # fmt: skip


def chosen(doc_id: int, *, value: float) -> dict[str, Any]:
    asked = {f"gen_args_{n}": {"arg_0": f"Q{doc_id}", "arg_1": text} for n, text in enumerate((" yes", " no"))}
    return {
        "doc_id": doc_id, "doc": {"q": doc_id}, "target": "0", "arguments": asked,
        "resps": [[["-0.5", "True"]], [["-1.5", "False"]]], "filtered_resps": [["-0.5", "True"], ["-1.5", "False"]],
        "filter": "none", "metrics": ["acc"], "doc_hash": f"c{doc_id}", "acc": value,
    }  # fmt: skip


def harness(folder: Path) -> Path:
    """Two tasks: one of answers under two filters, one of choices."""
    folder.mkdir()
    lines = [
        generated(doc, filtered=filtered, name=name, value=float(doc == 0 and name == "flexible"))
        for doc in range(4)
        for name, filtered in (("strict", "[invalid]"), ("flexible", "0"))
    ]
    write_lines(folder / f"samples_toy_gen_{DATE}.jsonl", lines)
    write_lines(folder / f"samples_toy_mc_{DATE}.jsonl", [chosen(doc, value=float(doc < 3)) for doc in range(4)])
    results = {
        "results": {
            "toy_gen": {
                "alias": "toy_gen", "exact_match,strict": 0.0, "exact_match_stderr,strict": 0.0,
                "exact_match,flexible": 0.25, "exact_match_stderr,flexible": 0.25,
            },
            "toy_mc": {"alias": "toy_mc", "acc,none": 0.75, "acc_stderr,none": 0.25},
        },
        "configs": {"toy_gen": {"dataset_path": "json"}, "toy_mc": {"dataset_path": "a/b", "dataset_name": "c"}},
        "n-shot": {"toy_gen": 0, "toy_mc": 5},
        "n-samples": {"toy_gen": {"original": 8, "effective": 4}, "toy_mc": {"original": 4, "effective": 4}},
        "higher_is_better": {"toy_gen": {"exact_match": True}, "toy_mc": {"acc": True}},
        "config": {"model": "vllm"}, "model_name": "org/model", "date": 1769860800.5, "lm_eval_version": "0.4.13",
        "total_evaluation_time_seconds": "12.5",
    }  # fmt: skip
    file = folder / f"results_{DATE}.json"
    file.write_text(json.dumps(results))
    return file


def test_a_run_of_the_harness_becomes_one_of_ours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = read_lm_eval(harness(tmp_path / "out").parent)
    assert made.warnings == []
    assert record_import(made, home=home)
    assert not record_import(read_lm_eval(tmp_path / "out"), home=home)
    [run] = read_rows(home, "runs")
    assert (run["flow"], run["name"], run["status"], run["host"]) == ("import", "org/model", "finished", None)
    assert (run["ended_at"] - run["started_at"]).total_seconds() == 12.5
    numbers = {row["name"]: (row["value"], row["n"]) for row in read_rows(home, "metrics")}
    assert numbers == {
        "toy_gen.lm_eval.exact_match,strict": (0, 4),
        "toy_gen.lm_eval.exact_match,flexible": (0.25, 4),
        "toy_mc.lm_eval.acc": (0.75, 4),
    }
    requests = read_rows(home, "requests")
    assert sum(row["output"] == "It is 0" for row in requests) == 4
    assert sorted(row["logprob_sum"] for row in requests if row["kind"] == "loglikelihood") == [-1.5] * 4 + [-0.5] * 4
    samples = {row["sample_id"]: row for row in read_rows(home, "samples")}
    assert samples["toy_mc:0"]["choices"] == [" yes", " no"]
    assert samples["toy_gen:1"]["prompt"] == "Q: 1?\nA:"
    assert len(read_rows(home, "scores")) == 12
    datasets = {
        row["dataset"]: (row["source"], row["rows_total"], row["few_shot"]) for row in read_rows(home, "datasets")
    }
    assert datasets == {"toy_gen": ("json", 8, 0), "toy_mc": ("a/b/c", 4, 5)}


def test_a_number_that_is_no_mean_of_its_samples_is_said(tmp_path: Path) -> None:
    file = harness(tmp_path / "out")
    results = json.loads(file.read_text())
    results["results"]["toy_mc"]["acc,none"] = 0.5
    file.write_text(json.dumps(results))
    made = read_lm_eval(file)
    assert "toy_mc.lm_eval.acc: the results say 0.5, the mean of its samples is 0.75" in made.warnings[0]
    [row] = [row for row in made.metrics if row.name == "toy_mc.lm_eval.acc"]
    assert (row.value, row.lo, row.stderr) == (0.5, None, 0.25)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("empty", "no results_"),
        ("no samples", "beside it"),
        ("another json", "not a results file of lm-evaluation-harness"),
        ("a broken line", "samples_toy_mc_.*:1: not a sample as lm-evaluation-harness 0.4 logs it: KeyError"),
        ("twice", "a second line for toy_mc:0 and lm_eval.acc"),
    ],
)
def test_what_is_not_of_the_harness_says_so(tmp_path: Path, change: str, said: str) -> None:
    file = harness(tmp_path / "out")
    samples = file.parent / f"samples_toy_mc_{DATE}.jsonl"
    if change == "empty":
        file.unlink()
    elif change == "no samples":
        for each in file.parent.glob("samples_*"):
            each.unlink()
    elif change == "another json":
        file.write_text("[1]")
    elif change == "a broken line":
        write_lines(samples, [{"doc_id": 0}])
    else:
        write_lines(samples, [chosen(0, value=1), chosen(0, value=1)])
    with pytest.raises(ConfigError, match=said):
        read_lm_eval(file.parent)
