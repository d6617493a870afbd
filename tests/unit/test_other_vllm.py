"""What another vLLM's environment still needs, found without installing anything."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
sys.path.insert(0, str(REQUIREMENTS))

import other_vllm  # noqa: E402 - it lies beside the lists, in no package
from pip_run import SetupError  # noqa: E402 - as above


def installed(folder: Path, name: str, version: str, *asks: str) -> str:
    """A distribution's metadata, as an installer leaves it. Gives the folder."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in asks)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    return str(folder)


def names(roots: list[str], path: list[str], without: tuple[str, ...] = ()) -> dict[str, str]:
    return {name: str(each) for name, each in other_vllm.lacking(roots, path=path, without=without).items()}


def test_what_is_missing_or_of_another_version_is_named_to_the_bottom(tmp_path: Path) -> None:
    new, own = tmp_path / "new", tmp_path / "own"
    installed(new, "engine", "1.0", "Tensors==2.0", "words>=3", "absent", "windows-only; sys_platform == 'win32'")
    installed(own, "engine", "2.0", "nothing-of-this")
    installed(own, "tensors", "2.1")
    installed(own, "words", "3.1", "letters<2")
    installed(own, "letters", "2.0")
    path = [str(new), str(own)]
    assert names(["engine"], path) == {"absent": "", "letters": "<2", "tensors": "==2.0"}
    installed(new, "tensors", "2.0", "letters>=1")
    assert names(["engine"], path) == {"absent": "", "letters": "<2,>=1"}, "both who ask for it are heard"
    assert names(["engine"], path, ("absent", "letters")) == {}


def test_an_extra_brings_what_it_asks_for_and_no_more(tmp_path: Path) -> None:
    path = [installed(tmp_path, "engine", "1.0", "server[tls]")]
    installed(tmp_path, "server", "1.0", "base", "keys>=2; extra == 'tls'", "pictures; extra == 'images'")
    assert names(["engine"], path) == {"base": "", "keys": ">=2"}


def test_a_prerelease_that_is_there_will_do(tmp_path: Path) -> None:
    path = [installed(tmp_path, "engine", "1.0", "ffi>=0.1.10")]
    installed(tmp_path, "ffi", "0.1.15.post2")
    installed(tmp_path, "next", "2.0rc1")
    installed(tmp_path, "user", "1.0", "next>=1.9")
    assert names(["engine", "user"], path) == {}


def test_this_environment_lacks_only_what_it_does_without() -> None:
    build = other_vllm.build_here()
    found = names([build, *other_vllm.OF_THE_WORKER], list(sys.path))
    assert {"torchvision", "torchaudio"} <= set(found)
    assert not {"torch", "transformers", "xgrammar", "msgspec", "pyzmq"} & set(found)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(SetupError, match="is there and is no environment"):
        other_vllm.make(version="0.31.0", folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(SetupError, match="an environment that this did not make"):
        other_vllm.make(version="0.31.0", folder=tmp_path / "venv")


def test_one_folder_has_one_release(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    site = other_vllm.packages(folder)
    installed(site, other_vllm.build_here(), "0.1.0")
    (site / other_vllm.OTHERS).touch()
    (folder / "bin").mkdir()
    (folder / "bin" / "python").touch()
    with pytest.raises(SetupError, match=r"has vllm\S* 0\.1\.0 already"):
        other_vllm.make(version="0.31.0", folder=folder)
    assert metadata.version(other_vllm.build_here()) != "0.1.0"
