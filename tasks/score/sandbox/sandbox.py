"""The sandbox in which generated programs run: found once, tried before it is trusted, used from several threads."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from schemas.errors import RunError
from tasks.score.sandbox.back_ends import BackEnd, candidates, is_privileged
from tasks.score.sandbox.outcome import Limits, Outcome, Program, SandboxMissing
from tasks.score.sandbox.supervise import execute

INSTALL = "install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap)"
UNSANDBOXED = "it ran without a sandbox"

_PROBE = """
import os, socket, time
found = []
if 0 in (os.getuid(), os.geteuid()):
    found.append("the program is root")
if os.path.lexists("/etc/passwd") or os.path.lexists("/proc/1") or os.listdir(os.environ["HOME"]):
    found.append("the machine's files are visible")
try:
    os.mkdir("/probe-of-assay")
    os.rmdir("/probe-of-assay")
    found.append("the system can be written to")
except OSError:
    pass
try:
    if [name for _, name in socket.if_nameindex() if name != "lo"]:
        found.append("there is a network")
except OSError:
    pass
try:
    for _ in range(12):
        if os.fork() == 0:
            time.sleep(60)
    found.append("the number of processes is not limited")
except OSError:
    pass
print(*found, sep=", ")
"""
_PROBE_LIMITS = Limits(processes=8, wall_s=20, disk_bytes=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """Runs Python programs with no network, no home and a read-only system, within limits. Safe between threads.

    Without a back end that closes (only if the user allowed it), a child with limits: `closed` says so.
    """

    back_end: BackEnd
    limits: Limits = field(default_factory=Limits)

    @property
    def closed(self) -> bool:
        return self.back_end.closed

    def run(self, program: Program) -> Outcome:
        """Runs one program with its tests. Raises RunError where the sandbox itself does not start."""
        return execute(program, back_end=self.back_end, limits=self.limits)

    def run_many(self, programs: Sequence[Program], *, workers: int | None = None) -> list[Outcome]:
        """The outcomes in the order of the programs, `workers` at once (one for each usable core if None)."""
        count = workers or len(os.sched_getaffinity(0))
        pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="sandbox")
        try:
            return list(pool.map(self.run, programs))
        finally:  # after Ctrl-C too: what runs is waited for, what waits is dropped
            pool.shutdown(wait=True, cancel_futures=True)


def find_sandbox(*, limits: Limits | None = None, allow_unsandboxed: bool = False) -> Sandbox:
    """The best sandbox that works here. Raises SandboxMissing if none does and the user did not allow to go without."""
    found, words = _tried()
    if found is None:
        if sys.platform != "linux":
            raise SandboxMissing("generated code runs on Linux only")
        if not allow_unsandboxed:
            raise SandboxMissing(
                f"generated code cannot run: no sandbox works on this machine ({words}); {INSTALL}, or allow namespaces"
                " of users, or write `allow_unsandboxed: true` in the metric's options to run it without one"
            )
        found = BackEnd(name="none")
    return Sandbox(back_end=found, limits=limits or Limits())


def sandbox_state() -> tuple[str | None, str]:
    """The name of the back end that generated code would run in, or None, and words for a reader."""
    found, words = _tried()
    return (None if found is None else found.name), words


def probe(back_end: BackEnd) -> str | None:
    """What is wrong with a back end here, found by running a program in it; None if it holds."""
    try:
        outcome = execute(Program(text=_PROBE, tests="assert not found"), back_end=back_end, limits=_PROBE_LIMITS)
    except RunError as error:
        return str(error)
    return None if outcome.status == "passed" else outcome.output.strip() or outcome.error or outcome.status


@cache
def _tried() -> tuple[BackEnd | None, str]:
    found = candidates()
    faults = [] if any(back_end.name == "bubblewrap" for back_end in found) else ["bubblewrap is not installed"]
    for back_end in found:
        fault = probe(back_end)
        if fault is None:
            words = f"generated code runs in {back_end.name}"
            return back_end, "; ".join([words, *faults])
        faults.append(f"{back_end.name}: {fault}")
    if os.geteuid() == 0 and not is_privileged():
        faults.append("root may not mount here: an ordinary user may")
    return None, "; ".join(faults)
