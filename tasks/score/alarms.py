"""Numbers that look like a fault of the setup rather than of the model: nothing right at all, or nothing scored."""

from collections.abc import Iterable

from schemas.metric import Aggregate, is_score

FEWEST = 20
"""Zero of fewer samples is no news."""


def alarms(metrics: Iterable[Aggregate]) -> list[str]:
    """One sentence for each metric of a dataset that is 0 over FEWEST samples or more, and for each that has no value
    though samples were asked. Numbers of form, guiding and repair may well be either, and what is better lower may well
    be 0."""
    said = []
    for row in metrics:
        if row.scope != "dataset" or not is_score(row.name):
            continue
        where = row.name if row.arm is None else f"{row.name} ({row.arm})"
        if row.n == 0 and row.n_failed:
            said.append(f"{where} scored none of {_samples(row.n_failed)}{_why(row)}")
        elif row.direction == "higher" and row.value == 0 and row.n >= FEWEST:
            said.append(
                f"{where} is 0 over {_samples(row.n)}: look at a few answers; the prompt, a stop string or how the "
                "answer is extracted may be at fault"
            )
    return said


def _samples(n: int) -> str:
    return f"{n:,} sample" + ("" if n == 1 else "s")


def _why(row: Aggregate) -> str:
    """The most frequent reason, if the row says any."""
    reasons = row.details.get("reasons")
    return f": {next(iter(reasons))}" if reasons else ""
