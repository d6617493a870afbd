"""The launch form as a Prefect server stores it: flat fields, choices, defaults, bounds."""

import json
from pathlib import Path

import pytest
from prefect.utilities.callables import parameter_schema

from flows.ablate import ablate
from flows.bench import bench
from flows.client import client
from flows.compare import compare
from flows.experiment import experiment
from flows.form import AS_CONFIGURED, form_overrides
from flows.grammars import grammars
from flows.maintain import maintain
from flows.noise import noise
from flows.sweep import sweep
from flows.tune import tune
from schemas.errors import ConfigError
from tasks.config.resolve import load_experiment

FLOWS = (experiment, bench, client, compare, noise, sweep, ablate, tune, grammars, maintain)
SNAPSHOTS = Path(__file__).with_name("form_schemas.json")
NOTHING = {
    "model": AS_CONFIGURED,
    "datasets": [],
    "arms": AS_CONFIGURED,
    "graphs": AS_CONFIGURED,
    "prefill": AS_CONFIGURED,
    "overrides": [],
}


def test_stored_schemas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # only what is packaged
    schemas = {flow.name: parameter_schema(flow).model_dump() for flow in FLOWS}
    wanted = json.loads(SNAPSHOTS.read_text("utf-8"))
    shown = json.dumps(schemas, indent=1, ensure_ascii=False)
    assert schemas == wanted, f"the form changed; if it is meant, {SNAPSHOTS.name} becomes:\n{shown}"


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_field_is_flat_and_described(flow: object) -> None:
    for name, field in parameter_schema(flow).model_dump()["properties"].items():
        assert "anyOf" not in field and "$ref" not in field and "allOf" not in field, name
        assert field["type"] in ("string", "integer", "number", "boolean", "array"), name
        assert field["description"], name
        assert "default" in field, name


def test_choices_are_what_stands_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "configs" / "experiments").mkdir(parents=True)
    (tmp_path / "configs" / "experiments" / "mine.yaml").write_text("name: mine\n")
    monkeypatch.chdir(tmp_path)
    properties = parameter_schema(experiment).model_dump()["properties"]
    assert properties["config"]["enum"] == ["mine", "quickstart", "service"]
    assert properties["model"]["enum"][0] == AS_CONFIGURED


def test_an_untouched_form_changes_nothing() -> None:
    assert form_overrides(**NOTHING) == []


def test_fields_become_the_config() -> None:
    changes = form_overrides(
        model="smollm2-135m-instruct",
        datasets=["extract", "choice"],
        arms="free and guided",
        graphs="none",
        prefill="off",
        overrides=["engine.max_num_seqs=7"],
    )
    found = load_experiment("quickstart", overrides=changes, limit=3)
    assert [dataset.name for dataset in found.datasets] == ["extract", "choice"]
    assert found.arms == ["free", "guided"]
    assert found.engine.cudagraph.mode == "none"
    assert found.engine.prefill.policy == "off"
    assert found.engine.max_num_seqs == 7


def test_what_the_user_wrote_out_wins() -> None:
    changes = form_overrides(**{**NOTHING, "prefill": "off", "overrides": ["engine.prefill.policy=rule"]})
    assert load_experiment("quickstart", overrides=changes).engine.prefill.policy == "rule"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("arms", "gided", "arms"),
        ("model", "smollm", "smollm2-135m-instruct"),
        ("datasets", ["extrac"], "extract"),
        ("graphs", "some", "engine.cudagraph"),
        ("prefill", "rul", "engine.prefill.policy"),
        ("overrides", ["sampling.max_token=3"], "max_tokens"),
    ],
)
def test_a_bad_value_names_its_field(field: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_experiment("quickstart", overrides=form_overrides(**{**NOTHING, field: value}))
