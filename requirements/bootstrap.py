"""Sets assay up: a virtual environment in .venv with exactly what the lists beside this file name.

Run by `make setup` under whatever `python3` the machine has, so it uses the standard library only and its syntax stays
readable to an old Python, which it then refuses in plain words. A second run finds its own stamp and does nothing.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Optional, Sequence  # noqa: UP035 - an old Python must get as far as the message

from pip_run import Log, SetupError, run_pip

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "requirements"
VENV = ROOT / ".venv"
STAMP = VENV / "assay-setup.json"
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
"""What vLLM and Prefect both take; the first is preferred, since the lists hold a hash of torch's CPU build for it."""
HASHED_TORCH = ((3, 11), "x86_64")
"""The interpreter and machine whose CPU build of torch has its hash in cpu.txt."""
NEEDED_BYTES = {"cpu": 5 << 30, "cuda": 14 << 30}
"""Room for the environment and for pip's downloads beside it."""


class Block(NamedTuple):
    """One requirement of a list: the name, the line that pins it, and its whole text with the hashes."""

    name: str
    pin: str
    text: str


def blocks(text: str) -> Iterator[Block]:
    """The requirements of a pinned list, in its order. A requirement goes on while lines end in a backslash."""
    held: list[str] = []
    for line in text.splitlines():
        if not held and (not line.strip() or line.startswith("#")):
            continue
        held.append(line)
        if not line.endswith("\\"):
            pin = held[0].rstrip("\\").strip()
            yield Block(re.split(r"[=<>!~;\[ ]", pin, maxsplit=1)[0], pin, "\n".join(held) + "\n")
            held = []


def split_torch(text: str) -> tuple[str, str, str]:
    """(torch's requirements, all others, torch's exact CPU version) of cpu.txt's text."""
    every = list(blocks(text))
    torch = [block for block in every if block.name == "torch"]
    version = next(match[1] for block in torch if (match := re.search(r"==([\w.]+\+cpu)", block.pin)))
    return (
        "".join(block.text for block in torch),
        "".join(block.text for block in every if block.name != "torch"),
        version,
    )


def digest(device: str, *, dev: bool) -> str:
    """What an up-to-date environment rests on: the lists, the project's own metadata, and where the checkout lies."""
    files = [LISTS / f"{device}.txt", LISTS / "assay.in", LISTS / "pip.txt", ROOT / "pyproject.toml"]
    files += [LISTS / "dev.txt"] if dev else []
    sha = hashlib.sha256(str(ROOT).encode())
    for file in files:
        sha.update(b"\0" + file.name.encode() + b"\0" + file.read_bytes())
    return sha.hexdigest()


def read_stamp() -> dict[str, object]:
    """What the last complete set-up left; empty where there was none."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def up_to_date(stamp: dict[str, object], *, device: str, dev: bool) -> bool:
    """Whether the environment holds everything asked for. One with the development tools also serves without them."""
    if not stamp or stamp.get("device") != device or not venv_python().exists():
        return False
    has_dev = stamp.get("dev") is True
    return (has_dev or not dev) and stamp.get("digest") == digest(device, dev=has_dev)


def venv_python() -> Path:
    return VENV / "bin" / "python"


def gpu_answers() -> bool:
    """Whether NVIDIA's driver is there and lists a GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    try:
        asked = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0 and "GPU" in asked.stdout


def choose_device(wanted: str, stamp: dict[str, object]) -> str:
    """cpu or cuda. What was asked for by name stays; so does a GPU, without asking again: nvidia-smi takes seconds."""
    if wanted != "auto":
        return wanted
    if stamp.get("device") == "cuda" or stamp.get("named") is True:
        return str(stamp["device"])
    return "cuda" if gpu_answers() else "cpu"


