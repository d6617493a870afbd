"""The process in which two answers are compared: one JSON line in, one out.

It bounds itself: timers of the kernel's end it when a pair takes too long (also in the middle of native code), its
memory has a limit, and it ends when its input does.
"""

import json
import resource
import signal
import sys

from tasks.score.math.build import Undecided
from tasks.score.math.equal import equal
from tasks.score.math.parse import parse
from tasks.score.math.tree import Unreadable

MEMORY_BYTES = 1 << 30
_WALL_TIMES = 10


def compare(expected: str, given: str) -> dict[str, bool | str | None]:
    """Whether two normalized answers are equal, and if that is not decided, why."""
    try:
        tree = parse(expected)
    except Unreadable as error:
        return {"equal": False, "reason": f"compared as text: of the target, {error}"}
    try:
        return {"equal": equal(tree, parse(given)), "reason": None}
    except Unreadable as error:
        return {"equal": False, "reason": f"the answer cannot be read as mathematics: {error}"}
    except Undecided as error:
        return {"equal": False, "reason": f"not decided: {error}"}
    except (RecursionError, ArithmeticError, NotImplementedError, TypeError, ValueError) as error:
        # what sympy raises for expressions that it has no answer for: they cost this pair only
        return {"equal": False, "reason": f"not decided: {type(error).__name__}"}


def main() -> None:
    """Answer lines until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        asked = json.loads(line)
        # the processor's time decides, so that a busy machine gives the same verdicts; the wall's only ends a stall
        signal.setitimer(signal.ITIMER_PROF, asked["timeout_s"])
        signal.setitimer(signal.ITIMER_REAL, asked["timeout_s"] * _WALL_TIMES)
        verdict = compare(asked["expected"], asked["given"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(json.dumps(verdict) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
