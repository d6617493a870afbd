"""Two runs in one command: compared with each other, and at two batch sizes. One small experiment for both."""

from pathlib import Path

import pytest

from tests.e2e.command import ROOT, Done, assay, rows
from tests.stores import used_before
from warehouse.query import query

SUMS = """source: {kind: jsonl, path: sums.jsonl}
id_field: id
prompt: {text: "{{ q }} ="}
target: "{{ a }}"
metrics: [{use: exact_match, options: {compare: number}}]
max_tokens: 6
"""
THOUGHT = """source: {kind: jsonl, path: sums.jsonl}
id_field: id
prompt: {text: "{{ q }}?\\n<think>\\n"}
target: "{{ a }}"
metrics: [{use: exact_match, options: {compare: number}}]
reasoning_parser: think_tags
stop: [" "]
max_tokens: 8
limit: 3
"""
EXPERIMENT = """name: sums
model: smollm2-135m-instruct
datasets: [sums, thought]
sampling: {temperature: 0}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("two")
    used_before(folder / "home", model_dir)
    lines = [f'{{"id": "s{n}", "q": "{n} + {n + 1}", "a": {2 * n + 1}}}' for n in range(6)]
    (folder / "sums.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "sums.yaml").write_text(SUMS)
    (folder / "thought.yaml").write_text(THOUGHT)
    (folder / "new.yaml").write_text(EXPERIMENT)
    (folder / "old.yaml").write_text(EXPERIMENT.replace("datasets:", "max_failed: 0.5\ndatasets:"))
    return folder


@pytest.fixture(scope="module")
def both(project: Path) -> Done:
    return assay(
        "run", "new.yaml", "old.yaml", "--compare", "--fail-on", "worse", "--json", home=project / "home", cwd=project
    )


def test_two_files_run_and_are_compared_the_first_as_the_candidate(project: Path, both: Done) -> None:
    assert both.code == 0, both.stderr
    assert both.stdout.count("\n") == 1 and both.stderr.count("start Prefect") == 1
    found = both.json
    candidate, baseline = (run["run_id"] for run in found["runs"])
    assert [(run["file"], run["status"]) for run in found["runs"]] == [
        ("new.yaml", "finished"),
        ("old.yaml", "finished"),
    ]
    assert candidate < baseline  # it ran first
    comparison = found["comparison"]
    assert (comparison["candidate"]["run_id"], comparison["baseline"]["run_id"]) == (candidate, baseline)
    assert {each["effect"] for each in comparison["results"] if each["dataset"] == "sums"} == {0.0}
    assert [each["what"] for each in comparison["differences"] if "max_failed" in each["what"]]
    kept = rows(project / "home", "SELECT run_id, baseline_run_id, dataset FROM comparisons")
    assert {(row["run_id"], row["baseline_run_id"]) for row in kept} == {(candidate, baseline)}


def test_reasoning_that_was_cut_is_no_answer_and_no_stop_string_ended_it(project: Path, both: Done) -> None:
    run_id = both.json["runs"][0]["run_id"]
    of = f"WHERE run_id = '{run_id}' AND dataset = 'thought'"
    for row in rows(project / "home", f"SELECT * FROM requests {of}"):
        assert (row["status"], row["output"], row["finish_reason"]) == ("truncated", None, "length")
        assert row["output_tokens"] == 8 and " " in row["reasoning"]  # the engine would have stopped at the first blank
        assert row["ttft_text_ms"] is None and row["ttft_ms"] > 0
    scores = rows(project / "home", f"SELECT value, reason FROM scores {of}")
    assert scores == [{"value": None, "reason": "cut before the reasoning ended"}] * 3
    assert rows(project / "home", f"SELECT reason FROM failures {of}")[0]["reason"] == "cut before the reasoning ended"


@pytest.mark.slow
def test_the_noise_of_the_batch_size_is_measured_kept_and_told(project: Path, both: Done) -> None:
    home = project / "home"
    done = assay(
        "noise", "new.yaml", "--concurrency", "1,4", "--set", "datasets=[sums]", "--json", home=home, cwd=project
    )
    assert done.code == 0, done.stderr
    found = done.json
    assert [level["concurrency"] for level in found["levels"]] == [1, 4] and found["warnings"] == []
    [band] = found["bands"]
    assert band["n_pairs"] == 6 and band["band"] == abs(band["change"]) and len(band["values"]) == 2
    low, high = (level["run_id"] for level in found["levels"])
    engines = rows(home, "SELECT run_id, max_num_seqs, max_num_batched_tokens AS budget FROM engines")
    by_run = {row["run_id"]: row for row in engines}
    assert (by_run[low]["max_num_seqs"], by_run[high]["max_num_seqs"]) == (1, 4)
    assert by_run[low]["budget"] == by_run[high]["budget"]
    kept = rows(home, f"SELECT name, value, unit FROM metrics WHERE run_id = '{high}' AND starts_with(name, 'noise.')")
    assert {row["name"] for row in kept} == {"noise.sums.exact_match", "noise.sums.texts_differ"}
    assert 'id="noise"' in (home / "runs" / high / "report.html").read_text("utf-8")

    told = assay("compare", both.json["runs"][0]["run_id"], low, "--json", home=home, cwd=project)
    assert any(f"measured by assay noise (run {high})" in note for note in told.json["notes"])
    recipe = (ROOT / "docs" / "noise.md").read_text("utf-8").partition("```sql\n")[2].partition("```")[0]
    [asked] = query(home=home, sql=recipe).rows
    assert asked[:3] == ("sums", "exact_match", "free") and asked[4] == round(band["band"], 4)