def check_platform(device: str, *, system: str, machine: str) -> None:
    """Raises SetupError where no build of vLLM exists."""
    fits = system == "Linux" and machine in {"x86_64", "aarch64"}
    if not fits:
        raise SetupError(
            f"vLLM has no {device} build for {system} on {machine}: there are only Linux ones (x86_64, aarch64).",
            "Run it in a Linux container or virtual machine, under WSL 2 on Windows, or on a Linux machine.",
        )


def check_disk(device: str, *, free: int) -> None:
    """Raises SetupError where the environment would not fit."""
    needed = NEEDED_BYTES[device]
    if free < needed:
        raise SetupError(
            f"Not enough room for {VENV}: {free / 2**30:.1f} GB free, about {needed / 2**30:.0f} GB needed.",
            "Free some space, or clone the project onto a larger disk.",
        )


def version_of(python: str) -> Optional[tuple[int, int]]:  # noqa: UP045 - as above
    """(major, minor) of an interpreter, None where it does not run."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        major, minor = asked.stdout.split()
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return int(major), int(minor)


def choose_python(candidates: Sequence[str]) -> tuple[str, tuple[int, int]]:
    """The first interpreter that assay runs on. Raises SetupError, naming what was found, where there is none."""
    found = []
    for candidate in candidates:
        path = shutil.which(candidate)
        version = version_of(path) if path else None
        if path and version in PYTHONS:
            return path, version
        if version:
            found.append(f"{candidate} is {version[0]}.{version[1]}")
    raise SetupError(
        f"assay needs Python 3.11 to 3.14; {', '.join(found) if found else 'no Python was found'}.",
        "Install one (on Debian and Ubuntu: apt-get install python3.11 python3.11-venv) and run this again, "
        "or name one: make setup PYTHON=/path/to/python3.11",
    )


def make_venv(python: str, version: tuple[int, int], log: Log) -> None:
    """A new .venv. Raises SetupError where Python's venv module is missing."""
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run([python, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(
            f"{python} could not make a virtual environment: {(made.stderr or made.stdout).strip()[-400:]}",
            "On Debian and Ubuntu the part that is missing is a package of its own: "
            f"apt-get install python{version[0]}.{version[1]}-venv (or python3-venv)",
        )
    log.say(f"made {VENV.name} with Python {version[0]}.{version[1]}")


def torch_arguments(text: str, *, version: tuple[int, int], machine: str, listed: Path) -> list[str]:
    """pip's arguments for torch's CPU build: the list's own lines (written to `listed`) where the list has the hash of
    this Python's and machine's wheel, else the exact version alone."""
    torch, _, exact = split_torch(text)
    if (version, machine) != HASHED_TORCH:
        return [f"torch=={exact}"]
    listed.write_text(torch, encoding="utf-8")
    return ["--require-hashes", "-r", str(listed)]


def install_torch(version: tuple[int, int], log: Log) -> Path:
    """torch's CPU build, before all else: it is what most often cannot be found. Returns the list of the others."""
    text = (LISTS / "cpu.txt").read_text(encoding="utf-8")
    _, others, exact = split_torch(text)
    rest = VENV / "cpu-without-torch.txt"
    rest.write_text(others, encoding="utf-8")
    arguments = torch_arguments(text, version=version, machine=platform.machine(), listed=VENV / "torch.txt")
    if "--require-hashes" not in arguments:
        log.say(
            f"NOTE: cpu.txt has no hash of torch {exact} for Python {version[0]}.{version[1]}, {platform.machine()}.\n"
            "      It is taken by its exact version, unverified. Python 3.11 on x86_64 takes the verified one."
        )
    index = os.environ.get("TORCH_INDEX", "").strip()
    source = ["--extra-index-url", index] if index else []
    run_pip(venv_python(), [*source, *arguments], label=f"torch {exact}", log=log)
    return rest


def drop_unlisted(before: object, now: set[str], log: Log) -> None:
    """Uninstalls what an earlier set-up installed and no list names any more."""
    gone = sorted(set(before) - now) if isinstance(before, list) else []
    if gone:
        log.say("removing what is no longer needed: " + ", ".join(gone))
        subprocess.run(
            [str(venv_python()), "-m", "pip", "uninstall", "-y", *gone], stdout=subprocess.DEVNULL, check=True
        )


def compile_all(log: Log) -> None:
    """Byte-compiles what was installed, on all cores: pip would do it on one and take most of its time for it.

    Nothing depends on the exit status: some packages carry templates that are no valid Python.
    """
    started = time.monotonic()
    log.progress("  compiling")
    command = [str(venv_python()), "-m", "compileall", "-q", "-j", "0", "-x", r"/tests?/", str(VENV / "lib")]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    log.say(f"  {time.monotonic() - started:4.0f} s  compiled")


def install(device: str, *, dev: bool, named: bool, python: str, stamp: dict[str, object]) -> None:
    """Brings .venv to what the lists say and leaves the stamp. Raises SetupError."""
    started = time.monotonic()
    check_platform(device, system=platform.system(), machine=platform.machine())
    log = Log(VENV / "setup.log")
    current = version_of(str(venv_python())) if venv_python().exists() else None
    moved = stamp.get("root", str(ROOT)) != str(ROOT)
    if current not in PYTHONS or moved or stamp.get("device", device) != device:
        check_disk(device, free=shutil.disk_usage(ROOT).free)
        path, current = choose_python([python, *(f"python{major}.{minor}" for major, minor in PYTHONS)])
        stamp = {}
        make_venv(path, current, log)
    STAMP.unlink(missing_ok=True)
    texts = [(LISTS / f"{device}.txt").read_text(encoding="utf-8")]
    texts += [(LISTS / "dev.txt").read_text(encoding="utf-8")] if dev else []
    names = {block.name for text in texts for block in blocks(text)}
    drop_unlisted(stamp.get("names"), names, log)
    run_pip(venv_python(), ["--upgrade", "--require-hashes", "-r", str(LISTS / "pip.txt")], label="pip", log=log)
    listed = install_torch(current, log) if device == "cpu" else LISTS / "cuda.txt"
    for label, file in (("everything else", listed), *((("development tools", LISTS / "dev.txt"),) if dev else ())):
        count = sum(1 for _ in blocks(file.read_text(encoding="utf-8")))
        run_pip(venv_python(), ["--require-hashes", "-r", str(file)], label=label, log=log, count=count)
    run_pip(venv_python(), ["--no-build-isolation", "-e", str(ROOT)], label="assay", log=log)
    compile_all(log)
    written = {
        "digest": digest(device, dev=dev),
        "device": device,
        "dev": dev,
        "named": named,
        "root": str(ROOT),
        "names": sorted(names),
    }
    temporary = STAMP.with_suffix(".tmp")
    temporary.write_text(json.dumps(written), encoding="utf-8")
    temporary.replace(STAMP)
    log.say(f"set up in {time.monotonic() - started:.0f} s ({device}, {len(names)} packages in {VENV.name})")


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs what assay needs into .venv.")
    parser.add_argument("--dev", action="store_true", help="the tools for tests and lint too")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that .venv is made with")
    chosen = parser.parse_args()
    try:
        with (LISTS / "pip.txt").open() as held:
            stamp = read_stamp()
            device = choose_device(chosen.device, stamp)
            if up_to_date(stamp, device=device, dev=chosen.dev):
                return 0
            fcntl.flock(held, fcntl.LOCK_EX)  # two set-ups at once would write into each other's environment
            stamp = read_stamp()
            dev = chosen.dev or stamp.get("dev") is True
            if not up_to_date(stamp, device=device, dev=dev):
                named = chosen.device != "auto" or stamp.get("named") is True
                install(device, dev=dev, named=named, python=chosen.python, stamp=stamp)
    except SetupError as error:
        sys.stderr.write(f"\nassay is not set up.\n  {error.message}\n  What to do: {error.cure}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; run it again to go on (downloads are kept by pip)\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
