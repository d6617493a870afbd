"""No orphan on any path: real process trees, killed for real."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tasks.engine.process import SupervisedProcess
from tests.faults.processes import marked, wait_for, wait_until_gone

# A child, a grandchild, and a great-grandchild in a session of its own that ignores SIGTERM.
TREE = "sleep 300 & (sleep 300 & setsid sh -c 'trap \"\" TERM; sleep 300 & wait' & wait) & wait"


def _environment(mark: str) -> dict[str, str]:
    return {**os.environ, "ASSAY_TEST_MARK": mark}


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    return f"mark-{os.getpid()}-{request.node.name}"


def test_close_ends_the_whole_tree(tmp_path: Path, mark: str) -> None:
    process = SupervisedProcess(["sh", "-c", TREE], env=_environment(mark), log_path=tmp_path / "log")
    wait_for(lambda: len(marked(mark)) >= 6, timeout_s=10, what="the tree has grown")
    process.close()
    assert wait_until_gone(mark, timeout_s=2) == []


def test_what_the_program_leaves_behind_goes_with_it(tmp_path: Path, mark: str) -> None:
    command = ["sh", "-c", "setsid sleep 300 & echo left; exit 7"]
    process = SupervisedProcess(command, env=_environment(mark), log_path=tmp_path / "log")
    wait_for(lambda: process.returncode is not None, timeout_s=10, what="the supervisor has ended")
    assert process.returncode == 7
    assert wait_until_gone(mark, timeout_s=2) == []
    assert process.log_tail() == "left"


def test_a_program_that_is_killed_is_reported_with_its_signal(tmp_path: Path, mark: str) -> None:
    process = SupervisedProcess(["sh", "-c", "kill -9 $$"], env=_environment(mark), log_path=tmp_path / "log")
    wait_for(lambda: process.returncode is not None, timeout_s=10, what="the supervisor has ended")
    assert process.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("victim", ["starter", "supervisor"])
def test_kill_9_leaves_nothing(tmp_path: Path, mark: str, victim: str) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from tasks.engine.process import SupervisedProcess
p = SupervisedProcess(["sh", "-c", {TREE!r}], env=dict(os.environ), log_path=Path(sys.argv[1]))
print(p.pid, flush=True)
while p.returncode is None:
    time.sleep(0.05)
"""
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        env=_environment(mark),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    supervisor = int(starter.stdout.readline())
    wait_for(lambda: len(marked(mark)) >= 7, timeout_s=10, what="the tree has grown")
    os.kill(starter.pid if victim == "starter" else supervisor, signal.SIGKILL)

    def missed() -> list[int]:
        """What was in a session of its own when its supervisor was killed: the one thing that can be missed."""
        return [pid for pid in marked(mark) if victim == "supervisor" and _session(pid) not in (supervisor, own, None)]

    own = _session(starter.pid)
    wait_for(lambda: marked(mark) == missed(), timeout_s=10, what="the others are gone")
    left = missed()
    starter.kill()
    starter.wait()
    for pid in left:
        os.kill(pid, signal.SIGKILL)


def test_a_terminals_interrupt_does_not_reach_the_program(tmp_path: Path, mark: str) -> None:
    process = SupervisedProcess(["sleep", "300"], env=_environment(mark), log_path=tmp_path / "log")
    wait_for(lambda: len(marked(mark)) == 2, timeout_s=10, what="the program runs")
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.3)
    assert process.returncode is None
    process.close()


def _session(pid: int) -> int | None:
    """None where it has just ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def test_orphans_that_end_are_collected_while_the_program_goes_on(tmp_path: Path, mark: str) -> None:
    # Each round leaves an orphan that ends soon: over months, a worker's runs would fill the process table.
    script = "for i in 1 2 3 4 5; do (sleep 0.1 &) ; done; exec sleep 300"
    process = SupervisedProcess(["sh", "-c", script], env=_environment(mark), log_path=tmp_path / "log")
    supervisor = psutil.Process(process.pid)
    wait_for(lambda: "sleep" in {each.name() for each in supervisor.children()}, timeout_s=10, what="it runs")

    def left() -> list[psutil.Process]:
        return [each for each in supervisor.children() if each.status() == psutil.STATUS_ZOMBIE]

    wait_for(lambda: len(supervisor.children()) == 1 and not left(), timeout_s=10, what="the orphans are collected")
    process.close()
