"""An environment with another server than vLLM's, llama.cpp's, for `engine.kind: endpoint`:

    .venv/bin/python requirements/other_server.py [FOLDER]

Run by .venv's own interpreter. The new environment holds llama-cpp-python, which is compiled here from its source (ten
minutes or more on two cores), and what its server wants and .venv does not have; all else it takes from .venv.
CMAKE_ARGS and CMAKE_BUILD_PARALLEL_LEVEL are heeded where they are set.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from other_vllm import OTHERS, ROOT, imported, lacking, made, packages
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pip_run import Log, SetupError, run_pip

SERVER = "llama-cpp-python"
VERSION = "0.3.36"
EXTRA = "server"
FOLDER = ROOT / ".cache" / SERVER
CMAKE_ARGS = "-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_CURL=OFF"
"""It is to answer text alone: what reads pictures would be a third of the compiling."""
ROUNDS = 4


def wanted(requires: list[str], *, extra: str) -> list[str]:
    """What these lines of a distribution's metadata ask for without an extra and with this one, as requirements."""
    found: dict[str, SpecifierSet] = {}
    for line in requires:
        each = Requirement(line)
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            name = canonicalize_name(each.name)
            found[name] = found.get(name, SpecifierSet()) & each.specifier
    return [f"{name}{specifier}" for name, specifier in sorted(found.items())]


def not_there(asked: list[str], *, path: list[str]) -> list[str]:
    """Those of these requirements, and of all that they ask for in turn, that `path` does not have."""
    missing = {}
    for each in map(Requirement, asked):
        there = next(iter(metadata.distributions(name=each.name, path=path)), None)
        if there is None or not each.specifier.contains(there.version, prereleases=True):
            missing[canonicalize_name(each.name)] = each.specifier
    below = lacking([Requirement(each).name for each in asked], path=path)
    for name, specifier in below.items():
        missing[name] = missing.get(name, SpecifierSet()) & specifier
    return [f"{name}{specifier}" for name, specifier in sorted(missing.items())]


def make(*, folder: Path) -> Path:
    """Makes or completes it, and has it import its server; gives its interpreter. Raises SetupError."""
    python, site = folder / "bin" / "python", packages(folder)
    if not python.exists():
        if folder.exists() and any(folder.iterdir()):
            raise SetupError(f"{folder} is there and is no environment.", "Name another FOLDER.")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    elif not (site / OTHERS).exists():
        raise SetupError(f"{folder} is an environment that this did not make.", "Name another FOLDER.")
    own = str(packages(Path(sys.prefix)))
    (site / OTHERS).write_text(f"{own}\n", encoding="utf-8")
    log = Log(folder / "setup.log")
    if not any(metadata.distributions(name=SERVER, path=[str(site)])):
        os.environ.setdefault("CMAKE_ARGS", CMAKE_ARGS)
        os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        log.say(f"{SERVER} {VERSION} is compiled: that takes many minutes")
        run_pip(python, ["--ignore-installed", f"{SERVER}=={VERSION}"], label=f"{SERVER} {VERSION}", log=log)
    built = next(iter(metadata.distributions(name=SERVER, path=[str(site)])))
    asked = wanted(list(built.requires or []), extra=EXTRA)
    for _ in range(ROUNDS):
        more = not_there(asked, path=[str(site), own])
        if not more:
            break
        run_pip(python, ["--ignore-installed", *more], label=", ".join(more), log=log)
    else:
        raise SetupError(f"After {ROUNDS} rounds it still lacks {', '.join(more)}.", f"See {log.path}.")
    _try(python, log)
    return python


def _try(python: Path, log: Log) -> None:
    """Imports the server. Raises SetupError with the last line where it cannot."""
    code = "import llama_cpp, llama_cpp.server.app; print(llama_cpp.__version__)"
    log.say(f"{SERVER} {imported(python, code, what='server', cure=f'See {log.path}.')} can be imported")


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes an environment with llama.cpp's server.")
    parser.add_argument("folder", nargs="?", help=f"{FOLDER.relative_to(ROOT)} without it")
    given = parser.parse_args()
    return made(
        lambda: make(folder=Path(given.folder or FOLDER).absolute()),
        told=lambda python: f"a server of a GGUF file:\n{python} -m llama_cpp.server --model MODEL.gguf --port 8080",
    )


if __name__ == "__main__":
    sys.exit(main())
