"""Runs pip with its progress on one line, its whole output in a log, and its failures in plain words."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Optional, Sequence  # noqa: UP035 - an old Python must get as far as bootstrap's message

QUIET_S = 15
"""How often a line is printed where the output is no terminal."""


class SetupError(Exception):
    """What could not be installed, and what a user can do about it."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure


class Log:
    """The set-up's own lines on the screen, and pip's on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tty = sys.stdout.isatty()

    def say(self, line: str) -> None:
        """One finished line, in place of the progress line."""
        sys.stdout.write(f"\r\x1b[K{line}\n" if self.tty else f"{line}\n")
        sys.stdout.flush()

    def progress(self, line: str) -> None:
        """The line that changes, on a terminal; a line of its own elsewhere."""
        sys.stdout.write(f"\r\x1b[K{line[:100]}" if self.tty else f"{line}\n")
        sys.stdout.flush()


def _short(name: str) -> str:
    """A wheel's path or a pinned name as `name version`."""
    package, *rest = re.split(r"==|-(?=\d)", name.rsplit("/", 1)[-1], maxsplit=1)
    return " ".join([package, *(part.partition("-")[0] for part in rest)])


def doing(line: str, seen: int, count: Optional[int]) -> Optional[str]:  # noqa: UP045 - as above
    """What one line of pip's output says of where it is, in a few words; None where it says nothing new."""
    share = f"{seen} of {count}" if count else ""
    if match := re.match(r"\s*Downloading (\S+) \(([^)]+)\)", line):
        return f"{share} downloading {_short(match[1])} ({match[2]})"
    if match := re.match(r"(?:Collecting|Requirement already satisfied:|Processing) (\S+)", line):
        return f"{share} {_short(match[1])}"
    if line.startswith("Installing collected packages"):
        return "unpacking"
    return None


def _installed(python: Path) -> int:
    """How many distributions the environment holds now: pip itself is silent while it unpacks."""
    return sum(1 for _ in python.parents[1].glob("lib/python*/site-packages/*.dist-info"))


def run_pip(python: Path, arguments: Sequence[str], *, label: str, log: Log, count: Optional[int] = None) -> None:  # noqa: UP045
    """`pip install --no-deps ARGUMENTS`: the lists are complete, so that pip has nothing to resolve.

    Raises SetupError with what failed and its cure.
    """
    started = time.monotonic()
    command = [str(python), "-m", "pip", "install", "--no-deps", "--no-input", "--progress-bar", "off"]
    command += ["--no-compile", "--retries", "2", "--disable-pip-version-check", *arguments]
    lines: queue.Queue[Optional[str]] = queue.Queue()  # noqa: UP045
    kept: list[str] = []
    with log.path.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n")
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", bufsize=1
        )

        def read() -> None:
            assert process.stdout is not None  # noqa: S101 - it was asked for three lines above
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        words, seen, shown = "", 0, started
        try:
            while True:
                try:
                    line = lines.get(timeout=1)
                except queue.Empty:
                    line = ""
                if line is None:
                    break
                if line:
                    file.write(line)
                    kept.append(line)
                    seen += line.startswith(("Collecting", "Requirement already", "Processing"))
                    words = doing(line, seen, count) or words
                if words.startswith("unpack"):
                    words = f"unpacked {_installed(python)} packages"
                now = time.monotonic()
                if now - shown >= (0.1 if log.tty else QUIET_S):
                    log.progress(f"  {now - started:4.0f} s  {label}: {words}")
                    shown = now
        finally:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.terminate()
            process.wait()
    if process.returncode != 0:
        raise explain("".join(kept), label=label, log_path=log.path)
    log.say(f"  {time.monotonic() - started:4.0f} s  {label}: installed")


def explain(output: str, *, label: str, log_path: Path) -> SetupError:
    """Why pip failed, from what it printed."""
    at = f"(pip's own words are in {log_path})"
    wanted = re.search(r"No matching distribution found for (\S+)", output)
    offline = re.search(
        r"NewConnectionError|Failed to establish|[Nn]ame resolution|Name or service not known|ConnectTimeoutError"
        r"|ReadTimeoutError|Network is unreachable|Connection refused|ProxyError",
        output,
    )
    if "No space left on device" in output:
        return SetupError(f"The disk ran full while installing {label} {at}.", "Free some space and run it again.")
    if offline:
        return SetupError(
            f"The package index that pip uses does not answer, so {label} could not be installed {at}.",
            "Check the network, or the proxy in HTTPS_PROXY, and run it again. Only the set-up needs a network.",
        )
    if label.startswith("torch") and wanted:
        return SetupError(
            f"{label}, the CPU build of PyTorch, is not where pip looks: most indexes carry only the CUDA build {at}.",
            "Set the variable TORCH_INDEX to PyTorch's own index of CPU wheels and run it again. Its address is on "
            'pytorch.org under "Get Started": choose Linux, Pip and CPU, and take what stands behind --index-url.',
        )
    if "DO NOT MATCH THE HASHES" in output:
        named = re.search(r"^\s+(\S+==\S+|\S+) from ", output, re.MULTILINE)
        what = named[1] if named else label
        return SetupError(
            f"{what} was found, but it is not the file that the list names: its hash differs, so it was refused {at}.",
            "If a mirror or a local folder comes first in pip's configuration (`pip config list`), take it out. For "
            "torch, set TORCH_INDEX to PyTorch's own index of CPU wheels.",
        )
    if wanted:
        return SetupError(
            f"{wanted[1]} is not where pip looks, or has no build for this Python and machine {at}.",
            "See `pip config list` for an index or a constraint that hides it. Python 3.11 on Linux has builds of all.",
        )
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "pip gave no reason")
    return SetupError(
        f"{label} could not be installed: {last.strip()} {at}.", "Read that log, mend the cause, run it again."
    )
