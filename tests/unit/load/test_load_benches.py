"""The scripts behind docs/benchmarks-load.md run; what they measure is for a quiet machine to say."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.machines import HAS_NAMESPACES

SHORT = ("--rate", "20", "--seconds", "1", "--tokens", "5", "--ttft-ms", "5", "--tpot-ms", "2")


@pytest.mark.parametrize(
    ("script", "more", "rows"),
    [
        ("load", ("--clients", "2"), ("late", "added to ttft", "added to a gap")),
        ("endpoint", (), ("late", "on the way out", "on the way back", "added to ttft", "added to a gap")),
        ("endpoint", ("--elsewhere", "1"), ("late", "clock error, said", "stamped too early")),
    ],
)
def test_it_runs_and_prints_its_table(script: str, more: tuple[str, ...], rows: tuple[str, ...]) -> None:
    if "--elsewhere" in more and not HAS_NAMESPACES:
        pytest.skip("no time namespaces here (unshare -T)")
    done = subprocess.run(
        [sys.executable, "-m", f"tests.bench.{script}", *SHORT, *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    printed = [line for line in done.stdout.splitlines() if "p99" in line]
    assert set(rows) <= {line.partition("p50")[0].strip() for line in printed}
