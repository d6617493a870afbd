"""What the page of a sweep, an ablation or a tuning is made of."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from schemas.base import Config
from schemas.cell_figures import Effect
from schemas.sweep import CellResult
from schemas.tune import Confirmation, Tuned
from tasks.cells.effects import effects, with_holm
from tasks.cells.figures import figures_of
from tasks.cells.tables import Ablated, Arm, CellRun, cell_runs
from warehouse.parquet import read_rows

Kind = Literal["sweep", "ablate", "tune"]
_ENGINE_FACTS = ["model", "device", "device_count", "engine_version"]
_SIDES = {"winner": "winner", "plan": "the plan", "vllm": "vLLM's defaults"}


class Page(Config):
    """Everything that the page shows; it reads nothing else.

    facts: (name, value) of where and on what it ran. reports: runs whose own report lies beside it. arms, against: what
    was run in turns at the end, the first of them against each of the others."""

    kind: Kind
    run_id: str
    title: str
    began: str | None = None
    facts: list[tuple[str, str]] = Field(default_factory=list)
    matrix: dict[str, list[Any]] = Field(default_factory=dict)
    runs: list[CellRun] = Field(default_factory=list)
    reports: list[str] = Field(default_factory=list)
    ablation: list[Ablated] = Field(default_factory=list)
    tuned: Tuned | None = None
    arms: list[Arm] = Field(default_factory=list)
    against: dict[str, list[Effect]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


def read_facts(home: Path, run_id: str, results: list[CellResult]) -> tuple[Kind, list[tuple[str, str]]]:
    """Which flow it is, and on what it ran: base, machine, model and versions, of the first cell that finished."""
    runs = read_rows(home, "runs", run_id, columns=["flow", "config", "assay_version"], parse_json=True)
    row: dict[str, Any] = runs[-1] if runs else {"flow": "sweep", "config": None, "assay_version": None}
    kind: Kind = row["flow"] if row["flow"] in ("ablate", "tune") else "sweep"
    facts = [("Run", run_id)]
    base = row["config"].get("base") if isinstance(row["config"], dict) else None
    if base:
        facts.append(("Experiment", Path(str(base)).name if "/" in str(base) else str(base)))
    facts += _engine_facts(home, results)
    if row["assay_version"]:
        facts.append(("assay", row["assay_version"]))
    return kind, facts


def reports_of(home: Path, run_ids: list[str]) -> list[str]:
    """Those whose report is there."""
    return [run_id for run_id in dict.fromkeys(run_ids) if (home / "runs" / run_id / "report.html").is_file()]


def confirmed(home: Path, confirmation: Confirmation | None) -> tuple[list[Arm], dict[str, list[Effect]]]:
    """The arms of a tuning's confirmation, and the winner against each of the others over the rounds of both."""
    if confirmation is None:
        return [], {}
    runs = {
        _SIDES[side.name]: [
            run_id if value is not None else None for run_id, value in zip(side.run_ids, side.values, strict=True)
        ]
        for side in confirmation.sides
    }
    arms = [
        Arm(name=name, figures=[{} if run_id is None else figures_of(home, run_id) for run_id in own])
        for name, own in runs.items()
    ]
    winner = runs.get("winner", [])
    against = {}
    for name, own in runs.items():
        both = [(one, other) for one, other in zip(own, winner, strict=True) if one is not None and other is not None]
        if name != "winner" and both:
            against[name] = effects(home, control=[one for one, _ in both], candidate=[other for _, other in both])
    return arms, with_holm(against)


def page_of(
    *,
    home: Path,
    run_id: str,
    title: str,
    results: list[CellResult],
    matrix: dict[str, list[Any]],
    ablation: list[Ablated],
    tuned: Tuned | None,
    notes: list[str],
) -> Page:
    """Reads what the page shows beside what it is given. Raises AssayError for tables that cannot be read."""
    kind, facts = read_facts(home, run_id, results)
    arms, against = confirmed(home, tuned.confirmation if tuned else None)
    of_trials = [each for trial in (tuned.trials if tuned else []) for each in trial.run_ids]
    return Page(
        kind=kind,
        run_id=run_id,
        title=title,
        began=min((each.started_at for each in results if each.started_at), default=None),
        facts=facts,
        matrix=matrix,
        runs=cell_runs(home, results),
        reports=reports_of(home, [*of_trials, *(each.run_id for each in results if each.run_id)]),
        ablation=ablation,
        tuned=tuned,
        arms=arms,
        against=against,
        notes=notes,
    )


def _engine_facts(home: Path, results: list[CellResult]) -> list[tuple[str, str]]:
    """What the engines were; where cells have several, each with the first cell that has it."""
    found: dict[str, dict[str, str]] = {"Model": {}, "Machine": {}, "vLLM": {}}
    for each in sorted(results, key=lambda each: each.order_index):
        if each.run_id is None or each.state != "finished":
            continue
        for row in read_rows(home, "engines", each.run_id, columns=_ENGINE_FACTS)[-1:]:
            count = row["device_count"]
            device = f"{row['device']} ({count})" if count and count > 1 else row["device"]
            for name, value in (("Model", row["model"]), ("Machine", device), ("vLLM", row["engine_version"])):
                if value:
                    found[name].setdefault(str(value), each.cell.name)
    return [
        (name, ", ".join(f"{value} ({cell})" if len(cells) > 1 else value for value, cell in cells.items()))
        for name, cells in found.items()
        if cells
    ]
