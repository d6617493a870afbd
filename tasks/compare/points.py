"""The measured points of a run, and whether two of one name are the same thing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tasks.compare.differences import ROWS, block_differences
from tasks.compare.model import Difference
from tasks.compare.read import PERF, SATURATE, RecordedRun, Row

_SIZES = ("requests", "seconds")
"""How long a load with a fixed concurrency or rate goes on: percentiles rest on more or fewer requests."""
_SIZED = frozenset({"closed", "open", "latency"})
_OF_SLO = ("goodput", "steady_goodput", "knee")
_KNEE = "knee-"
"""What the names of the rates below a knee begin with: each run has its own."""
_BLOCK = ("prompts", "answers", "cooldown", "clients", "client_hosts", "warmup")
_DECIDES = frozenset({"prompts", "answers", "clients", "client_hosts"})
_SHOWN = 3
WHOLE = ("another load", "other prompts", "another `", "another knee")
"""How the reasons begin that hold for all numbers of a point."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One point. name: of its load alone, as in `closed-8`. rows: those of `metrics` over its repeats, by name. load:
    the block that it is of; None for a search. prompts: what was asked."""

    point_id: str
    arm: str
    name: str
    kind: str
    rows: Mapping[str, Row]
    concurrency: int | None = None
    rate: float | None = None
    load: Mapping[str, Any] | None = None
    prompts: str | None = None
    cells: Sequence[Row] = ()

    def repeats(self, metric: str) -> list[float | None]:
        """The number of each repeat, in order. What is found once, as a knee is, is one repeat."""
        row = self.rows[metric]
        details = row["details"] if isinstance(row["details"], dict) else {}
        found = details.get("repeats")
        return list(found) if isinstance(found, list) else [row["value"]]

    @property
    def disturbed(self) -> list[Row]:
        return [cell for cell in self.cells if cell["disturbed"]]


def measured_points(run: RecordedRun) -> list[Measured]:
    """Every point of the run that has numbers, in the order of execution; a probe of a search is none."""
    cells: dict[str, list[Row]] = {}
    for cell in sorted(run.cells, key=lambda row: row["order_index"] or 0):
        if cell["point_id"] is not None and cell["kind"] != "probe":
            cells.setdefault(cell["point_id"], []).append(cell)
    found = []
    for point_id in dict.fromkeys((*cells, *run.measured)):
        rows = {row["name"]: row for row in run.measured.get(point_id, ())}
        own = cells.get(point_id, [])
        arm = next((row["arm"] for row in (*own, *rows.values()) if row["arm"] is not None), None)
        if not rows or arm is None or (not own and not point_id.endswith(f"-{SATURATE}")):
            continue
        first: Row = own[0] if own else {}
        found.append(
            Measured(
                point_id=point_id,
                arm=arm,
                name=point_id.removeprefix(f"{arm}-"),
                kind=first.get("kind") or SATURATE,
                rows=rows,
                concurrency=first.get("concurrency"),
                rate=first.get("rate"),
                load=first.get("load"),
                prompts=first.get("prompts"),
                cells=own,
            )
        )
    return found


def unlike(
    candidate: RecordedRun, baseline: RecordedRun, own: Measured, other: Measured, *, metrics: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """(why a metric is not to be compared, by its name; what is to be said of the rest)."""
    notes = _disturbed(own, "candidate") + _disturbed(other, "baseline")
    if candidate.run_id == baseline.run_id:
        return {}, notes
    why, said = _loads(own, other)
    notes += said
    blocks = [run.config.get("benchmark") or {} for run in (candidate, baseline)]
    for key in _BLOCK:
        values = [_of_block(block, key) for block in blocks]
        differing = block_differences(*values, at=f"benchmark.{key}")
        if differing and key in _DECIDES:
            why = why or f"another `{key}`: {_told(differing)}"
        elif differing:
            notes.append(f"{own.point_id}: {_told(differing)}")
    why = why or _prompts(candidate, baseline, own, other)
    slo = block_differences(blocks[0].get("slo"), blocks[1].get("slo"), at="benchmark.slo")
    if why is None and slo and own.name.startswith(_KNEE):
        why = f"another knee, as the SLO is another: {_told(slo)}"
    if why is not None:
        return dict.fromkeys(metrics, why), notes
    of_slo = [name for name in metrics if slo and name.removeprefix(PERF).startswith(_OF_SLO)]
    return dict.fromkeys(of_slo, f"another SLO: {_told(slo)}"), notes


def same_questions(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two blocks `benchmark` ask the same, by as many clients, so that points of one name can stand side by
    side."""
    return all(_of_block(one, key) == _of_block(other, key) for key in _DECIDES)


def _of_block(block: Mapping[str, Any], key: str) -> Any:
    """What stands there, in what matters: of a path the file's name, of clients on other machines how many there
    are."""
    value = block.get(key)
    if key == "client_hosts" and isinstance(value, dict):
        return {"workers": value.get("workers")}
    return _by_file_name(value)


def _loads(own: Measured, other: Measured) -> tuple[str | None, list[str]]:
    """Why two loads are not the same; what differs that leaves them the same."""
    one, two = _by_file_name(own.load or {}), _by_file_name(other.load or {})
    notes: list[str] = []
    if own.name.startswith(_KNEE) and own.rate != other.rate:
        notes.append(f"{own.point_id}: {own.rate:.3g} requests/s against {other.rate:.3g}, as the knees differ")
        one.pop("rate", None)
        two.pop("rate", None)
    if own.kind in _SIZED and own.kind == other.kind:
        sizes = [{key: load.pop(key, None) for key in _SIZES} for load in (one, two)]
        differing = block_differences(*sizes, at="load")
        if differing:
            notes.append(f"{own.point_id}: {_told(differing)}")
    differing = block_differences(one, two, at="load")
    return (f"another load: {_told(differing)}" if differing else None), notes


def _prompts(candidate: RecordedRun, baseline: RecordedRun, own: Measured, other: Measured) -> str | None:
    if own.prompts != other.prompts:
        return f"other prompts: {own.prompts} against {other.prompts}"
    if own.prompts != "datasets":
        return None
    lacking = candidate.datasets.keys() ^ baseline.datasets.keys()
    if lacking:
        return f"other prompts: the dataset {', '.join(sorted(lacking))} is in one of the runs only"
    for name, row in candidate.datasets.items():
        changed = [column for column in ROWS if row[column] != baseline.datasets[name][column]]
        if changed:
            return f"other prompts: {name} differs in its {', '.join(changed)}"
    return None


def _disturbed(point: Measured, which: str) -> list[str]:
    found = point.disturbed
    if not found:
        return []
    what = ", ".join(dict.fromkeys(each for cell in found for each in cell["disturbed"]))
    return [f"{point.point_id}: {len(found)} of {len(point.cells)} repeats of the {which} were disturbed: {what}"]


def _by_file_name(block: Any) -> Any:
    """The same with files by their names: two checkouts have them in different folders."""
    if not isinstance(block, Mapping):
        return block
    return {
        key: PurePath(value).name if key == "path" and isinstance(value, str) else _by_file_name(value)
        for key, value in block.items()
    }


def _told(differing: Sequence[Difference]) -> str:
    said = [f"{each.what}: {_value(each.candidate)} against {_value(each.baseline)}" for each in differing[:_SHOWN]]
    return "; ".join([*said, *(["…"] if len(differing) > _SHOWN else [])])


def _value(text: str | None) -> str:
    return "none" if text is None else text
