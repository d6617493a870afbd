"""What another server's environment needs, found without installing anything."""

import sys
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
sys.path.insert(0, str(REQUIREMENTS))

import other_server  # noqa: E402 - it lies beside the lists, in no package
from pip_run import SetupError  # noqa: E402 - as above


def installed(folder: Path, name: str, version: str, *asks: str) -> str:
    """A distribution's metadata, as an installer leaves it. Gives the folder."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in asks)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    return str(folder)


def test_an_extra_is_asked_for_beside_what_is_always_needed() -> None:
    lines = ["numpy>=1", "Web_Kit>=2; extra == 'server'", "pictures; extra == 'images'", "numpy<9; extra == 'server'"]
    assert other_server.wanted(lines, extra="server") == ["numpy<9,>=1", "web-kit>=2"]


def test_what_is_missing_or_too_old_is_named_to_the_bottom(tmp_path: Path) -> None:
    path = [installed(tmp_path, "web-kit", "2.1", "sockets>=3")]
    installed(tmp_path, "numpy", "0.9")
    asked = ["numpy>=1", "web-kit>=2"]
    assert other_server.not_there(asked, path=path) == ["numpy>=1", "sockets>=3"]
    installed(tmp_path, "sockets", "3.0")
    assert other_server.not_there(asked, path=path) == ["numpy>=1"]
    assert other_server.not_there(["web-kit>=2"], path=path) == []


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(SetupError, match="is there and is no environment"):
        other_server.make(folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(SetupError, match="an environment that this did not make"):
        other_server.make(folder=tmp_path / "venv")
