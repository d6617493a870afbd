"""Suites in an experiment: names, groups, other rows, and what is refused."""

import json
from pathlib import Path

import pytest
from suite_helpers import case_of, write_copy
from typer.testing import CliRunner

from flows.cli import app
from schemas.errors import ConfigError
from schemas.experiment import Experiment
from schemas.source import HubDatasetSource, JsonlSource
from tasks.config.resolve import load_experiment
from tasks.dataset.stage import check_datasets

HEAD = "name: mine\nmodel: smollm2-135m-instruct\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exp").mkdir()
    return tmp_path


def load(home: Path, text: str, *overrides: str) -> Experiment:
    (home / "exp" / "e.yaml").write_text(HEAD + text)
    return load_experiment("exp/e.yaml", overrides=overrides)


def refused(home: Path, text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(home, text, *overrides)
    return str(caught.value)


def test_a_suite_is_its_datasets_and_brings_its_groups(home: Path) -> None:
    experiment = load(home, "datasets: [gsm8k, {use: mmlu, limit: 5}, choice]\n")
    names = [dataset.name for dataset in experiment.datasets]
    assert (names[0], names[1], names[-1], len(names)) == ("gsm8k", "mmlu_abstract_algebra", "choice", 59)
    assert {dataset.config.limit for dataset in experiment.datasets[1:-1]} == {5}
    assert experiment.datasets[0].sampling.stop == ["Question:", "</s>", "<|im_end|>"]
    assert experiment.groups["mmlu"].weight == "size"
    assert experiment.groups["mmlu"].members(names) == names[1:-1]
    # what a run keeps of it can be read back, without the suite's file
    assert Experiment.model_validate(experiment.model_dump(by_alias=True)) == experiment


def test_a_group_of_the_experiment_wins(home: Path) -> None:
    text = "datasets: [mmlu]\ngroups: {mmlu: {datasets: ['mmlu_*'], metric: acc, weight: equal}}\n"
    experiment = load(home, text)
    assert experiment.groups["mmlu"].weight == "equal"
    assert experiment.groups["mmlu_stem"].weight == "size"


def test_a_group_of_a_suite_leaves_out_what_is_merely_named_like_it(home: Path) -> None:
    (home / "exp" / "f").mkdir()
    experiment = load(home, "datasets: [{use: bbh, folder: f}, {use: bbh_direct, folder: f}]\n")
    assert len(experiment.groups["bbh"].datasets) == 27
    assert not any("direct" in name for name in experiment.groups["bbh"].datasets)


def test_one_dataset_of_a_suite_comes_without_groups(home: Path) -> None:
    experiment = load(home, "datasets: [mmlu_anatomy, arc_easy]\n")
    assert [dataset.name for dataset in experiment.datasets] == ["mmlu_anatomy", "arc_easy"]
    assert experiment.groups == {}


def test_other_rows_start_from_the_experiments_folder(home: Path) -> None:
    text = (
        "datasets:\n  - use: gsm8k\n    source: {kind: jsonl, path: data/test.jsonl}\n"
        "    few_shot_source: {kind: jsonl, path: ../train.jsonl}\n"
    )
    (home / "exp" / "data").mkdir()
    for name in ("exp/data/test.jsonl", "train.jsonl", "here.jsonl"):
        (home / name).touch()
    config = load(home, text).datasets[0].config
    assert isinstance(config.source, JsonlSource)
    assert isinstance(config.few_shot.source, JsonlSource)
    assert config.source.path == str(home / "exp" / "data" / "test.jsonl")
    assert config.few_shot.source.path == str(home / "train.jsonl")
    assert config.few_shot.n == 5
    config = load(home, text, "datasets.gsm8k.source={kind: jsonl, path: here.jsonl}").datasets[0].config
    assert isinstance(config.source, JsonlSource)
    assert config.source.path == str(home / "here.jsonl")


def test_a_local_copy_is_read_without_network(home: Path) -> None:
    write_copy(home / "exp" / "arc", case_of("arc")["files"])
    experiment = load(home, "datasets: [{use: arc, folder: arc}]\n")
    check_datasets(experiment)
    source = experiment.datasets[0].config.source
    assert isinstance(source, HubDatasetSource)
    assert source.folder == str(home / "exp" / "arc")


def test_rows_and_shots_of_a_missing_subject_are_refused(home: Path) -> None:
    write_copy(home / "exp" / "mmlu", case_of("mmlu")["files"])
    experiment = load(home, "datasets: [{use: mmlu, folder: mmlu}]\n")
    with pytest.raises(ConfigError) as caught:
        check_datasets(experiment)
    assert "the folder exp/mmlu has no Parquet or JSONL file of split 'test' and subset 'virology'" in str(caught.value)


def test_a_plain_dataset_takes_other_rows_too(home: Path) -> None:
    (home / "exp" / "c.csv").touch()
    config = load(home, "datasets: [{use: choice, source: {kind: csv, path: c.csv}}]\n").datasets[0].config
    assert config.source.kind == "csv"


def test_given_rows_that_are_not_there_are_told_at_the_experiments_line(home: Path) -> None:
    (home / "exp" / "rows.jsonl").touch()
    said = refused(home, "datasets: [{use: choice, source: {kind: jsonl, path: row.jsonl}}]\n")
    assert said == "exp/e.yaml:3: datasets[0].source.path: there is no file exp/row.jsonl (did you mean `rows.jsonl`?)"
    said = refused(home, "datasets: [{use: gsm8k, folder: nothere}]\n")
    assert said == "exp/e.yaml:3: datasets[0].folder: there is no folder exp/nothere"
    load(home, "datasets: [{use: choice, source: {kind: jsonl, path: 'part-*.jsonl'}}]\n")  # looked for with the rows


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ("[gsm8]", "exp/e.yaml:3: datasets[0]: there is no dataset `gsm8`"),
        ("[gsm8]", "did you mean `gsm8k`?"),
        ("[mmlu_anatmy]", "did you mean `mmlu_anatomy`?"),
        ("[mmlu, mmlu_anatomy]", "`mmlu_anatomy` and `mmlu` both stand for `mmlu_anatomy`: take one of the two"),
        ("[{use: mmlu, source: {kind: jsonl, path: a}}]", "is a suite of 57 datasets, which have no rows in common"),
        ("[{use: gsm8k, sorce: {kind: jsonl, path: a}}]", "did you mean `source`?"),
        ("[{use: gsm8k, source: {kind: jsonl, pth: a}}]", "did you mean `path`?"),
        ("[bbh]", "`bbh` reads local files: say where they lie"),
        ("[bbh]", "a clone of https://github.com/suzgunmirac/BIG-Bench-Hard"),
        ("[bbh_snarks]", "write `{use: bbh_snarks, folder: …}`"),
    ],
)
def test_what_is_refused(home: Path, datasets: str, message: str) -> None:
    assert message in refused(home, f"datasets: {datasets}\n")


