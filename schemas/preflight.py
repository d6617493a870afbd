"""What was found out about a run's grammars before its engine got one."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

PreflightStatus = Literal["accepted", "refused", "timeout", "crashed"]
QUARANTINED: tuple[PreflightStatus, ...] = ("timeout", "crashed")
"""Grammars that no engine gets."""


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True)


class LintFinding(_Facts):
    """One way in which the backend departs from a schema: `path` is a JSON pointer, `problem` says what, `instance` is
    the smallest JSON text that shows it. fault: silently wrong, and not only something to know."""

    path: str
    problem: str
    instance: str | None
    fault: bool


class Examined(_Facts):
    """One grammar, in the form in which the engine would get it.

    message: what the backend says against it, or how its compiler ended. compile_s: seconds that the backend's compiler
    took, as measured when it was last compiled; None where it was not reached or not come back from. cached: known from
    an earlier run. lint: None where the grammar was not linted, because it is no JSON schema or its turn never came;
    lint_cut: its lint ran out of time, so there may be more."""

    grammar_id: str
    after: str | None
    status: PreflightStatus
    message: str | None
    compile_s: float | None
    cached: bool
    keywords: list[str] | None = None
    lint: list[LintFinding] | None = None
    lint_cut: bool = False

    @property
    def quarantine(self) -> str | None:
        """Why requests with it are refused unsent, in words; None where they are sent."""
        if self.status not in QUARANTINED:
            return None
        return f"quarantined: {self.message}"

    @property
    def faults(self) -> list[LintFinding]:
        """What is silently wrong."""
        return [finding for finding in self.lint or () if finding.fault]


class PreflightSummary(_Facts):
    """What came of all of a run's grammars.

    unexamined: how many there was no time for, so that the engine gets them as they are. unlinted: JSON schemas that
    the backend takes and that were not linted, being too many or for want of time. lost: why nothing, or no more, could
    be examined. notes: what else went wrong. start_s: how long the compiler's process took to start; None where none
    was needed. wall_s: from the beginning to the end of it all, beside other steps.
    warmed: how many the engine compiled before its first request, in warm_s, and unwarmed: how many of those that it
    was asked for it did not; None where it was not asked."""

    backend: str
    backend_version: str | None
    examined: list[Examined]
    unexamined: int = 0
    unlinted: int = 0
    lost: str | None = None
    notes: list[str] = []
    start_s: float | None = None
    wall_s: float = 0.0
    warmed: int | None = None
    unwarmed: int | None = None
    warm_s: float | None = None
