"""`--set key=value`."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from schemas.experiment import Experiment
from tasks.config.overrides import apply_overrides
from tasks.config.resolve import load_experiment

VALID = Path(__file__).parents[2] / "configs" / "valid"


def load(name: str, *overrides: str) -> Experiment:
    return load_experiment(VALID / name, overrides=overrides)


def refusal(name: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(name, *overrides)
    return str(caught.value)


def test_nested_keys_are_set_with_dots() -> None:
    experiment = load(
        "full.yaml", "engine.prefill.policy=off", "engine.prefill.threshold=null", "sampling.max_tokens=20"
    )
    assert experiment.engine.prefill.policy == "off"
    assert experiment.datasets[0].sampling.temperature == 0.7
    assert experiment.tags["team"] == "search"


def test_blocks_that_the_file_lacks_are_opened() -> None:
    experiment = load(
        "minimal.yaml", "engine.max_num_seqs=3", "engine.memory.gpu_share=0.5", "tags.team=off", "sampling.top_k=5"
    )
    assert experiment.engine.max_num_seqs == 3
    assert experiment.engine.memory.gpu_share == 0.5
    assert experiment.tags == {"team": "off"}
    assert experiment.datasets[0].sampling.top_k == 5


def test_a_word_that_is_short_for_a_block_becomes_it() -> None:
    data = {"engine": "mine", "datasets": ["a"]}
    assert apply_overrides(data, ["engine.compile=none", "datasets.a.limit=1"]).data == {
        "engine": {"extends": "mine", "compile": "none"},
        "datasets": [{"use": "a", "limit": 1}],
    }
    assert data == {"engine": "mine", "datasets": ["a"]}


def test_lists_are_set_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(VALID)
    experiment = load("full.yaml", "arms=[guided]", "datasets=[parts/facts.yaml]", "datasets.facts.max_tokens=7")
    assert experiment.arms == ["guided"]
    assert [(each.name, each.sampling.max_tokens) for each in experiment.datasets] == [("facts", 7)]


def test_a_dataset_is_addressed_by_its_name() -> None:
    experiment = load("full.yaml", "datasets.facts.limit=4", "datasets.sums.limit=2")
    assert [dataset.config.limit for dataset in experiment.datasets] == [2, 4]


def test_a_named_model_is_changed_too() -> None:
    assert load("minimal.yaml", "model.dtype=float32").model.config.dtype == "float32"
    assert load("minimal.yaml", "model.dtype=float32").model.name == "smollm2-135m-instruct"
    assert load("inline-model.yaml", "model.dtype=bfloat16").model.config.dtype == "bfloat16"
    assert load("hub-model.yaml", "model.dtype=float16").model.config.dtype == "float16"


def test_paths_on_the_command_line_start_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.yaml").write_text("max_num_seqs: 9\n", encoding="utf-8")
    assert load("minimal.yaml", "engine=./e.yaml").engine.max_num_seqs == 9
    assert load("minimal.yaml", "engine.extends=./e.yaml").engine.max_num_seqs == 9


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("engin.compile=none", "--set engin.compile: is not a known key (did you mean `engine`?)"),
        ("engine.prefil.policy=off", "--set engine.prefil: is not a known key (did you mean `prefill`?)"),
        ("max_tokens=5", "--set max_tokens: is not a known key (did you mean `sampling.max_tokens`?)"),
        (
            "sampling.max_tokens=many",
            "--set sampling.max_tokens: must be a whole number (at least 1), not the text `many`",
        ),
        (
            "datasets.facs.limit=4",
            "--set datasets.facs.limit: this experiment has no dataset `facs` (did you mean `facts`?)",
        ),
        ("datasets.facts.limt=4", "--set datasets[1].limt: is not a known key (did you mean `limit`?)"),
        (
            "datasets.facts=4",
            "--set datasets.facts: must go on to a key of that dataset (as in datasets.facts.limit=4)",
        ),
        ("model.dtyp=float32", "--set model.dtyp: is not a known key (did you mean `dtype`?)"),
        ("engine.trust_remote_code=true", "--set engine.trust_remote_code: is refused: nothing in a config runs code"),
        ("name.x=1", "--set name.x: `name` is a single value and has no keys"),
        ("arms.0=free", "--set arms.0: a list is set as a whole"),
        (
            "arms=[free",
            "--set arms: '[free' is not a YAML value: not valid YAML while parsing a flow sequence: "
            "expected ',' or ']', but got '<stream end>' (begun in line 1)",
        ),
        ("arms", "--set arms: must be written key=value, with dots between nested keys"),
        ("a..b=1", "--set a..b=1: must be written key=value, with dots between nested keys"),
    ],
)
def test_a_wrong_override_is_refused(override: str, message: str) -> None:
    assert refusal("full.yaml", override) == message


def test_all_wrong_overrides_are_told() -> None:
    assert len(refusal("full.yaml", "nam=x", "=1", "tagss.a=b").splitlines()) == 3


def test_an_override_cures_a_fault_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text((VALID / "hub-model.yaml").read_text(encoding="utf-8") + "max_failed: 7\n", encoding="utf-8")
    data = f"datasets=[{VALID / 'parts/sums.yaml'}]"
    with pytest.raises(ConfigError, match="max_failed"):
        load_experiment(path, overrides=[data])
    assert load_experiment(path, overrides=[data, "max_failed=0.5"]).max_failed == 0.5
