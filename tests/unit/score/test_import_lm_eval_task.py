"""`assay import lm-eval-task`: tasks of the harness (tests/data/lm_eval_tasks), and prompts that it made of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from offline_files import ROOT, assay, last_object
from ruamel.yaml import YAML

from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError
from schemas.sample import Response
from tasks.config.document import yaml_text
from tasks.dataset.load import load_rows
from tasks.dataset.shots import delimiter
from tasks.lm_eval_task.convert import Converted, convert
from tasks.lm_eval_task.write import check, dataset_yaml
from tasks.predictions.samples import asked_samples
from tasks.score.registry import metric

TASKS = ROOT / "tests" / "data" / "lm_eval_tasks"
REFUSED = {
    "squadv2/squadv2.yaml": r"squadv2.yaml:2: class: the task is a Python class \(task.SQuAD2\)",
    "winogrande/winogrande.yaml": r"winogrande.yaml:7: doc_to_text: it is Python code \(preprocess_winogrande",
    "mmlu/_mmlu_stem.yaml": "_mmlu_stem.yaml:1: group: it is a group of mmlu_stem_tasks",
}
MADE = sorted(name for path in TASKS.rglob("*.yaml") if (name := path.relative_to(TASKS).as_posix()) not in REFUSED)
GOLDEN: dict[str, dict[str, Any]] = json.loads((TASKS / "prompts.json").read_text())


def notes(made: Converted) -> dict[str, str]:
    return {note.key: str(note) for note in made.not_taken}


def task(folder: Path, text: str) -> Converted:
    (folder / "mine.yaml").write_text("task: mine\ndataset_path: a/b\ntest_split: test\ndoc_to_text: '{{q}}'\n" + text)
    return convert(folder / "mine.yaml")


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_loads_and_says_just_what_was_meant(name: str) -> None:
    made = convert(TASKS / name)
    assert [note for note in check(made) if "sandbox" not in note.why] == []
    assert YAML(typ="safe").load(dataset_yaml(made)) == made.config
    assert all(note.file is None or note.line for note in made.not_taken)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_nothing_can_be_made_of_is_refused_with_its_line(name: str) -> None:
    with pytest.raises(ConfigError, match=REFUSED[name]):
        convert(TASKS / name)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_prompts_and_options_are_those_of_the_harness(name: str, tmp_path: Path) -> None:
    golden = GOLDEN[name]
    config = convert(TASKS / golden["task"]).config
    config["source"] = rows_file(tmp_path / "rows.jsonl", golden["rows"])
    if golden["examples"] and golden["shots"]:
        drawn = {
            "n": golden["shots"],
            "pick": "first",
            "source": rows_file(tmp_path / "shots.jsonl", golden["examples"]),
        }
        config["few_shot"] |= drawn
    dataset = NamedDataset(name="x", config=Dataset.model_validate(config), sampling=Sampling())
    samples = asked_samples(dataset, load_rows(dataset))
    assert [sample.prompt for sample in samples] == golden["prompts"]
    for sample, wanted in zip(samples, golden["continuations"], strict=True):
        assert [delimiter(sample.prompt) + choice.text for choice in sample.choices] == (wanted or [])


def rows_file(path: Path, rows: list[dict[str, Any]]) -> dict[str, str]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"kind": "jsonl", "path": str(path)}


def test_the_prompts_of_gsm8k_are_the_harness_s_on_its_own_rows(shared_data: Path) -> None:
    config = convert(TASKS / "gsm8k" / "gsm8k.yaml").config
    config["source"] = {"kind": "jsonl", "path": str(shared_data / "gsm8k" / "test.jsonl")}
    config["few_shot"] |= {
        "pick": "first",
        "source": {"kind": "jsonl", "path": str(shared_data / "gsm8k" / "train.jsonl")},
    }
    config["limit"] = 50
    dataset = NamedDataset(name="gsm8k", config=Dataset.model_validate(config), sampling=Sampling())
    loaded = load_rows(dataset)
    shots = [json.loads(line) for line in (shared_data / "gsm8k" / "train.jsonl").read_text().splitlines()[:5]]
    before = "".join(f"Question: {shot['question']}\nAnswer: {shot['answer']}\n\n" for shot in shots)
    wanted = [f"{before}Question: {row.fields['question']}\nAnswer:" for row in loaded.rows]
    assert [sample.prompt for sample in asked_samples(dataset, loaded)] == wanted


def test_includes_filters_and_settings_of_the_experiment() -> None:
    made = convert(TASKS / "gsm8k" / "gsm8k-cot-self-consistency.yaml")
    config = made.config
    assert (config["few_shot"]["n"], len(config["few_shot"]["examples"])) == (8, 8)
    assert config["target"] == "{{ answer.split('####')[-1].strip() }}"
    assert config["few_shot"]["answer"] == "{{ target }}"
    found = notes(made)
    assert "gsm8k-cot-self-consistency.yaml:" in found["filter_list.1"] and "majority_vote" in found["filter_list.1"]
    assert "`sampling: {repeats: 64}`" in found["repeats"]
    assert "`sampling: {temperature: 0.2}`" in found["generation_kwargs.temperature"]
    plain = convert(TASKS / "gsm8k" / "gsm8k.yaml").config
    assert [use["use"] for use in plain["metrics"]] == ["gsm8k_strict", "gsm8k_flexible"]
    assert plain["stop"] == ["Question:", "</s>", "<|im_end|>"]


def test_python_is_listed_and_never_run(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("raise SystemExit('it was run')\n")
    made = task(
        tmp_path,
        "doc_to_target: a\nprocess_docs: !function utils.process_docs\nmetric_list:\n"
        "  - metric: exact_match\n  - metric: !function utils.mine\nodd_key: 1\n",
    )
    found = notes(made)
    assert found["process_docs"].startswith("mine.yaml:6: process_docs: Python code (utils.process_docs)")
    assert found["metric_list.1"] == "mine.yaml:9: metric_list.1: the metric is Python code (utils.mine)"
    assert found["odd_key"] == "mine.yaml:10: odd_key: unknown to assay"
    assert made.config["metrics"] == [{"use": "exact_match", "options": {"normalize": "strip"}}]


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("doc_to_target: a\ntarget_delimiter: ': '\n", "target_delimiter", "assay puts ' ' here, not ': '"),
        ("doc_to_target: a\nfewshot_delimiter: '###'\n", "fewshot_delimiter", "two line ends, not '###'"),
        ("doc_to_target: a\ngeneration_kwargs: {min_p: 0.1}\n", "generation_kwargs.min_p", "no such setting"),
        ("doc_to_target: [a, b]\n", "doc_to_target", "a list of texts"),
        (
            "doc_to_target: a\nmetric_list: [{metric: exact_match, ignore_numbers: true}]\n",
            "metric_list.0.ignore_numbers",
            "takes nothing away",
        ),
        ("doc_to_target: a\nmetric_list: [{metric: squad_v9}]\n", "metric_list", "exact_match stands here instead"),
        ("doc_to_target: a\nnum_fewshot: 2\nfewshot_config: {sampler: bm25}\n", "fewshot_config.sampler", "own seed"),
    ],
)
def test_what_differs_is_listed(tmp_path: Path, text: str, key: str, said: str) -> None:
    made = task(tmp_path, text)
    assert said in notes(made)[key]
    assert "mine.yaml:" in notes(made)[key]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("doc_to_target: '{{a | no_such_filter(1)}}'\n", "mine.yaml:5: doc_to_target: .*no_such_filter"),
        ("doc_to_target: a\noutput_type: loglikelihood\n", "mine.yaml:6: output_type: the log-likelihood of a single"),
        ("output_type: multiple_choice\ndoc_to_target: a\n", "doc_to_choice: a multiple choice without options"),
        ("output_type: multiple_choice\ndoc_to_target: a\ndoc_to_choice: '{{a.split()}}'\n", "mine.yaml:7: .*computes"),
        ("doc_to_target: a\ntest_split: null\n", "neither a test_split nor a validation_split"),
        ("include: mine.yaml\n", "it includes itself"),
        ("include: other.yaml\n", "no such file"),
        ("doc_to_target: [\n", "not valid YAML"),
    ],
)
def test_what_cannot_be_a_dataset_says_why(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        task(tmp_path, text)


def test_lists_of_expressions_dictionaries_and_a_prefix_of_the_answer(tmp_path: Path) -> None:
    made = task(
        tmp_path,
        "output_type: multiple_choice\ndoc_to_target: 2\ndoc_to_choice: \"{{[wrong, ['a', b][0], 'x, y']}}\"\n"
        "gen_prefix: 'So:'\nnum_fewshot: 1\n",
    )
    assert made.config["choices"] == ["{{ wrong }}", "{{ ['a', b][0] }}", "x, y"]
    assert made.config["prompt"] == {"text": "{{q}}", "suffix": " So:"}
    assert made.config["few_shot"]["answer"].startswith("So: {% set target = 2 %}")
    other = task(tmp_path, "output_type: multiple_choice\ndoc_to_target: a\ndoc_to_choice: {x: 'yes', y: '{% no'}\n")
    assert other.config["choices"] == ["yes", '{{ "{% no" }}']


def test_the_tests_of_a_program_are_the_target_of_code_pass(tmp_path: Path) -> None:
    config = convert(TASKS / "humaneval" / "humaneval.yaml").config
    row = {
        "prompt": "def twice(n):\n", "entry_point": "twice", "test": "def check(f):\n    assert f(2) == 4\n",
    }  # fmt: skip
    config["source"] = rows_file(tmp_path / "rows.jsonl", [row])
    dataset = NamedDataset(name="x", config=Dataset.model_validate(config), sampling=Sampling())
    [sample] = asked_samples(dataset, load_rows(dataset))
    code_pass = metric("code_pass")
    assert code_pass.score is not None
    values = {}
    for output in ("    return 2 * n\n", "    return n\n"):
        response = Response(
            request_id="r", dataset="x", sample_id=sample.sample_id, arm="free", kind="generate", status="ok",
            repeat=0, output=output,
        )  # fmt: skip
        options = code_pass.Options(allow_unsandboxed=True)
        values[output.strip()] = code_pass.score(sample=sample, response=response, options=options).value
    assert values == {"return 2 * n": 1, "return n": 0}


def test_long_texts_are_written_as_they_are() -> None:
    text = "it's " + "a \\n  b " * 40 + "\x1f"
    assert YAML(typ="safe").load(yaml_text({"text": text})) == {"text": text}


def test_the_command_writes_a_file_or_prints_it(tmp_path: Path) -> None:
    out = tmp_path / "datasets" / "triviaqa.yaml"
    source = str(TASKS / "triviaqa" / "triviaqa.yaml")
    done = assay("import", "lm-eval-task", source, "--out", str(out), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "! triviaqa.yaml:10: doc_to_decontamination_query: not needed" in done.stderr
    assert "of its settings differ or are left out" in done.stderr
    assert out.read_text().startswith("# The task triviaqa of lm-evaluation-harness, made of triviaqa.yaml.\n")
    again = assay("import", "lm-eval-task", source, "--out", str(out), home=tmp_path)
    assert again.returncode == 2 and "there is such a file already" in again.stderr
    found = last_object(assay("import", "lm-eval-task", source, "--json", home=tmp_path))
    assert found["dataset"]["target"] == "{{answer.aliases}}"
    assert {note["key"] for note in found["not_taken"]} >= {"generation_kwargs.temperature"}
