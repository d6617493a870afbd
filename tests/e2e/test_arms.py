"""Arms with adapters of their own in one real run: who answers, what is compared, and where the arms' names stand."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.e2e.adapters import write_adapter
from tests.e2e.command import Done, assay, rows
from tests.stores import used_before

EXPERIMENT = """\
name: tuned-against-plain
model: smollm2-135m-instruct
engine:
  extends: vllm
  max_num_seqs: 24
  max_num_batched_tokens: 64
  prefill: {policy: "off"}
  adapters: [{name: red, path: red}]
datasets: [./sums.yaml, ./facts.yaml]
arms: [free, guided, {name: tuned, adapter: red}, {name: tuned-form, like: guided, adapter: red}]
sampling: {temperature: 0}
gates: [{metric: sums.form.empirical_coverage, arm: tuned-form, rule: at_least, value: 0.1}]
"""
SUMS = """\
source: {kind: jsonl, path: sums.jsonl}
id_field: id
prompt: {text: "{{ id }} ="}
target: "{{ answer }}"
guide: {kind: regex, pattern: " [0-9]{1,2}"}
metrics: [{use: exact_match, options: {compare: number}}]
max_tokens: 4
"""
FACTS = """\
source: {kind: jsonl, path: facts.jsonl}
id_field: id
prompt: {text: "{{ id }} is the capital of"}
target: "{{ options[0] }}"
choices: "{{ options }}"
guide: {kind: choice}
metrics: [choice, acc, acc_norm]
max_tokens: 8
"""
"""Short prompts: where there is no GPU, an adapter costs as much for each token that is read as for each written."""
ROWS = {
    "sums": [{"id": f"{n} + {n + 1}", "answer": 2 * n + 1} for n in range(1, 4)],
    "facts": [
        {"id": city, "options": [land, "Norway", "Chile", "Kenya"]}
        for city, land in (("Paris", "France"), ("Rome", "Italy"), ("Riga", "Latvia"))
    ],
}
PAIRS = [("guided", "free"), ("tuned", "free"), ("tuned-form", "guided"), ("tuned-form", "tuned")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("arms")
    write_adapter(folder / "red", seed=1)
    (folder / "arms.yaml").write_text(EXPERIMENT)
    for name, text in (("sums", SUMS), ("facts", FACTS)):
        (folder / f"{name}.yaml").write_text(text)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
    used_before(folder / "home", model_dir)
    return folder / "home"


@pytest.fixture(scope="module")
def done(home: Path) -> Done:
    file = str(home.parent / "arms.yaml")
    done = assay("run", file, "--set", "model.dtype=float32", "--json", home=home)
    assert done.code == 0, done.stderr
    return done


def test_the_adapter_answers_in_its_arms_on_the_same_samples(home: Path, done: Done) -> None:
    found = rows(home, "SELECT arm, kind, dataset, sample_id, adapter, output, status FROM requests ORDER BY ALL")
    by_arm = {arm: [row for row in found if row["arm"] == arm] for arm in ("free", "guided", "tuned", "tuned-form")}
    assert sum(map(len, by_arm.values())) == len(found)
    assert {arm: {row["adapter"] for row in own} for arm, own in by_arm.items()} == {
        "free": {None}, "guided": {None}, "tuned": {"red"}, "tuned-form": {"red"}
    }  # fmt: skip
    answered = {
        arm: {row["sample_id"]: row["output"] for row in own if row["kind"] == "generate"}
        for arm, own in by_arm.items()
    }
    assert len({frozenset(own) for own in answered.values()}) == 1 and len(answered["free"]) == 6
    for plain, tuned in (("free", "tuned"), ("guided", "tuned-form")):
        assert answered[plain] != answered[tuned]
    scored = rows(
        home,
        "SELECT arm, sample_id, choice_index, adapter, logprob_sum FROM requests WHERE kind = 'loglikelihood' "
        "ORDER BY arm, sample_id, choice_index",
    )
    assert {(row["arm"], row["adapter"]) for row in scored} == {("free", None), ("tuned", "red")}
    plain, tuned = ([row["logprob_sum"] for row in scored if row["arm"] == arm] for arm in ("free", "tuned"))
    assert len(plain) == len(tuned) == 12 and all(one != two for one, two in zip(plain, tuned, strict=True))


def test_the_arms_are_compared_in_pairs(home: Path, done: Done) -> None:
    found = rows(home, "SELECT dataset, metric, candidate_arm, baseline_arm, n_pairs FROM comparisons ORDER BY ALL")
    told = {(row["dataset"], row["metric"], row["candidate_arm"], row["baseline_arm"]) for row in found}
    assert told == {
        *(("sums", "exact_match", *pair) for pair in PAIRS),
        *(("facts", "choice", *pair) for pair in PAIRS),
        *(("facts", metric, "tuned", "free") for metric in ("acc", "acc_norm")),
    }
    assert {row["n_pairs"] for row in found} == {3}
    shown = assay("compare", "last:tuned", "last:free", "--json", home=home, timeout_s=60)
    assert shown.code in (0, 3), shown.stderr


def test_tables_pages_and_mlflow_call_the_arms_by_their_names(home: Path, done: Done) -> None:
    head = next(line for line in done.stderr.splitlines() if line.startswith("metric"))
    assert head.split() == ["metric", "free", "guided", "tuned", "tuned-form"]
    assert "arms compared" in done.stderr and "tuned − free" in done.stderr and "tuned-form − tuned" in done.stderr
    assert "sums.form.empirical_coverage" in done.stderr  # the gate of an arm of that name
    page = Path(done.json["report"]).read_text("utf-8")
    assert "Arms compared" in page and "tuned-form − guided" in page
    with sqlite3.connect(home / "mlflow.db") as store:
        params = {(key, value) for key, value in store.execute("SELECT key, value FROM params")}
        metrics = {key for (key,) in store.execute("SELECT DISTINCT key FROM metrics")}
    assert ("adapter", "red") in params and "sums.exact_match.tuned" in metrics
    assert ("arms", "free, guided, tuned (like free, adapter red), tuned-form (like guided, adapter red)") in params
    config = json.loads(rows(home, "SELECT config FROM runs")[0]["config"])
    assert config["arms"][2] == {"name": "tuned", "like": "free", "adapter": "red"}


def test_scoring_again_keeps_the_arms_and_their_pairs(home: Path, done: Done) -> None:
    before = rows(home, "SELECT dataset, metric, candidate_arm, baseline_arm, effect FROM comparisons ORDER BY ALL")
    again = assay("rescore", "last", "--json", home=home, timeout_s=120)
    assert again.code == 0, again.stderr
    sql = "SELECT dataset, metric, candidate_arm, baseline_arm, effect FROM comparisons ORDER BY ALL"
    assert rows(home, sql) == before
