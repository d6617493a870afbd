"""Who and what writes a run: the columns of `runs` that describe the program, its versions and its machine."""

import getpass
import importlib.metadata
import platform
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def written_by(packages: Iterable[str]) -> dict[str, Any]:
    """The columns; of the packages those that are installed. A user without a name on this machine is None."""
    return {
        "assay_version": version_of("assay"),
        "host": socket.gethostname(),
        "user": _user(),
        "python": platform.python_version(),
        "packages": {name: version for name in packages if (version := version_of(name)) is not None},
    }


def peak_memory_bytes() -> int | None:
    """The most memory that this process has held since it began; None where the kernel does not say.

    Not getrusage's ru_maxrss: that counts what the parent held when it started this process, too."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return None
    found = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return None if found is None else int(found.split()[1]) * 1024


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user on this machine: a container without /etc/passwd
        return None
