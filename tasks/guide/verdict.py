"""What a validator says of one answer."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One way in which an answer breaks its grammar. path: a JSON pointer into the answer, empty for all of it. judged:
    False where it says why the answer could not be judged."""

    path: str
    message: str
    judged: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer obeys its grammar, which validator says so (name and version), and what is wrong with it.

    An answer that could not be judged (time, memory, a grammar that is none) is not valid, and its violation says why.
    """

    valid: bool
    validator: str
    violations: list[Violation] = field(default_factory=list)

    @property
    def judged(self) -> bool:
        """Whether it is the validator's word on the answer, and not on why there is none. One thing that is surely
        wrong is enough."""
        return self.valid or any(violation.judged for violation in self.violations)


def refused(*, validator: str, message: str, path: str = "", judged: bool = True) -> Verdict:
    """A verdict with one violation."""
    found = Violation(path=path, message=message, judged=judged)
    return Verdict(valid=False, validator=validator, violations=[found])
