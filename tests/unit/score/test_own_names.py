"""`as`: one metric several times in a dataset, from scoring over rescoring to a comparison."""

import datetime
import json
from pathlib import Path

import pytest
from offline_files import assay, last_object, write_lines

from schemas.dataset import Dataset
from schemas.errors import ConfigError
from tasks.compare.runs import compare_runs
from tasks.predictions.dataset import load_dataset
from tasks.predictions.offline import Asked, score_file
from tasks.predictions.record import record_offline
from tasks.predictions.rescore import rescore, write_rescored
from tasks.predictions.score import chosen_metrics, parse_metric
from warehouse.parquet import read_rows

ASKED = [
    {"id": "one", "prompt": "p", "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
     "kwargs": [{}, {}]},
    {"id": "two", "prompt": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
]  # fmt: skip
ANSWERS = [{"id": "one", "output": "Upper case without that sign"}, {"id": "two", "output": "fine"}]
TWICE = "[{use: ifeval, as: prompt_strict}, {use: ifeval, as: instruction_strict, options: {level: instruction}}]"


def followed(folder: Path, *, metrics: str = TWICE) -> Path:
    write_lines(folder / "asked.jsonl", ASKED)
    path = folder / "followed.yaml"
    path.write_text(
        'source: {kind: jsonl, path: asked.jsonl}\nid_field: id\nprompt: {text: "{{ prompt }}"}\n'
        f'target: "{{{{ id }}}}"\nmetrics: {metrics}\n'
    )
    return path


def scored(folder: Path, dataset: Path, *metrics: str) -> tuple[dict[str, float | None], str]:
    """The numbers, and the run that has them."""
    answers = write_lines(folder / "out.jsonl", ANSWERS)
    offline = score_file(Asked(dataset=str(dataset), predictions=answers, metrics=metrics))
    run_id = record_offline(offline, home=folder / "home", name="n", started_at=datetime.datetime.now(datetime.UTC))
    return {row.name: row.value for row in offline.metrics if ".form." not in row.name}, run_id


def test_ifeval_twice_gives_two_numbers_that_stay_apart(tmp_path: Path) -> None:
    dataset, home = followed(tmp_path), tmp_path / "home"
    expected = {"followed.prompt_strict": 0.5, "followed.instruction_strict": 0.75}
    answers = write_lines(tmp_path / "out.jsonl", ANSWERS)
    done = assay("score", "--dataset", str(dataset), "--predictions", str(answers), "--json", home=home)
    numbers = {row["name"]: row["value"] for row in last_object(done)["metrics"] if ".form." not in row["name"]}
    assert numbers == expected
    [run] = read_rows(home, "runs", parse_json=True)
    run_id = run["run_id"]
    assert [use["as"] for use in run["config"]["datasets"][0]["config"]["metrics"]] == [
        "prompt_strict",
        "instruction_strict",
    ]
    rows = read_rows(home, "scores")
    assert {(row["metric"], row["base_metric"]) for row in rows} == {
        ("prompt_strict", "ifeval"),
        ("instruction_strict", "ifeval"),
    }
    page = (home / "runs" / run_id / "report.html").read_text()
    assert "prompt strict" in page

    again = rescore(home, run_id)
    assert {change.name: change.new for change in again.changes} == expected
    assert all(change.same for change in again.changes)
    one = rescore(home, run_id, metrics=["instruction_strict"])
    assert [change.name for change in one.changes] == ["followed.instruction_strict"]
    write_rescored(home, one)
    assert len(read_rows(home, "scores")) == len(rows)

    assert scored(tmp_path, dataset, 'loose=ifeval:{"mode": "loose"}')[0] == {"followed.loose": 0.5}
    found, other = scored(tmp_path, dataset)
    assert found == expected
    comparison = compare_runs(home=home, candidate=other, baseline=run_id)
    assert [(each.name, each.comparison.effect) for each in comparison.results] == [
        ("followed.prompt_strict", 0),
        ("followed.instruction_strict", 0),
    ]
    one_of_them = compare_runs(home=home, candidate=other, baseline=run_id, metrics=["prompt_strict"])
    assert [each.comparison.metric for each in one_of_them.results] == ["prompt_strict"]


def test_one_name_for_two_metrics_is_not_compared(tmp_path: Path) -> None:
    one, two = (
        scored(tmp_path, followed(tmp_path, metrics=f"[{{use: {metric}, as: mine}}]"))[1]
        for metric in ("ifeval", "contains")
    )
    with pytest.raises(ConfigError, match=r"followed\.mine is contains in the candidate and ifeval in the baseline"):
        compare_runs(home=tmp_path / "home", candidate=two, baseline=one)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("[ifeval, ifeval]", "metrics: the same metric stands here twice: with `as` each has a name of its own"),
        ("[{use: ifeval, as: a}, {use: contains, as: a}]", "the same metric stands here twice"),
        ("[{use: ifeval, as: contains}]", r"metrics\[0\].as: `contains` is the name of another metric than `ifeval`"),
        ("[{use: ifeval, as: a.b}]", r"metrics\[0\].as"),
    ],
)
def test_names_that_are_refused(tmp_path: Path, metrics: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_dataset(str(followed(tmp_path, metrics=metrics)))


def test_a_metric_on_the_command_line_may_have_a_name(tmp_path: Path) -> None:
    assert parse_metric("ifeval").name == "ifeval"
    use = parse_metric('mine=contains:{"require": "any"}')
    assert (use.use, use.name, use.options) == ("contains", "mine", {"require": "any"})
    for wrong in ("=contains", "a.b=contains", "mine=contain", 'mine=contains:{"requir": 1}'):
        with pytest.raises(ConfigError):
            parse_metric(wrong)
    dataset = load_dataset(str(followed(tmp_path))).config
    assert [use.name for use in chosen_metrics(dataset, asked=["instruction_strict", "ifeval"])] == [
        "instruction_strict",
        "ifeval",
    ]


def test_groups_and_the_recorded_config_go_by_the_name(tmp_path: Path) -> None:
    from schemas.dataset import NamedDataset
    from schemas.engine import Sampling
    from schemas.experiment import Group, group_faults

    config = load_dataset(str(followed(tmp_path))).config
    named = NamedDataset(name="followed", config=config, sampling=Sampling())
    assert group_faults({"g": Group(datasets=["*"], metric="prompt_strict")}, datasets=[named]) == []
    [fault] = group_faults({"g": Group(datasets=["*"], metric="ifeval")}, datasets=[named])
    assert "no metric `ifeval`" in fault.message
    dumped = json.loads(json.dumps(config.model_dump(mode="json", by_alias=True)))
    assert Dataset.model_validate(dumped) == config
