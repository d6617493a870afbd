"""Every example in tests/configs/sweeps: the valid ones load, the invalid ones are refused with the message beside
them."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.cells.expand import load_sweep

SWEEPS = Path(__file__).parents[2] / "configs" / "sweeps"
VALID = sorted(path.name for path in (SWEEPS / "valid").glob("*.yaml"))
INVALID = sorted(path.name for path in (SWEEPS / "invalid").glob("*.yaml"))


@pytest.mark.parametrize("name", VALID)
def test_a_valid_example_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SWEEPS / "valid")
    found = load_sweep(name)
    assert found.cells and found.path == Path(name)
    assert found.name == (found.file.name or Path(name).stem)


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_example_is_refused_with_its_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SWEEPS / "invalid")
    with pytest.raises(ConfigError) as caught:
        load_sweep(name)
    assert f"{caught.value}\n" == Path(name).with_suffix(".expected.txt").read_text(encoding="utf-8")
    assert caught.value.exit_code == 2


def test_every_expected_message_has_its_example() -> None:
    messages = {path.name.removesuffix(".expected.txt") for path in (SWEEPS / "invalid").glob("*.expected.txt")}
    assert messages == {Path(name).stem for name in INVALID}


@pytest.mark.parametrize(("name", "cells"), [("engine-matrix", 4), ("grammar-backends", 2)])
def test_the_sweeps_that_come_with_assay_load(name: str, cells: int) -> None:
    found = load_sweep(name)
    assert (found.name, len(found.cells), found.file.limit) == (name, cells, 20)
