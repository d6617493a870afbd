"""An ablation's candidates against its control, round by round."""

from collections.abc import Sequence
from pathlib import Path

from schemas.cell_figures import Changed
from schemas.sweep import CellResult
from tasks.cells.answers import answers_changed
from tasks.cells.effects import effects, with_holm
from tasks.cells.tables import Ablated

Pairs = list[tuple[str, str]]


def ablated(home: Path, results: Sequence[CellResult]) -> list[Ablated]:
    """Each candidate over the rounds in which both it and the control finished, in the order of the cells.

    Raises AssayError for tables that cannot be read."""
    control = {each.repeat: each.run_id for each in results if each.cell.role == "control" and each.state == "finished"}
    own: dict[str, list[CellResult]] = {}
    for each in sorted(results, key=lambda each: (each.cell.index, each.repeat)):
        if each.cell.role == "candidate":
            own.setdefault(each.cell.name, []).append(each)
    pairs = {name: _pairs(cells, control) for name, cells in own.items()}
    found = with_holm(
        {
            name: effects(home, control=[one for one, _ in both], candidate=[other for _, other in both])
            if both
            else []
            for name, both in pairs.items()
        }
    )
    return [
        Ablated(
            name=name,
            effects=list(found[name]),
            changed=_changed(home, pairs[name]),
            failed=[each.error or each.state for each in cells if each.state in ("failed", "timeout")],
        )
        for name, cells in own.items()
    ]


def _pairs(cells: Sequence[CellResult], control: dict[int, str | None]) -> Pairs:
    """Runs of the control and of a candidate in the same round."""
    found = []
    for each in cells:
        beside = control.get(each.repeat)
        if each.state == "finished" and each.run_id is not None and beside is not None:
            found.append((beside, each.run_id))
    return found


def _changed(home: Path, pairs: Pairs) -> Changed | None:
    if not pairs:
        return None
    return answers_changed(home, control=[one for one, _ in pairs], candidate=[other for _, other in pairs])
