"""The comparison of the peer benchmark: it reads the other's files, and a difference does not get past it."""

import json
from pathlib import Path

import pytest

from tests.bench.peers.agree import Answers, differences, lm_eval_answers
from tests.bench.peers.inputs import CHOICE, GSM8K


def harness(folder: Path) -> Answers:
    """Two samples of each task as `--log_samples` of lm-evaluation-harness 0.4.13 writes them."""
    out = folder / "out" / "model"
    out.mkdir(parents=True)
    generated = [
        {
            "doc_id": sample,
            "arguments": {"gen_args_0": {"arg_0": f"Question: {sample}\nAnswer:"}},
            "resps": [[f" so #### {sample}"]],
            "filtered_resps": [extracted],
            "filter": name,
            "exact_match": 1.0,
        }
        for sample in (0, 1)
        for name, extracted in (("strict-match", "[invalid]" if sample else "0"), ("flexible-extract", str(sample)))
    ]
    chosen = [
        {
            "doc_id": sample,
            "arguments": {f"gen_args_{n}": {"arg_0": f"{sample}?", "arg_1": f" {n}"} for n in (0, 1)},
            "resps": [[["-1.5", "False"]], [["-2.25", "False"]]],
            "acc": float(sample),
            "acc_norm": float(sample),
        }
        for sample in (0, 1)
    ]
    for task, lines in ((GSM8K, generated), (CHOICE, chosen)):
        path = out / f"samples_{task}_2026-01-31T12-00-00.000000.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lm_eval_answers(folder / "out")


def test_equal_answers_have_no_difference(tmp_path: Path) -> None:
    one, other = harness(tmp_path / "one"), harness(tmp_path / "other")
    found = dict(differences(one, other))
    assert not any(found.values())
    assert one.of[f"{GSM8K} strict extracted"] == {(0, ""): "0", (1, ""): None}
    assert [line for line in found if line.startswith(f"{GSM8K} strict scores") and "says little" in line]
    assert not [line for line in found if line.startswith(f"{CHOICE} acc scores") and "says little" in line]


@pytest.mark.parametrize(
    ("what", "key", "value"),
    [
        (f"{GSM8K} prompts", (0, ""), "Question: 0\nAnswer: "),
        (f"{GSM8K} texts", (1, ""), " so #### 2"),
        (f"{GSM8K} strict extracted", (1, ""), "1"),
        (f"{CHOICE} log-likelihoods", (1, "1"), -2.2),
        (f"{CHOICE} acc scores", (0, ""), 0.5),
    ],
)
def test_one_difference_is_found(tmp_path: Path, what: str, key: tuple[int, str], value: object) -> None:
    one, other = harness(tmp_path / "one"), harness(tmp_path / "other")
    other.of[what][key] = value
    [said] = [text for _, unlike in differences(one, other) for text in unlike]
    assert str(value) in said or repr(value)[1:-1] in said


def test_a_missing_sample_is_a_difference(tmp_path: Path) -> None:
    one, other = harness(tmp_path / "one"), harness(tmp_path / "other")
    del other.of[f"{GSM8K} texts"][1, ""]
    assert [len(unlike) for line, unlike in differences(one, other) if line.startswith(f"{GSM8K} texts")] == [1]


def test_log_likelihoods_may_differ_by_the_order_of_a_sum(tmp_path: Path) -> None:
    one, other = harness(tmp_path / "one"), harness(tmp_path / "other")
    other.of[f"{CHOICE} log-likelihoods"][0, "0"] += 1e-5
    assert not [text for _, unlike in differences(one, other) for text in unlike]
