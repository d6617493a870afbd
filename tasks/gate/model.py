"""What judging a run's gates gives."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from schemas.gate import GateVerdict, GateWord, gate_exit_code, overall
from tasks.compare.model import RunComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All gates of one run. comparisons: one for each run that a gate was held against, cut down to the gates' metrics.
    notes: what a reader should know besides."""

    run_id: str
    name: str
    model: str | None
    verdicts: tuple[GateVerdict, ...]
    comparisons: tuple[RunComparison, ...]
    notes: tuple[str, ...]
    decided_at: datetime

    @property
    def word(self) -> GateWord:
        """What they came to together."""
        return overall(self.verdicts)

    @property
    def exit_code(self) -> int:
        """3 where one fails, 2 where one cannot be judged, else 0."""
        return gate_exit_code(self.verdicts)

    @property
    def counts(self) -> Counter[str]:
        """How many have each verdict."""
        return Counter(each.verdict for each in self.verdicts)

    def comparison(self, verdict: GateVerdict) -> RunComparison | None:
        """The comparison behind a verdict; None for one against a number, or without a baseline."""
        found = (each for each in self.comparisons if each.baseline.run_id == verdict.baseline_run_id)
        return next(found, None) if verdict.baseline_run_id is not None else None
