"""`make test`: the tests that start engines and servers in one process, all others in a second one beside it.

    python -m tests.halves [PYTEST ARGUMENTS]

With arguments that choose tests, one process runs them. Exit code: 0 if both halves passed."""

import subprocess
import sys
import tempfile
import time

HALVES = {"engine": "not slow and engine", "rest": "not slow and not engine"}


def main(arguments: list[str]) -> int:
    if arguments:
        return subprocess.call([sys.executable, "-m", "pytest", "-m", "not slow", *arguments])
    started = time.monotonic()
    with tempfile.TemporaryFile() as kept:
        rest = subprocess.Popen(_pytest("rest"), stdout=kept, stderr=subprocess.STDOUT)
        try:
            engine = subprocess.call(_pytest("engine"))
            rest.wait()
        finally:
            rest.terminate()
            rest.wait()
        kept.seek(0)
        print(kept.read().decode(errors="replace"))
    print(f"tests of the engine: exit code {engine}, all others: {rest.returncode}; {time.monotonic() - started:.0f} s")
    return engine or rest.returncode


def _pytest(half: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        HALVES[half],
        "-o",
        f"cache_dir=.pytest_cache/{half}",
        "--durations=10",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
