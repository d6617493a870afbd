"""Right, against the bare libraries: texts of vLLM's own LLM class, log-likelihoods of a plain forward pass."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.sample import Sample
from tests.e2e.command import ROOT, assay, rows

pytestmark = pytest.mark.engine

EXPERIMENT = """\
name: correct
model: smollm2-135m-instruct
datasets: [{use: arithmetic, limit: 64, max_tokens: 24}, {use: choice, limit: 12, max_tokens: 4}, texts.yaml]
engine: {extends: vllm, max_model_len: 384}
arms: [free]
sampling: {temperature: 0}
"""
TEXTS = """\
source: {kind: jsonl, path: texts.jsonl}
id_field: id
document: "{{ text }}"
metrics: [word_perplexity, byte_perplexity, bits_per_byte]
"""
DOCUMENTS = {
    "short": "The cat sat on the mat.",
    "lines": "One line.\n\nAnother line, after an empty one.\n",
    "letters": "Zürich, 東京 and Ελλάδα are far from each other.",
    "long": " ".join(f"Sentence {n} says that {n} times {n + 1} is {n * (n + 1)}." for n in range(80)),
}
"""The last is longer than the engine takes at once."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> tuple[Path, list[Sample], Path]:
    """(home, samples, work folder) of a float32 run."""
    work = tmp_path_factory.mktemp("correct")
    home = work / "home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    (work / "correct.yaml").write_text(EXPERIMENT)
    (work / "texts.yaml").write_text(TEXTS)
    (work / "texts.jsonl").write_text(
        "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in DOCUMENTS.items())
    )
    # Nothing is compiled on a CPU, so a machine without a C++ compiler will do: torch would look for it here.
    more = {"CXX": "/nowhere/c++"}
    done = assay("run", str(work / "correct.yaml"), "--set", "model.dtype=float32", "--json", home=home, **more)
    assert done.code == 0, done.stderr
    folder = home / "runs" / done.json["run_id"]
    return home, msgspec.msgpack.decode((folder / "samples.msgpack").read_bytes(), type=list[Sample]), work


def reference(kind: str, model: Path, given: dict[str, Any], work: Path) -> list[Any]:
    source, target = work / f"{kind}.in.json", work / f"{kind}.out.json"
    source.write_text(json.dumps(given))
    command = [sys.executable, "-m", "tests.e2e.reference", kind, str(model), str(source), str(target)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[Any] = json.loads(target.read_text())
    return found


def test_texts_equal_those_of_bare_vllm(finished: tuple[Path, list[Sample], Path], model_dir: Path) -> None:
    home, samples, work = finished
    asked = [sample for sample in samples if sample.dataset == "arithmetic"]
    given = {"prompts": [sample.prompt_token_ids for sample in asked], "max_tokens": 24, "max_model_len": 1024}
    expected = dict(zip((sample.sample_id for sample in asked), reference("vllm", model_dir, given, work), strict=True))
    answered = rows(home, "SELECT sample_id, output FROM requests WHERE dataset = 'arithmetic' AND kind = 'generate'")
    assert len(answered) == 64
    assert {row["sample_id"]: row["output"] for row in answered} == expected


def test_loglikelihoods_equal_a_plain_forward_pass(finished: tuple[Path, list[Sample], Path], model_dir: Path) -> None:
    home, samples, work = finished
    asked = [(s.sample_id, i, choice) for s in samples for i, choice in enumerate(s.choices)]
    given = {"prompts": [c.token_ids for *_, c in asked], "starts": [c.start for *_, c in asked]}
    expected = reference("transformers", model_dir, given, work)
    found = {
        (row["sample_id"], row["choice_index"]): row["logprob_sum"]
        for row in rows(
            home,
            "SELECT sample_id, choice_index, logprob_sum FROM requests "
            "WHERE kind = 'loglikelihood' AND dataset = 'choice'",
        )
    }
    assert len(found) == len(asked) == 48
    worst = max(abs(found[s, i] - value) for (s, i, _), value in zip(asked, expected, strict=True))
    assert worst < 1e-3, worst


def test_documents_are_measured_as_a_plain_forward_pass_does_window_by_window(
    finished: tuple[Path, list[Sample], Path], model_dir: Path
) -> None:
    home, samples, work = finished
    asked = [sample for sample in samples if sample.dataset == "texts"]
    # of the engine's 384 tokens, less the last one that is predicted and one that is generated in any case
    window = 382
    assert [sample.window for sample in asked] == [window] * 4
    ids = {sample.sample_id: sample.prompt_token_ids for sample in asked}
    long = ids["texts:long"]
    assert len(long) - 1 > 2 * window
    # Cut here by hand: all that is read before the last token of a window is as long as a window at most.
    parts = [(name, 0, 1, len(own)) for name, own in ids.items() if own is not long]
    ends = [*range(window + 1, len(long), window), len(long)]
    for begin, end in zip([0, *ends], ends, strict=False):
        parts.append(("texts:long", max(0, end - window - 1), max(1, begin), end))
    given = {
        "prompts": [ids[name][begin:end] for name, begin, _, end in parts],
        "starts": [start - begin for _, begin, start, _ in parts],
    }
    expected: dict[str, float] = {}
    for (name, *_), value in zip(parts, reference("transformers", model_dir, given, work), strict=True):
        expected[name] = expected.get(name, 0.0) - value
    scores = rows(home, "SELECT sample_id, numerator, value FROM scores WHERE metric = 'byte_perplexity'")
    assert {row["sample_id"]: row["numerator"] for row in scores} == pytest.approx(expected, rel=1e-3)
    total = sum(expected.values())
    words = sum(len(re.split(r"\s+", text)) for text in DOCUMENTS.values())
    size = sum(len(text.encode()) for text in DOCUMENTS.values())
    numbers = rows(home, "SELECT name, value, direction FROM metrics WHERE starts_with(name, 'texts.') AND n = 4")
    assert {row["name"]: row["value"] for row in numbers} == {
        "texts.word_perplexity": pytest.approx(math.exp(total / words), rel=1e-2),
        "texts.byte_perplexity": pytest.approx(math.exp(total / size), rel=1e-3),
        "texts.bits_per_byte": pytest.approx(total / size / math.log(2), rel=1e-3),
    }
