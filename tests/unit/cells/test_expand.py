"""From a sweep's file to its cells: which ones, in which order, under which names, with what set."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tasks.cells.expand import Sweep, cells_of, load_sweep, override, short_keys
from tasks.config.resolve import load_experiment
from tasks.config.yaml_file import parse_value

BASE = "name: small\nmodel: smollm2-135m-instruct\ndatasets: [{use: arithmetic, limit: 3}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(BASE)
    return tmp_path


def sweep(folder: Path, **file: Any) -> Sweep:
    (folder / "mine.yaml").write_text(
        json.dumps({"base": "./small.yaml"} | file, indent=1, ensure_ascii=False)
    )  # JSON is YAML
    return load_sweep("mine.yaml")


def test_every_combination_is_a_cell_the_last_key_changing_first(folder: Path) -> None:
    matrix = {"engine.max_num_seqs": [8, 64], "engine.prefill.policy": ["off", "rule"], "model.dtype": ["float32"]}
    found = sweep(folder, matrix=matrix)
    assert [cell.name for cell in found.cells] == [
        "max_num_seqs=8, prefill.policy=off, dtype=float32",
        "max_num_seqs=8, prefill.policy=rule, dtype=float32",
        "max_num_seqs=64, prefill.policy=off, dtype=float32",
        "max_num_seqs=64, prefill.policy=rule, dtype=float32",
    ]
    assert [cell.index for cell in found.cells] == [0, 1, 2, 3]
    assert found.cells[2].settings == {
        "engine.max_num_seqs": 64,
        "engine.prefill.policy": "off",
        "model.dtype": "float32",
    }
    assert found.cells[2].overrides == [
        "engine.max_num_seqs=64",
        'engine.prefill.policy="off"',
        'model.dtype="float32"',
    ]
    assert {cell.role for cell in found.cells} == {"cell"}


def test_excluded_ones_are_left_out_and_included_ones_come_last(folder: Path) -> None:
    found = sweep(
        folder,
        matrix={"engine.max_num_seqs": [8, 16, 64], "engine.prefill.policy": ["off", "rule"]},
        exclude=[{"engine.max_num_seqs": 16}, {"engine.max_num_seqs": 64, "engine.prefill.policy": "rule"}],
        include=[{"engine.compile": "none"}, {"engine.max_num_seqs": 16, "engine.prefill.policy": "off"}],
    )
    assert [cell.name for cell in found.cells] == [
        "max_num_seqs=8, prefill.policy=off",
        "max_num_seqs=8, prefill.policy=rule",
        "max_num_seqs=64, prefill.policy=off",
        "compile=none",
        "max_num_seqs=16, prefill.policy=off",  # what is included is never excluded
    ]
    assert [cell.index for cell in found.cells] == [0, 1, 2, 3, 4]


def test_a_cell_is_the_experiment_with_its_settings_over_those_of_the_command_line(folder: Path) -> None:
    (folder / "mine.yaml").write_text("base: ./small.yaml\nmatrix: {engine.max_num_seqs: [8]}\n")
    found = load_sweep("mine.yaml", overrides=["engine.max_num_seqs=4", "model.dtype=float32"], limit=2)
    [cell] = found.cells
    assert cell.overrides == ["engine.max_num_seqs=4", "model.dtype=float32", "engine.max_num_seqs=8"]
    experiment = load_experiment(found.base, overrides=cell.overrides, limit=found.file.limit)
    assert experiment.engine.max_num_seqs == 8 and experiment.model.config.dtype == "float32"
    assert experiment.datasets[0].config.limit == 2


def test_the_base_is_looked_for_beside_the_file_and_the_file_by_its_name(folder: Path) -> None:
    own = folder / "configs" / "sweeps"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text("base: ../../small.yaml\nmatrix: {engine.max_num_seqs: [8]}\n")
    found = load_sweep("mine")
    assert (found.path, found.base, found.name) == (Path("configs/sweeps/mine.yaml"), "small.yaml", "mine")
    with pytest.raises(ConfigError, match=r"there is no sweep `mone`.*did you mean `mine`"):
        load_sweep("mone")
    with pytest.raises(ConfigError, match=r"mone\.yaml: no such file"):
        load_sweep("mone.yaml")


def test_values_that_are_blocks_lists_and_texts_arrive_as_they_were_written(folder: Path) -> None:
    values = ["a: b", "ü 😀", "7", "off", "null", "# no", "[1]", "{", "'", '"', " a "]
    found = sweep(
        folder, matrix={"tags.note": values}, include=[{"engine.prefill": {"policy": "fixed", "threshold": 9}}]
    )
    experiments = [load_experiment(found.base, overrides=cell.overrides) for cell in found.cells]
    assert [each.tags.get("note") for each in experiments] == [*values, None]
    assert (experiments[-1].engine.prefill.policy, experiments[-1].engine.prefill.threshold) == ("fixed", 9)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=40), inner, max_size=3)
        ),
        max_leaves=5,
    )
)
def test_any_value_survives_the_command_line(value: Any) -> None:
    key, _, written = override("engine.extra", value).partition("=")
    assert key == "engine.extra" and parse_value(written) == value


def test_keys_are_shortened_as_far_as_they_can_be_told_apart() -> None:
    assert short_keys(["engine.max_num_seqs", "model.dtype", "engine.prefill.policy", "engine.cudagraph.mode"]) == {
        "engine.max_num_seqs": "max_num_seqs",
        "model.dtype": "dtype",
        "engine.prefill.policy": "prefill.policy",
        "engine.cudagraph.mode": "cudagraph.mode",
    }
    assert short_keys(["datasets.a.limit", "datasets.b.limit"]) == {
        "datasets.a.limit": "a.limit",
        "datasets.b.limit": "b.limit",
    }
    assert short_keys(["model.dtype", "engine.kv.dtype", "dtype"]) == {
        "model.dtype": "model.dtype",
        "engine.kv.dtype": "kv.dtype",
        "dtype": "dtype",
    }


def test_a_value_in_a_name_is_yaml_on_one_line() -> None:
    settings = [
        {"engine.prefill": {"policy": "fixed", "threshold": 128}},
        {"datasets": ["a", {"use": "b", "limit": 3}]},
    ]
    assert [cell.name for cell in cells_of(settings)] == [
        "prefill={policy: fixed, threshold: 128}",
        "datasets=[a, {use: b, limit: 3}]",
    ]
    assert [cell.name for cell in cells_of([{"engine.prefix_caching": True}, {"engine.max_model_len": None}])] == [
        "prefix_caching=true",
        "max_model_len=null",
    ]


def test_cells_that_an_ablation_makes_have_roles() -> None:
    control, candidate = cells_of([{}, {"engine.choose": "vllm"}], overrides=["a=1"], roles=["control", "candidate"])
    assert (control.name, control.role, control.overrides) == ("as configured", "control", ["a=1"])
    assert (candidate.name, candidate.role) == ("choose=vllm", "candidate")
    assert candidate.overrides == ["a=1", 'engine.choose="vllm"']


def test_what_is_wrong_with_the_experiment_itself_is_told_once_at_its_own_line(folder: Path) -> None:
    (folder / "small.yaml").write_text(BASE + "arms: [fre]\n")
    with pytest.raises(ConfigError) as caught:
        sweep(folder, matrix={"engine.max_num_seqs": [8, 16, 32]})
    [problem] = caught.value.problems
    assert (problem.file, problem.line, problem.key) == (Path("small.yaml"), 4, "arms[0]")


def test_a_fault_that_only_one_combination_has_is_told_at_one_of_its_values(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        sweep(folder, matrix={"engine.max_num_seqs": [8], "engine.prefill": [{"policy": "off"}, {"policy": "fixed"}]})
    assert [(each.file, each.key) for each in caught.value.problems] == [
        (Path("mine.yaml"), "matrix.engine.prefill[1]")
    ]


def test_an_override_of_the_command_line_keeps_its_place(folder: Path) -> None:
    (folder / "mine.yaml").write_text("base: ./small.yaml\nmatrix: {engine.max_num_seqs: [8]}\n")
    with pytest.raises(ConfigError, match=r"^--set model\.dtyp"):
        load_sweep("mine.yaml", overrides=["model.dtyp=float32"])
