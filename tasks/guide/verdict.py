"""What a validator says of one answer."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One way in which an answer breaks its grammar. path: a JSON pointer into the answer, empty for all of it."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer obeys its grammar, which validator says so (name and version), and what is wrong with it.

    An answer that could not be judged (time, memory, a grammar that is none) is not valid, and its violation says why.
    """

    valid: bool
    validator: str
    violations: list[Violation] = field(default_factory=list)


def refused(*, validator: str, message: str, path: str = "") -> Verdict:
    """A verdict with one violation."""
    return Verdict(valid=False, validator=validator, violations=[Violation(path=path, message=message)])
