"""The runs that a user names: by id, by its beginning, as `last`, as a baseline; with an arm behind a colon."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import ConfigError
from tasks.config.nearest import did_you_mean
from warehouse.parquet import read_rows
from warehouse.retention import BASELINE_TAG

BASELINE = "baseline:"
NOT_ANY_MORE = "false"
"""The tag's value for a run that is no baseline any more: a tag that MLflow has once cannot be taken back by leaving it
out."""
_COLUMNS = ["run_id", "name", "status", "started_at", "tags", "revision"]
_SHOWN = 5

Row = dict[str, Any]


class Named(NamedTuple):
    """A run, and the arm that was named with it."""

    run_id: str
    arm: str | None


def run_list(home: Path) -> list[Row]:
    """The runs, oldest first, with what they are found by."""
    return sorted(read_rows(home, "runs", columns=_COLUMNS), key=lambda row: str(row["run_id"]))


def find_run(home: Path, given: str) -> Named:
    """The run that is meant by `ID`, the beginning of one, `last` or `baseline:NAME`, with or without `:ARM` behind it.

    Raises ConfigError for a name that no run has, or several have."""
    rows = run_list(home)
    if given.startswith(BASELINE):
        name, _, arm = given.removeprefix(BASELINE).partition(":")
        return Named(_holder(rows, name), arm or None)
    wanted, colon, arm = given.partition(":")
    if colon and not arm:
        raise ConfigError.one(f"{given} names no arm", suggestion="write RUN:guided, or RUN alone")
    return Named(_by_id(home, rows, wanted), arm or None)


def names_of(tags: Mapping[str, str] | None) -> list[str]:
    """The names that a run is a baseline by, from its tags."""
    held = (tags or {}).get(BASELINE_TAG)
    if held is None or held.strip().lower() == NOT_ANY_MORE:
        return []
    return [name for part in held.split(",") if (name := part.strip())]


def holders(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """By name of a baseline: the runs that have it. More than one may, as any config can set the tag."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        for name in names_of(row["tags"]):
            found.setdefault(name, []).append(row)
    return found


def _holder(rows: Sequence[Row], name: str) -> str:
    known = holders(rows)
    if name not in known:
        raise ConfigError.one(
            f"there is no {BASELINE}{name}",
            suggestion=did_you_mean(name, known) or f"assay promote RUN --as {BASELINE}{name or 'NAME'} makes one",
        )
    if len(known[name]) > 1:
        ids = ", ".join(str(row["run_id"]) for row in known[name][-_SHOWN:])
        raise ConfigError.one(
            f"{len(known[name])} runs are tagged {BASELINE}{name}: {ids}",
            suggestion=f"assay promote RUN --as {BASELINE}{name} leaves it to one",
        )
    return str(known[name][0]["run_id"])


def _by_id(home: Path, rows: Sequence[Row], wanted: str) -> str:
    ids = [str(row["run_id"]) for row in rows]
    if not ids:
        raise ConfigError.one(f"there are no runs under {home}", suggestion="start one: assay run quickstart")
    if wanted == "last":
        return ids[-1]
    if wanted in ids:
        return wanted
    beginning = [run_id for run_id in ids if wanted and run_id.startswith(wanted)]
    if len(beginning) == 1:
        return beginning[0]
    if beginning:
        more = ", …" if len(beginning) > _SHOWN else ""
        raise ConfigError.one(
            f"{len(beginning)} runs begin with {wanted}: {', '.join(beginning[:_SHOWN])}{more}",
            suggestion="write more of the id",
        )
    raise ConfigError.one(
        f"there is no run {wanted} under {home}", suggestion=did_you_mean(wanted, ids) or "`assay runs` lists them"
    )
