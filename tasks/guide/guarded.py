"""The parent's side of tasks.guide.child."""

import atexit
import signal
from dataclasses import dataclass, field

from schemas.sample import Grammar
from tasks.guide.judge import validator_name
from tasks.guide.line_child import LineChild
from tasks.guide.verdict import Verdict, Violation, refused

TRIES_PER_GRAMMAR = 3


@dataclass
class GuardedJudge:
    """Judges answers in a child process. A grammar that killed it TRIES_PER_GRAMMAR times is not tried again."""

    child: LineChild = field(default_factory=lambda: LineChild("tasks.guide.child"))
    _deaths: dict[str, int] = field(default_factory=dict)

    def judge(self, grammar: Grammar, text: str, *, timeout_s: float) -> Verdict:
        """The verdict on `text`, or a verdict that says that the validator timed out or died. Safe between threads."""
        name = validator_name(grammar.kind)
        with self.child.lock:
            deaths = self._deaths.get(grammar.grammar_id, 0)
            if deaths >= TRIES_PER_GRAMMAR:
                message = f"not validated: this grammar ended the validator {TRIES_PER_GRAMMAR} times before"
                return refused(validator=name, message=message, judged=False)
            answer = self.child.ask(
                {
                    "grammar_id": grammar.grammar_id,
                    "kind": grammar.kind,
                    "content": grammar.content,
                    "text": text,
                    "timeout_s": timeout_s,
                }
            )
            if answer is None:
                self._deaths[grammar.grammar_id] = deaths + 1
                return refused(validator=name, message=self._death(timeout_s=timeout_s), judged=False)
        violations = [Violation(**violation) for violation in answer["violations"]]
        return Verdict(valid=answer["valid"], validator=answer["validator"], violations=violations)

    def _death(self, *, timeout_s: float) -> str:
        status = self.child.bury()
        if status is None:
            return "the validator did not start"
        if status == -signal.SIGALRM:
            return f"timed out: the validator took more than {timeout_s:g} s"
        return f"the validator ended (exit status {status}), most likely for want of memory"


GUARD = GuardedJudge()
atexit.register(GUARD.child.close)
