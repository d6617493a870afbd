"""The parent's side of tasks.score.math.child."""

import atexit
import signal
from dataclasses import dataclass, field

from tasks.guide.line_child import LineChild

_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """Whether two answers are equal; reason: why they could not be compared as mathematics."""

    equal: bool
    reason: str | None


@dataclass
class GuardedEquality:
    """Compares answers in a child process. A pair is asked once: what hung the child is not tried again."""

    child: LineChild = field(default_factory=lambda: LineChild("tasks.score.math.child"))
    _known: dict[tuple[str, str, float], Equality] = field(default_factory=dict)

    def compare(self, *, expected: str, given: str, timeout_s: float) -> Equality:
        """Whether two normalized answers are equal mathematics, within `timeout_s` seconds of processor time. Where the
        child hangs or dies they count as not equal, with the reason. Safe between threads."""
        asked = expected, given, timeout_s
        with self.child.lock:
            if asked not in self._known:
                if len(self._known) >= _MOST_REMEMBERED:
                    self._known.clear()
                self._known[asked] = self._ask(*asked)
            return self._known[asked]

    def _ask(self, expected: str, given: str, timeout_s: float) -> Equality:
        answer = self.child.ask({"expected": expected, "given": given, "timeout_s": timeout_s})
        if answer is None:
            return Equality(equal=False, reason=self._death(timeout_s=timeout_s))
        return Equality(equal=answer["equal"], reason=answer["reason"])

    def _death(self, *, timeout_s: float) -> str:
        status = self.child.bury()
        if status is None:
            return "not decided: the process that compares did not start"
        if status in (-signal.SIGPROF, -signal.SIGALRM):
            return f"not decided in {timeout_s:g} s"
        return f"not decided: the process that compares ended (exit status {status}), most likely for memory"


GUARD = GuardedEquality()
atexit.register(GUARD.child.close)