def test_a_suite_of_ones_own_stands_beside_the_experiment(home: Path) -> None:
    (home / "exp" / "quiz.yaml").write_text(
        "description: d\nsource: s\nlicense: l\nconvention: c\ncomparable_with: n\nname: 'quiz_[[part]]'\n"
        "template:\n  source: {kind: jsonl, path: '[[part]].jsonl'}\n  prompt: {text: '{{ q }}'}\n"
        "  target: '{{ a }}'\n  metrics: [exact_match]\neach: [{part: one}, {part: two}]\n"
        "groups: {quiz: {datasets: ['quiz_*'], metric: exact_match}}\n"
    )
    (home / "exp" / "rows").mkdir()
    experiment = load(home, "datasets: [{use: quiz, folder: rows}]\n")
    assert [dataset.name for dataset in experiment.datasets] == ["quiz_one", "quiz_two"]
    assert getattr(experiment.datasets[1].config.source, "path", None) == str(home / "exp" / "rows" / "two.jsonl")
    assert list(experiment.groups) == ["quiz"]


def test_a_fault_in_a_suite_is_said_once_with_its_line(home: Path) -> None:
    (home / "exp" / "quiz.yaml").write_text(
        "description: d\nsource: s\nlicense: l\nconvention: c\ncomparable_with: n\nname: 'quiz_[[part]]'\n"
        "template:\n  source: {kind: jsonl, path: a}\n  prompt: {text: '{{ q }}'}\n"
        "  metrics: [exact_mach]\neach: [{part: one}, {part: two}]\n"
    )
    (home / "exp" / "rows").mkdir()
    said = refused(home, "datasets: [{use: quiz, folder: rows}]\n")
    assert said.count("exact_mach") == 1
    assert "exp/quiz.yaml:10: template.metrics[0]: there is no metric `exact_mach`" in said


def test_show_takes_local_files(home: Path) -> None:
    rows = case_of("gsm8k")["files"]
    test, train = rows["main/test-00000-of-00001.parquet"], rows["main/train-00000-of-00001.parquet"]
    write_copy(home, {"t.jsonl": test, "s.jsonl": train})
    run = CliRunner()
    done = run.invoke(app, ["datasets", "show", "gsm8k", "--path", "t.jsonl", "--shots", "s.jsonl", "--json"])
    [sample] = json.loads(done.output)["samples"]
    assert sample["prompt"] == case_of("gsm8k")["prompts"][0]
    several = run.invoke(app, ["datasets", "show", "mmlu"])
    assert "`mmlu` is a suite of 57 datasets" in str(several.exception)
    no_data = run.invoke(app, ["datasets", "show", "gsm8k", "--path", "t.txt"])
    assert "--path: t.txt is no data file" in str(no_data.exception)
