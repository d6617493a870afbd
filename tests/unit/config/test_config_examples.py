"""Every example in tests/configs: the valid ones load, the invalid ones are refused with the message beside them."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.config.resolve import load_experiment

CONFIGS = Path(__file__).parents[2] / "configs"
VALID = sorted(path.name for path in (CONFIGS / "valid").glob("*.yaml"))
INVALID = sorted(path.name for path in (CONFIGS / "invalid").glob("*.yaml"))
INVALID_BY_DATA = sorted(path.parent.name for path in (CONFIGS / "invalid").glob("*/experiment.yaml"))


@pytest.mark.parametrize("name", VALID)
def test_a_valid_example_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIGS / "valid")
    experiment = load_experiment(name)
    assert all(Path(dataset.config.source.path).is_file() for dataset in experiment.datasets)


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_example_is_refused_with_its_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIGS / "invalid")
    expected = Path(name).with_suffix(".expected.txt").read_text(encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_experiment(name)
    assert f"{caught.value}\n" == expected
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("case", INVALID_BY_DATA)
def test_an_example_whose_data_is_at_fault_has_a_config_in_order(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIGS / "invalid" / case)
    experiment = load_experiment("experiment.yaml")
    assert experiment.name == case
    assert [dataset.name for dataset in experiment.datasets] == ["questions"]


def test_every_expected_message_has_its_example() -> None:
    messages = {path.name.removesuffix(".expected.txt") for path in (CONFIGS / "invalid").glob("*.expected.txt")}
    assert messages == {Path(name).stem for name in INVALID}
