"""What a program is given to run with, and what came of it."""

from dataclasses import dataclass
from typing import Literal

from schemas.errors import AssayError

Status = Literal["passed", "failed", "timeout", "memory", "killed", "broken_tests"]

MOST_ERROR_CHARACTERS = 400
MOST_OUTPUT_CHARACTERS = 2000


class SandboxMissing(AssayError):
    """No sandbox works on this machine (exit code 2: found before anything runs). The message names what to install."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a program may use. Seconds of CPU and memory are a process's, wall seconds begin when the program does.

    The processes together may not hold more resident memory than `memory_bytes` either. disk_bytes bounds the work
    folder, and each file in it. A program that writes more than `output_bytes` to stdout and stderr is ended.
    """

    cpu_s: int = 5
    wall_s: float = 8.0
    memory_bytes: int = 1 << 30
    processes: int = 16
    disk_bytes: int = 64 << 20
    open_files: int = 64
    output_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program and its tests, as Python texts. entry_point: the name that the tests' `check` is called with; without
    it the tests are statements that run as they stand."""

    text: str
    tests: str
    entry_point: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a program.

    passed: the tests ran to their end. failed: an error (named), or an end before that. timeout: CPU or wall seconds.
    memory: an allocation was refused, or all processes together held too much. killed: it died of a signal.
    broken_tests: the tests are no Python themselves, which says nothing about the program. error and output are
    bounded. back_end: what it ran in.
    """

    status: Status
    error: str | None
    output: str
    seconds: float
    back_end: str
