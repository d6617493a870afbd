"""`assay gate`: the gates of a finished run, judged from what is stored."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from flows.commands.answers import replace_file
from flows.commands.output import WIDTH_OF_A_FILE, print_json, stdout_console, visible
from flows.commands.promote import tell_tracking
from flows.console import gate_table
from flows.runtime import assay_home
from schemas.errors import ConfigError, RunError
from schemas.experiment import Group as DatasetGroup
from schemas.gate import Gate
from tasks.compare.names import find_run
from tasks.config.resolve import load_experiment
from tasks.gate.evaluate import evaluate, judged_run
from tasks.gate.junit import junit
from tasks.gate.keep import save_evaluation
from tasks.gate.markdown import markdown
from tasks.gate.model import Evaluation
from tasks.gate.stage import write_files
from tasks.gate.words import sentence
from warehouse.parquet import read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to judge. run: as a user names it; file: another experiment's gates than the run's own; against: in place
    of what the gates name."""

    run: str
    file: str | None = None
    against: Sequence[str] = ()
    save: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How to show it. flips: so many changed samples of each metric and way."""

    flips: int = 10
    markdown: bool = False
    as_json: bool = False
    out: Path | None = None
    junit: Path | None = None


def judge_and_show(asked: Asked, shown: Shown) -> int:
    """Judges, keeps the verdicts where the gates are the run's own, shows them; gives 0, 3 where a gate fails, 2 where
    one cannot be judged.

    Raises ConfigError for a run that is not finished or has no gates, and a pinned run that is not there."""
    if shown.markdown and shown.as_json:
        raise ConfigError.one("--markdown and --json are two formats", suggestion="give one of them")
    home = assay_home()
    named = find_run(home, asked.run)
    if named.arm is not None:
        raise ConfigError.one(f"{asked.run} names an arm", suggestion="a gate has its own arm: name the run alone")
    gates, groups, datasets = _gates(home, named.run_id, file=asked.file)
    if asked.against:
        gates = [_against(gate, asked.against) for gate in gates]
    found = evaluate(judged_run(home, named.run_id, groups=groups, datasets=datasets), gates)
    kept = asked.save and asked.file is None and not asked.against
    if kept:
        try:
            save_evaluation(home, found)
            write_files(home / "runs" / found.run_id, found)
        except OSError as error:
            raise RunError(f"the verdicts could not be kept: {error} (make room under {home}, or --no-save)") from error
        tell_tracking([found.run_id])
    if shown.junit is not None:
        xml = junit(found)
        replace_file(shown.junit, lambda path: _write(path, xml))
    _show(found, shown, kept=kept)
    return found.exit_code


def _gates(home: Path, run_id: str, *, file: str | None) -> tuple[list[Gate], dict[str, DatasetGroup], list[str]]:
    """The gates to judge, the groups they name and the run's datasets. Raises ConfigError where there are none."""
    [run] = read_rows(home, "runs", run_id, columns=["status", "config", "revision"])
    if run["status"] != "finished":
        raise ConfigError.one(
            f"run {run_id} is {run['status']}: only a finished run has gates to judge",
            suggestion=f"assay run --resume {run_id}" if run["status"] != "running" else "wait for it",
        )
    if file is not None:
        experiment = load_experiment(file)
        gates, groups = list(experiment.gates), dict(experiment.groups)
    else:
        stored = json.loads(run["config"]) if run["config"] else {}
        gates = [Gate.model_validate(each) for each in stored.get("gates", ())]
        groups = {name: DatasetGroup.model_validate(each) for name, each in stored.get("groups", {}).items()}
    if not gates:
        where = f"run {run_id}" if file is None else f"{file}"
        raise ConfigError.one(
            f"{where} has no `gates:`", suggestion="name a file that has some: assay gate RUN --file EXPERIMENT.yaml"
        )
    datasets = [row["dataset"] for row in read_rows(home, "datasets", run_id, columns=["dataset", "revision"])]
    return gates, groups, datasets


def _against(gate: Gate, names: Sequence[str]) -> Gate:
    """The gate held against these; one against a number stays as it is. Raises ConfigError for no name of a run."""
    if gate.rule != "not_worse":
        return gate
    try:
        return Gate.model_validate(gate.model_dump() | {"against": list(names)})
    except ValueError as error:
        raise ConfigError.one(
            f"{', '.join(names)} does not name runs",
            key="--against",
            suggestion="last_green, baseline:NAME or the whole id of a run, each once",
        ) from error


def json_object(evaluation: Evaluation) -> dict[str, Any]:
    """All verdicts for another program."""
    return {
        "sentence": sentence(evaluation),
        "run_id": evaluation.run_id,
        "name": evaluation.name,
        "model": evaluation.model,
        "verdict": evaluation.word,
        "gates": [each.model_dump(mode="json") | {"fails": each.fails} for each in evaluation.verdicts],
        "notes": list(evaluation.notes),
        "decided_at": evaluation.decided_at,
        "exit_code": evaluation.exit_code,
    }


def _show(evaluation: Evaluation, shown: Shown, *, kept: bool) -> None:
    ending = "" if shown.out is None else shown.out.suffix.lower()
    if shown.as_json or (ending == ".json" and not shown.markdown):
        found = json_object(evaluation) | {"saved": kept}
        if shown.out is None:
            print_json(found)
            return
        text = json.dumps(found, ensure_ascii=False, indent=1, default=str) + "\n"
    elif shown.markdown or ending == ".md":
        text = markdown(evaluation, flips=shown.flips)
    else:
        text = ""
    if shown.out is not None:
        replace_file(shown.out, lambda path: _write(path, text) if text else _write_table(path, evaluation))
        Console(stderr=True, highlight=False).print(str(shown.out), markup=False, soft_wrap=True)
    elif text:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        stdout_console().print(_rendered(evaluation))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_table(path: Path, evaluation: Evaluation) -> None:
    with path.open("w", encoding="utf-8") as stream:
        Console(file=stream, width=WIDTH_OF_A_FILE, highlight=False).print(_rendered(evaluation))


def _rendered(evaluation: Evaluation) -> Group:
    model = "" if evaluation.model is None else f", {visible(evaluation.model)}"
    notes = [Text(f"! {visible(note)}", style="yellow") for note in evaluation.notes]
    return Group(
        Text(f"run       {evaluation.run_id}  {visible(evaluation.name)}{model}"),
        gate_table(evaluation.verdicts),
        "",
        Text(visible(sentence(evaluation)), style="bold"),
        *notes,
    )


__all__ = ["Asked", "Shown", "json_object", "judge_and_show"]
