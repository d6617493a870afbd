"""The resolved file, its hash, the JSON Schema."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from tasks.config.document import plain
from tasks.config.resolve import config_hash, experiment_json_schema, load_experiment, to_yaml
from tasks.config.yaml_file import read_yaml

CONFIGS = Path(__file__).parents[2] / "configs"
VALID = CONFIGS / "valid"
EXAMPLES = sorted(path.name for path in VALID.glob("*.yaml"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_resolved_file_reads_back_as_what_it_was_made_of(name: str, tmp_path: Path) -> None:
    experiment = load_experiment(VALID / name)
    out = tmp_path / "resolved.yaml"
    out.write_text(to_yaml(experiment), encoding="utf-8")
    assert read_yaml(out).data == plain(experiment)


@pytest.mark.parametrize(
    "text", ["a\nb", "a\n", "a\n\n", "\n a", " a\nb ", "a\tb\nc", "é\n— ü", "x: y # z\n- q", "\x00\n", "off", "1", ""]
)
def test_any_text_survives_the_resolved_file(text: str, tmp_path: Path) -> None:
    experiment = load_experiment(VALID / "minimal.yaml").model_copy(update={"description": text})
    out = tmp_path / "resolved.yaml"
    out.write_text(to_yaml(experiment), encoding="utf-8", newline="")
    assert read_yaml(out).data["description"] == text


def test_the_resolved_file_has_the_keys_that_a_user_writes() -> None:
    text = to_yaml(load_experiment(VALID / "guided-only.yaml"))
    assert "schema: " in text
    assert "schema_:" not in text
    assert "id_field: null" in text


def test_the_hash_is_of_what_is_meant_not_of_how_it_is_written(tmp_path: Path) -> None:
    text = "sampling: {temperature: 0.0}\ndatasets:\n  - use: {0}\nmodel: 'smollm2-135m-instruct'\nname: minimal\n"
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("{0}", str(VALID / "parts/sums.yaml")), encoding="utf-8")
    first = load_experiment(VALID / "minimal.yaml")
    assert config_hash(load_experiment(other)) == config_hash(first)
    assert config_hash(load_experiment(other, limit=1)) != config_hash(first)
    assert config_hash(load_experiment(other, overrides=["sampling.seed=1"])) != config_hash(first)


def test_the_hash_is_the_same_in_another_process() -> None:
    path = VALID / "full.yaml"
    code = f"from tasks.config.resolve import *; print(config_hash(load_experiment({str(path)!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CONFIGS.parents[1]
    )
    assert done.stdout.strip() == config_hash(load_experiment(path))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_json_schema_takes_every_valid_example(name: str) -> None:
    validator = jsonschema_rs.Draft202012Validator(experiment_json_schema())
    assert [str(error) for error in validator.iter_errors(read_yaml(VALID / name).data)] == []


@pytest.mark.parametrize(
    "name", ["unknown-key-top", "unknown-key-engine-nested", "bad-enum-short-form", "wrong-type-list", "out-of-range"]
)
def test_the_json_schema_refuses_what_is_wrong_by_itself(name: str) -> None:
    validator = jsonschema_rs.Draft202012Validator(experiment_json_schema())
    assert not validator.is_valid(read_yaml(CONFIGS / "invalid" / f"{name}.yaml").data)


def test_the_json_schema_describes_its_keys() -> None:
    schema = experiment_json_schema()
    engine = schema["$defs"]["Engine"]["properties"]
    assert "extends" in engine
    assert engine["max_num_seqs"]["description"] == "Requests that run at once."
    assert schema["properties"]["max_failed"]["description"]
    json.dumps(schema)
