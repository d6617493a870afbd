"""`make test`: the tests that start engines and servers in one process, all others in a second one beside it.

    python -m tests.halves [PYTEST ARGUMENTS]

With arguments that choose tests, one process runs them. Exit code: 0 if both halves passed."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ENGINE = ["-m", "not slow and engine", "--ignore=tests/unit"]
REST = ["-m", "not slow and not engine"]
"""Nothing in tests/unit starts an engine: tests/conftest.py holds that. Reading it all takes a quarter of a minute."""

CODE = ("flows", "tasks", "schemas", "warehouse")
MEMORY = Path("/dev/shm")
NEEDED_BYTES = 4 << 30
"""Free in memory for the folders of the tests; they take about one."""


def main(arguments: list[str]) -> int:
    if arguments:
        return subprocess.call([sys.executable, "-m", "pytest", "-m", "not slow", *arguments])
    started = time.monotonic()
    # Every command of the tests is a process of its own, and where nothing is compiled each would do it again.
    subprocess.check_call([sys.executable, "-m", "compileall", "-q", *CODE])
    with fast_folder() as folder, tempfile.TemporaryFile() as kept:
        rest = subprocess.Popen(_pytest("rest", REST, folder), stdout=kept, stderr=subprocess.STDOUT)
        try:
            engine = subprocess.call(_pytest("engine", ENGINE, folder))
            rest.wait()
        finally:
            rest.terminate()
            rest.wait()
        kept.seek(0)
        print(kept.read().decode(errors="replace"))
    print(f"tests of the engine: exit code {engine}, all others: {rest.returncode}; {time.monotonic() - started:.0f} s")
    return engine or rest.returncode


@contextlib.contextmanager
def fast_folder() -> Iterator[Path | None]:
    """A folder in memory for what the tests write, where there is room for it; else None, which is pytest's own.

    The stores of Prefect, MLflow and the searches write each step to the disk at once, thousands of times."""
    try:
        system = os.statvfs(MEMORY)
        usable = system.f_bavail * system.f_frsize >= NEEDED_BYTES and not system.f_flag & os.ST_NOEXEC
        usable = usable and os.access(MEMORY, os.W_OK) and _available_bytes() >= 3 * NEEDED_BYTES
    except OSError:
        usable = False
    if not usable:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="assay-tests-", dir=MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _available_bytes() -> int:
    """Memory that is free, of this machine or of the group of processes that it has a limit of memory for."""
    told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    found = int(told["MemAvailable"].split()[0]) * 1024
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(Path(limit).read_text()))
    return found


def _pytest(half: str, chosen: list[str], folder: Path | None) -> list[str]:
    command = [sys.executable, "-m", "pytest", *chosen, "-o", f"cache_dir=.pytest_cache/{half}", "--durations=10"]
    return command if folder is None else [*command, f"--basetemp={folder / half}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
