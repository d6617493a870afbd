"""The reporting step: one run's page, and its figures for those who show them elsewhere."""

from pathlib import Path

from tasks.report.build import write_report
from tasks.report.data import load_report_data
from tasks.report.figures import figures, to_png


def report_run(*, home: Path, run_id: str, path: Path) -> tuple[Path, dict[str, bytes]]:
    """Writes the report of a run from what is in the warehouse; gives its path and the figures as PNG."""
    data = load_report_data(home=home, run_id=run_id)
    drawn = figures(data)
    write_report(data=data, path=path, drawn=drawn)
    for figure in drawn.values():
        figure.set_layout_engine("none")  # it is laid out; doing it again takes half the time of a PNG
    return path, {name: to_png(figure) for name, figure in drawn.items()}
