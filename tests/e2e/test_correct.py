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

from schemas.sample import Choice, Sample
from tests.e2e.command import ROOT, assay, rows
from tests.stores import SHARED_CACHE, used_before

pytestmark = pytest.mark.engine

EXPERIMENT = """\
name: correct
model: smollm2-135m-instruct
datasets: [{use: arithmetic, limit: 16, max_tokens: 24}, {use: choice, limit: 6, max_tokens: 4}, texts.yaml]
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
    "long": " ".join(f"Sentence {n} says that {n} times {n + 1} is {n * (n + 1)}." for n in range(44)),
}
"""The last is longer than the engine takes at once."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> tuple[Path, list[Sample], Path]:
    """(home, samples, work folder) of a float32 run."""
    work = tmp_path_factory.mktemp("correct")
    home = work / "home"
    used_before(home, model_dir)
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


def run_references(model: Path, given: dict[str, Any], work: Path) -> dict[str, list[Any]]:
    source, target = work / "references.in.json", work / "references.out.json"
    source.write_text(json.dumps(given))
    command = [sys.executable, "-m", "tests.e2e.reference", str(model), str(source), str(target)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VLLM_CACHE_ROOT": str(SHARED_CACHE / "vllm")}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[Any]] = json.loads(target.read_text())
    return found


WINDOW = 382
"""Of the engine's 384 tokens, less the last one that is predicted and one that is generated in any case."""


def asked_choices(samples: list[Sample]) -> list[tuple[str, int, Choice]]:
    return [(sample.sample_id, i, choice) for sample in samples for i, choice in enumerate(sample.choices)]


def cut_by_hand(samples: list[Sample]) -> list[tuple[str, int, int, int]]:
    """(sample, begin, first token that counts, end): what is read before a window's last token is a window at most."""
    ids = {sample.sample_id: sample.prompt_token_ids for sample in samples if sample.dataset == "texts"}
    long = ids["texts:long"]
    assert len(long) - 1 > 2 * WINDOW
    parts = [(name, 0, 1, len(own)) for name, own in ids.items() if own is not long]
    ends = [*range(WINDOW + 1, len(long), WINDOW), len(long)]
    for begin, end in zip([0, *ends], ends, strict=False):
        parts.append(("texts:long", max(0, end - WINDOW - 1), max(1, begin), end))
    return parts


@pytest.fixture(scope="module")
def references(finished: tuple[Path, list[Sample], Path], model_dir: Path) -> dict[str, list[Any]]:
    """What the bare libraries give: `transformers` for each choice and each part of a document, `vllm` for each sum."""
    _, samples, work = finished
    ids = {sample.sample_id: sample.prompt_token_ids for sample in samples}
    choices, parts = asked_choices(samples), cut_by_hand(samples)
    passed = {
        "prompts": [*(c.token_ids for *_, c in choices), *(ids[name][begin:end] for name, begin, _, end in parts)],
        "starts": [*(c.start for *_, c in choices), *(start - begin for _, begin, start, _ in parts)],
    }
    asked = [sample.prompt_token_ids for sample in samples if sample.dataset == "arithmetic"]
    answered = {"prompts": asked, "max_tokens": 24, "max_model_len": 1024}
    return run_references(model_dir, {"transformers": passed, "vllm": answered}, work)


@pytest.fixture(scope="module")
def passed(
    finished: tuple[Path, list[Sample], Path], references: dict[str, list[Any]]
) -> tuple[dict[tuple[str, int], float], dict[str, float]]:
    """What a plain forward pass gives: for each choice of each sample, and for each document."""
    _, samples, _ = finished
    choices, parts = asked_choices(samples), cut_by_hand(samples)
    sums = references["transformers"]
    documents: dict[str, float] = {}
    for (name, *_), value in zip(parts, sums[len(choices) :], strict=True):
        documents[name] = documents.get(name, 0.0) - value
    return {(name, i): value for (name, i, _), value in zip(choices, sums, strict=False)}, documents


def test_texts_equal_those_of_bare_vllm(
    finished: tuple[Path, list[Sample], Path], references: dict[str, list[Any]]
) -> None:
    home, samples, _ = finished
    asked = [sample.sample_id for sample in samples if sample.dataset == "arithmetic"]
    expected = dict(zip(asked, references["vllm"], strict=True))
    answered = rows(home, "SELECT sample_id, output FROM requests WHERE dataset = 'arithmetic' AND kind = 'generate'")
    assert len(answered) == 16
    assert {row["sample_id"]: row["output"] for row in answered} == expected


def test_loglikelihoods_equal_a_plain_forward_pass(
    finished: tuple[Path, list[Sample], Path], passed: tuple[dict[tuple[str, int], float], dict[str, float]]
) -> None:
    home, expected = finished[0], passed[0]
    found = {
        (row["sample_id"], row["choice_index"]): row["logprob_sum"]
        for row in rows(
            home,
            "SELECT sample_id, choice_index, logprob_sum FROM requests "
            "WHERE kind = 'loglikelihood' AND dataset = 'choice'",
        )
    }
    assert found.keys() == expected.keys() and len(found) == 24
    worst = max(abs(found[key] - value) for key, value in expected.items())
    assert worst < 1e-3, worst


def test_documents_are_measured_as_a_plain_forward_pass_does_window_by_window(
    finished: tuple[Path, list[Sample], Path], passed: tuple[dict[tuple[str, int], float], dict[str, float]]
) -> None:
    (home, samples, _), (_, expected) = finished, passed
    assert [sample.window for sample in samples if sample.dataset == "texts"] == [WINDOW] * 4
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
