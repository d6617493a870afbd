"""`assay datasets show` and `assay datasets profile`, as a user types them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.dataset.tokenizer import Tokenizer

ROWS = "".join(json.dumps({"id": n, "q": f"{n} + {n} =", "a": 2 * n}) + "\n" for n in range(20))
DATASET = """\
source: {kind: jsonl, path: rows.jsonl}
id_field: id
prompt:
  messages:
    - {role: user, content: "{{ q }}"}
target: "{{ a }}"
guide: {kind: regex, pattern: "[0-9]+"}
metrics: [exact_match]
max_tokens: 8
"""


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    (tmp_path / "sums.yaml").write_text(DATASET)
    return tmp_path


def assay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).resolve().parents[3])
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", "datasets", *words],
        cwd=folder,
        env={**os.environ, "ASSAY_HOME": str(folder / "home"), "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def told(folder: Path, *words: str) -> dict[str, Any]:
    done = assay(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


MODEL = ("--model", "smollm2-135m-instruct")


def test_show_prints_what_the_engine_gets(folder: Path, model_dir: Path) -> None:
    shown = told(folder, "show", "sums.yaml", "--n", "2", *MODEL)["samples"]
    assert [sample["sample_id"] for sample in shown] == ["sums:0", "sums:1"]
    tokenizer = Tokenizer.from_folder(model_dir)
    for sample in shown:
        assert tokenizer.decode(sample["token_ids"]) == sample["prompt"]
        assert sample["prompt"].endswith("<|im_start|>assistant\n")
    text = assay(folder, "show", "sums.yaml", "--n", "2", *MODEL, "--arm", "guided", "--tokens").stdout
    assert "<|im_start|>user\n1 + 1 =<|im_end|>" in text
    assert " ".join(map(str, shown[1]["token_ids"])) in text
    assert "target    2" in text
    assert "regex (followed and checked): [0-9]+" in text
    assert "regex (checked)" in assay(folder, "show", "sums.yaml", "--n", "1", *MODEL).stdout


def test_show_without_a_model_prints_the_messages(folder: Path) -> None:
    text = assay(folder, "show", "sums.yaml", "--n", "1").stdout
    assert "[user]\n0 + 0 =\n" in text
    assert "im_start" not in text
    refused = assay(folder, "show", "sums.yaml", "--tokens")
    assert (refused.returncode, "--model" in refused.stderr) == (2, True)


def test_a_control_character_of_the_data_does_not_reach_the_terminal(folder: Path) -> None:
    (folder / "rows.jsonl").write_text('{"id": 1, "q": "a\\u001b[2Jb\\nc", "a": "\\u0007"}\n')
    text = assay(folder, "show", "sums.yaml").stdout
    assert "a\\x1b[2Jb\nc" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_wrong_name_is_refused_with_the_nearest(folder: Path) -> None:
    for words, says in (
        (("show", "extrct"), "did you mean `extract`?"),
        (("profile", "extract", "--model", "smolm2-135m-instruct"), "did you mean `smollm2-135m-instruct`?"),
        (("show", "sums.yaml", "--arm", "guide"), "free or guided"),
        (("profile", "sums.yaml", *MODEL, "--png", "a.jpg"), ".png"),
    ):
        done = assay(folder, *words)
        assert done.returncode == 2, done.stdout
        assert says in done.stderr
        assert "Traceback" not in done.stderr


def test_profile_counts_draws_and_plans(folder: Path) -> None:
    found = told(folder, "profile", "sums.yaml", *MODEL, "--png", "p.png")
    profile = found["profile"]
    assert (profile["n"], profile["output_budget"], found["changed"]) == (20, 8, 0)
    options = {option["option"]: option for option in found["plan"]["options"]}
    assert options["max_model_len"]["value"] == -(-(profile["tokens_max"] + 8) // 16) * 16
    assert options["max_model_len"]["reason"]
    assert found["plan"]["estimate"]["requests"] == 40  # both arms
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    text = assay(folder, "profile", "sums.yaml", *MODEL, "--limit", "5").stdout
    assert "5 prompts of 20 rows" in text
    assert "█" in text
    assert "max_model_len" in text


def test_a_prompt_that_fits_no_engine_is_counted_and_refused(folder: Path) -> None:
    (folder / "rows.jsonl").write_text(json.dumps({"id": "long", "q": "word " * 9000, "a": 1}) + "\n" + ROWS)
    done = assay(folder, "profile", "sums.yaml", *MODEL)
    assert done.returncode == 2
    assert "1 do not fit 8,192 tokens" in done.stdout
    assert "2 requests do not fit" in done.stderr
    shown = assay(folder, "show", "sums.yaml", "--n", "1", *MODEL).stdout
    assert "a run would be refused" in shown
