"""The step of the gates: judged once the run has its scores, before its last row is written."""

from pathlib import Path

from schemas.gate import GateVerdict
from tasks.compare.save import rows_of
from tasks.gate.evaluate import evaluate, judged_run
from tasks.gate.junit import junit
from tasks.gate.keep import gate_rows
from tasks.gate.markdown import markdown
from tasks.gate.model import Evaluation
from tasks.gate.words import sentence
from tasks.session import Session

MARKDOWN, JUNIT = "gates.md", "gates.xml"
"""In the run's folder, and among MLflow's artifacts."""
PAGE = "compare-{run_id}.html"
"""The page of the comparison with one other run."""


def judge_gates(session: Session) -> list[GateVerdict]:
    """Judges every gate of the run; keeps the verdicts and comparisons, writes gates.md, gates.xml and a page for each
    run that a gate was held against. Raises ConfigError for a pinned run that went away since the run began."""
    run, experiment = session.run, session.run.experiment
    judged = judged_run(
        run.home, run.run_id, groups=experiment.groups, datasets=[each.name for each in experiment.datasets]
    )
    evaluation = evaluate(judged, experiment.gates, within_run=True)
    for comparison in evaluation.comparisons:
        session.store.write("comparisons", rows_of(comparison))
    session.store.write("gates", gate_rows(evaluation))
    write_files(run.folder, evaluation)
    return list(evaluation.verdicts)


def write_files(folder: Path, evaluation: Evaluation) -> None:
    """gates.md, gates.xml, and the comparisons as pages."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKDOWN).write_text(markdown(evaluation), encoding="utf-8")
    (folder / JUNIT).write_text(junit(evaluation), encoding="utf-8")
    from tasks.report.compare_page import render  # noqa: PLC0415 - draws a figure: slow to import

    for comparison in evaluation.comparisons:
        if comparison.results or comparison.speed:
            page = folder / PAGE.format(run_id=comparison.baseline.run_id)
            page.write_text(render(comparison), encoding="utf-8")


__all__ = ["JUNIT", "MARKDOWN", "PAGE", "judge_gates", "sentence", "write_files"]
