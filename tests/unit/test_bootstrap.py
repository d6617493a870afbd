"""The set-up's decisions and its words when something cannot be installed. Nothing is installed here."""

import sys
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
sys.path.insert(0, str(REQUIREMENTS))

import bootstrap  # noqa: E402 - it lies beside the lists, in no package
import pip_run  # noqa: E402 - as above


def test_torch_is_split_off_and_nothing_is_lost() -> None:
    text = (REQUIREMENTS / "cpu.txt").read_text(encoding="utf-8")
    torch, others, version = bootstrap.split_torch(text)
    assert version.endswith("+cpu")
    assert f"torch=={version}" in torch
    assert {block.name for block in bootstrap.blocks(torch)} == {"torch"}
    assert "torch" not in {block.name for block in bootstrap.blocks(others)}
    assert sorted(torch.splitlines() + others.splitlines()) == sorted(text.splitlines())


def test_torch_without_a_hash_is_exact(tmp_path: Path) -> None:
    text = (REQUIREMENTS / "cpu.txt").read_text(encoding="utf-8")
    listed = tmp_path / "torch.txt"
    for version, machine in (((3, 12), "x86_64"), ((3, 11), "aarch64")):
        [only] = bootstrap.torch_arguments(text, version=version, machine=machine, listed=listed)
        assert only.startswith("torch==")
        assert only.endswith("+cpu")
        assert not listed.exists()
    hashed = bootstrap.torch_arguments(text, version=(3, 11), machine="x86_64", listed=listed)
    assert hashed[0] == "--require-hashes"
    assert "--hash=sha256:" in listed.read_text(encoding="utf-8")


def test_device_stays_what_it_was() -> None:
    assert bootstrap.choose_device("cpu", {"device": "cuda"}) == "cpu"
    assert bootstrap.choose_device("auto", {"device": "cuda"}) == "cuda"
    assert bootstrap.choose_device("auto", {"device": "cpu", "named": True}) == "cpu"


def test_blocks_keep_their_hashes() -> None:
    [first, second] = bootstrap.blocks("# a word\na==1 \\\n    --hash=x \\\n    --hash=y\n\nb[c]==2 ; m == 'n'\n")
    assert (first.name, first.text.count("--hash")) == ("a", 2)
    assert (second.name, second.pin) == ("b", "b[c]==2 ; m == 'n'")


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "riscv64")])
def test_platforms_without_a_build(system: str, machine: str) -> None:
    with pytest.raises(pip_run.SetupError, match="only Linux"):
        bootstrap.check_platform("cpu", system=system, machine=machine)


def test_disk() -> None:
    bootstrap.check_disk("cpu", free=8 << 30)
    with pytest.raises(pip_run.SetupError, match="Not enough room"):
        bootstrap.check_disk("cpu", free=1 << 30)
    with pytest.raises(pip_run.SetupError):
        bootstrap.check_disk("cuda", free=8 << 30)


def test_an_old_python_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\necho 3 9\n")
    old.chmod(0o755)
    path, version = bootstrap.choose_python([str(old), sys.executable])
    assert (path, version) == (sys.executable, sys.version_info[:2])
    with pytest.raises(pip_run.SetupError, match=r"is 3\.9"):
        bootstrap.choose_python([str(old), str(tmp_path / "none")])


def test_stamp() -> None:
    good = {"device": "cpu", "dev": True, "digest": bootstrap.digest("cpu", dev=True)}
    if not bootstrap.venv_python().exists():
        pytest.skip("no .venv in this checkout")
    assert bootstrap.up_to_date(good, device="cpu", dev=True)
    assert bootstrap.up_to_date(good, device="cpu", dev=False)
    assert not bootstrap.up_to_date(good, device="cuda", dev=False)
    assert not bootstrap.up_to_date(good | {"digest": "0"}, device="cpu", dev=False)
    without = {"device": "cpu", "dev": False, "digest": bootstrap.digest("cpu", dev=False)}
    assert not bootstrap.up_to_date(without, device="cpu", dev=True)
    assert not bootstrap.up_to_date({}, device="cpu", dev=False)


@pytest.mark.parametrize(
    ("output", "label", "message", "cure"),
    [
        (
            "ERROR: No matching distribution found for torch==1+cpu",
            "torch 1+cpu",
            "CPU build of PyTorch",
            "TORCH_INDEX",
        ),
        (
            "NewConnectionError(...)\nERROR: No matching distribution found for a==1",
            "rest",
            "does not answer",
            "network",
        ),
        ("ERROR: No matching distribution found for a==1", "rest", "a==1 is not where pip looks", "pip config"),
        ("DO NOT MATCH THE HASHES\n    torch==1 from file:x:\n", "torch 1", "its hash differs", "TORCH_INDEX"),
        ("OSError: [Errno 28] No space left on device", "rest", "ran full", "space"),
        ("something new\n\n", "rest", "something new", "log"),
    ],
)
def test_failures_in_plain_words(output: str, label: str, message: str, cure: str) -> None:
    error = pip_run.explain(output, label=label, log_path=Path("setup.log"))
    assert message in error.message
    assert "setup.log" in error.message
    assert cure in error.cure


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Collecting apache-tvm-ffi==0.1.15", "3 of 9 apache-tvm-ffi 0.1.15"),
        ("Processing /some/where/numpy-2.1.0-cp311-none-any.whl", "3 of 9 numpy 2.1.0"),
        ("  Downloading duckdb-2.0.1-cp311-x.whl (20.1 MB)", "3 of 9 downloading duckdb 2.0.1 (20.1 MB)"),
        ("Installing collected packages: a, b", "unpacking"),
        ("  Using cached x", None),
    ],
)
def test_progress(line: str, words: str | None) -> None:
    assert pip_run.doing(line, 3, 9) == words
