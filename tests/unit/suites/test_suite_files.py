"""The suite files: what each states, what they stand for, what is wrong with a broken one."""

import json
import re
from pathlib import Path

import pytest
from suite_helpers import used
from typer.testing import CliRunner

from flows.cli import app, known_names
from schemas.errors import ConfigError
from schemas.source import HubDatasetSource
from tasks.config.locate import known_config_files
from tasks.config.suites import LoadedSuite, find_suite, load_suite, suite_names
from tasks.config.yaml_file import read_yaml

WANTED = {
    "gsm8k": 1, "mmlu": 57, "arc": 2, "hellaswag": 1, "winogrande": 1, "truthfulqa_mc": 1, "boolq": 1, "squad": 1,
    "triviaqa": 1, "humaneval": 1, "mbpp": 1, "ifeval": 1, "bbh": 27, "bbh_direct": 27, "bfcl": 8,
    "jsonschemabench": 10, "needle_lengths": 4,
}  # fmt: skip
DOCS = Path(__file__).parents[3] / "docs"


def loaded(name: str) -> LoadedSuite:
    path = find_suite(name)
    assert path is not None
    return load_suite(read_yaml(path))


@pytest.mark.parametrize("name", WANTED)
def test_each_states_what_a_reader_needs_and_resolves(name: str, tmp_path: Path) -> None:
    suite = loaded(name)
    for key in ("description", "source", "license", "convention", "comparable_with"):
        assert len(getattr(suite.suite, key)) > 2, key
    datasets = used({"use": name, "folder": str(tmp_path)})
    assert len(datasets) == WANTED[name]
    for dataset in datasets:
        assert dataset.config.license == suite.suite.license
        assert dataset.name == name or dataset.name.startswith(f"{name.partition('_')[0]}_")
        assert dataset.path is not None and Path(dataset.path).stem == name
    assert "[[" not in json.dumps([dataset.config.model_dump(mode="json") for dataset in datasets])


def test_no_suite_is_missing_and_no_name_means_two_things() -> None:
    assert sorted(WANTED) == suite_names()
    members = [member.name for name in suite_names() for member in loaded(name).members]
    assert len(members) == len(set(members))
    assert not {path.stem for path in known_config_files("dataset")} & {*members, *suite_names()}


def test_the_page_has_a_row_for_each_with_what_its_file_states() -> None:
    page = (DOCS / "suites.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert list(rows) == suite_names()
    for name, row in rows.items():
        count, license_, metrics, _ = row.split(" | ")
        suite = loaded(name)
        assert (count, license_) == (str(len(suite.members)), suite.suite.license.split(" (")[0])
        used_metrics = suite.members[0].data["metrics"]
        names = [use if isinstance(use, str) else use["use"] for use in used_metrics]
        assert metrics == ", ".join(f"`{each}`" for each in dict.fromkeys(names))


def test_mmlu_reads_the_shots_of_each_subject_and_weighs_by_size() -> None:
    suite = loaded("mmlu")
    assert suite.groups["mmlu"].weight == "size"
    assert len(suite.groups["mmlu"].datasets) == 57
    areas = [suite.groups[f"mmlu_{area}"] for area in ("stem", "humanities", "social_sciences", "other")]
    assert sorted(name for area in areas for name in area.datasets) == sorted(suite.groups["mmlu"].datasets)
    [one] = used({"use": "mmlu_us_foreign_policy"})
    source, shots = one.config.source, one.config.few_shot.source
    assert isinstance(source, HubDatasetSource)
    assert isinstance(shots, HubDatasetSource)
    assert (source.subset, source.split, shots.subset, shots.split) == (
        "us_foreign_policy", "test", "us_foreign_policy", "dev",
    )  # fmt: skip
    assert one.config.prompt is not None
    assert one.config.prompt.prefix is not None
    assert one.config.prompt.prefix.endswith("about us foreign policy.\n\n")


BROKEN = {
    "both": ("template: {}\nname: a\neach: [{x: 1}]\ndatasets: {a: {}}\n", "give either `datasets` or `template`"),
    "unknown word": ('template: {source: "[[subjekt]]"}\nname: a\neach: [{subject: x}]\n', "did you mean `subject`?"),
    "one name twice": ('template: {metrics: [x]}\nname: a\neach: [{n: 1}, {n: 2}]\n', "two datasets are named `a`"),
    "no name": ('template: {metrics: [x]}\nname: "../[[n]]"\neach: [{n: 1}]\n', "must have a name of letters"),
    "no such member": ("datasets: {ab: {}}\ngroups: {g: {datasets: [a_*], metric: acc}}\n", "has no dataset `a_*`"),
    "nothing": ("datasets: {}\n", "at least one dataset"),
}  # fmt: skip
TEXTS = "description: d\nsource: s\nlicense: l\nconvention: c\ncomparable_with: n\n"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_suite_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    text, message = BROKEN[name]
    path = tmp_path / "mine.yaml"
    path.write_text(TEXTS + text)
    with pytest.raises(ConfigError) as caught:
        load_suite(read_yaml(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_suite_without_its_licence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TEXTS.replace("license: l\n", "") + "datasets: {a: {}}\n")
    with pytest.raises(ConfigError, match="license: is missing"):
        load_suite(read_yaml(path))


def test_commands_list_and_show_them() -> None:
    run = CliRunner()
    listed = json.loads(run.invoke(app, ["suites", "--json"]).output)["suites"]
    assert {each["name"]: len(each["datasets"]) for each in listed} == WANTED
    assert all(each["license"] and each["source"] and each["convention"] for each in listed)
    shown = run.invoke(app, ["suites", "mmlu"]).output
    assert "mmlu_world_religions" in shown
    assert "mmlu: acc of 57 datasets, weighing by size" in shown
    wrong = run.invoke(app, ["suites", "mmul"])
    assert isinstance(wrong.exception, ConfigError)
    assert "did you mean `mmlu`?" in str(wrong.exception)
    assert "hellaswag" in run.invoke(app, ["datasets"]).output
    assert known_names("h") == ["hellaswag", "humaneval"]
