"""What the steps of a run tell each other and Prefect: small, and never rows."""

from pydantic import BaseModel, ConfigDict

from schemas.profile import Profile


class Summary(BaseModel):
    model_config = ConfigDict(frozen=True)


class DatasetSummary(Summary):
    """One dataset as loaded and rendered."""

    dataset: str
    rows_total: int
    rows_used: int
    fingerprint: str
    template_hash: str
    bos_policy: str
    tokenize_s: float
    tokenizer_fingerprint: str
    max_len: int
    over_limit: int
    """Rows whose prompt, with its output budget, was longer than that: cut, shorn of shots, or left out."""
    needs: list[str]
    """What its metrics read: generate, loglikelihood."""
    arms: list[str]
    """The experiment's arms that it has; without a guide there is no guided one."""
    warnings: list[str]


class DatasetsSummary(Summary):
    datasets: list[DatasetSummary]
    profiles: list[Profile] = []

    @property
    def warnings(self) -> list[str]:
        return [warning for dataset in self.datasets for warning in dataset.warnings]


class GeneratedSummary(Summary):
    """What came of the generating step. reused: answers that an earlier session of this run had already made."""

    requests: int
    reused: int
    statuses: dict[str, int]
    failed: int
    output_tokens: int
    prompt_tokens: int
    wall_s: float
    stopped: str | None
    warnings: list[str]


class MeasuredSummary(Summary):
    """What came of the measuring step. requests: those of the measured phases; statuses: how they ended; failed:
    without an answer."""

    cells: int
    requests: int
    failed: int
    statuses: dict[str, int]
    wall_s: float
    warnings: list[str]


class JudgedSummary(Summary):
    """What came of the judging step. answers: those to be judged; reused: judged by an earlier session of this run;
    statuses: how the calls of this one ended; failed: answers without a verdict because the judge refused, timed out,
    failed or was not asked."""

    answers: int
    reused: int
    statuses: dict[str, int]
    failed: int
    wall_s: float
    warnings: list[str]


class ScoredSummary(Summary):
    """What the scoring step found. headline: the metrics of datasets and groups as one table, for the console and for
    Prefect. warnings: numbers that look like a fault of the setup."""

    scores: int
    headline: list[dict[str, str | float | int | None]]
    verdicts: list[dict[str, str | float | int | None]]
    guiding: list[dict[str, str]] = []
    """What the grammar does and costs, a line a figure (tasks/score/guiding_lines.py)."""
    warnings: list[str] = []
