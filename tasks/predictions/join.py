"""Which answer belongs to which row: by id, or by order where the user says so."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.errors import ConfigError
from tasks.dataset.load import Row
from tasks.predictions.read import Prediction, Predictions

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """answers: by sample_id and repeat, of the rows that are used. missing: sample ids without any answer. unknown: the
    ids of answers that no row of the dataset has. unused: answers to rows that are not scored: beyond the limit, or not
    in the dataset's `sample`."""

    answers: dict[tuple[str, int], Prediction]
    missing: list[str]
    unknown: list[str]
    unused: int


def join_by_id(predictions: Predictions, *, name: str, every: Sequence[str], used: Sequence[Row], key: str) -> Joined:
    """Joins by the row's own id, or by its sample_id (`<dataset>:<id>`), as the tables have it.

    name: the dataset's; every: the sample ids of all its rows, in their order; used: those rows that are scored; key:
    the field of the ids, for messages.
    Raises ConfigError where not one answer finds its row, or an answer comes once by each of a row's two names."""
    known, wanted = set(every), {row.sample_id for row in used}
    answers: dict[tuple[str, int], Prediction] = {}
    unknown: list[str] = []
    unused = 0
    for made in predictions.items:
        own = made.own_id or ""
        sample_id = f"{name}:{own}" if f"{name}:{own}" in known else own
        if sample_id not in known:
            unknown.append(own)
        elif sample_id not in wanted:
            unused += 1
        elif (before := answers.setdefault((sample_id, made.repeat), made)) is not made:
            message = f"a second answer to {sample_id}, the first is in line {before.line}"
            raise ConfigError.one(message, file=predictions.file, line=made.line, key=key)
    if not answers:
        raise _nothing_joined(predictions, name=name, every=every, key=key, unused=unused)
    answered = {sample_id for sample_id, _ in answers}
    missing = [row.sample_id for row in used if row.sample_id not in answered]
    return Joined(answers=answers, missing=missing, unknown=unknown, unused=unused)


def join_by_order(predictions: Predictions, *, name: str, every: Sequence[str], used: Sequence[Row]) -> Joined:
    """Joins the first answer to the first row, and so on: to all rows, or, where there are just as many answers, to
    those that are scored.

    Raises ConfigError where the numbers differ, and for repeats, which an order cannot tell."""
    items = predictions.items
    if repeated := next((made for made in items if made.repeat), None):
        raise ConfigError.one(
            "repeats cannot be told by their order",
            file=predictions.file,
            line=repeated.line,
            key="repeat",
            suggestion="give each answer its row's id",
        )
    if len(items) not in (len(every), len(used)):
        raise ConfigError.one(
            f"it has {len(items):,} answers, {name} has {len(every):,} rows"
            + (f" ({len(used):,} are scored)" if len(used) < len(every) else "")
            + ": by order, each row needs one",
            file=predictions.file,
            key="--by-order",
            suggestion="write null as the output where there is none, or give each answer its row's id",
        )
    order = every if len(items) == len(every) else [row.sample_id for row in used]
    wanted = {row.sample_id for row in used}
    answers = {(sample_id, 0): made for sample_id, made in zip(order, items, strict=True) if sample_id in wanted}
    return Joined(answers=answers, missing=[], unknown=[], unused=len(items) - len(answers))


def _nothing_joined(predictions: Predictions, *, name: str, every: Sequence[str], key: str, unused: int) -> ConfigError:
    first = predictions.items[0]
    if unused:
        message = f"all {unused:,} answers belong to rows of {name} that are not scored"
        return ConfigError.one(message, file=predictions.file, key="--limit", suggestion="take a higher one")
    theirs = ", ".join(repr(made.own_id) for made in predictions.items[:_SHOWN])
    ours = ", ".join(repr(sample_id.removeprefix(f"{name}:")) for sample_id in every[:_SHOWN])
    return ConfigError.one(
        f"no answer finds its row: the ids here begin with {theirs}, those of {name} with {ours}",
        file=predictions.file,
        line=first.line,
        key=key,
        suggestion="name the field of the ids with --id-field, or join with --by-order",
    )
