"""Put a run's report together: one HTML file that needs nothing outside itself and runs nothing but its own script."""

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tasks.report.data import ReportData
from tasks.report.environment import HERE, environment
from tasks.report.figures import KINDS, svgs
from tasks.report.sections import sections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLES = ("report.css", "samples.css", "print.css")
_DATA = "<!-- data -->"
"""Where the sections' data go; no text of a run can hold it, as every `<` of theirs is escaped."""
_SCRIPTS = ("diff.js", "browser.js", "detail.js", "report.js")


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _figures(data: ReportData, drawn: "Mapping[str, Figure] | None") -> dict[str, dict[str, Any]]:
    """Each figure as SVG, with the numbers behind it as a table."""
    return {
        name: {"svg": Markup(svg), "title": KINDS[name].title, "table": KINDS[name].table(data)}  # noqa: S704 - drawn here, text escaped
        for name, svg in svgs(data, drawn=drawn).items()
    }


def pieces(data: ReportData, *, drawn: "Mapping[str, Figure] | None" = None) -> Iterator[str]:
    """The whole page in order, in pieces, so that a page of many samples is never held twice.

    Its content policy admits its own style and script by their hashes and nothing else; the samples' texts are data
    in base64 that the script unpacks.
    """
    css, script = _joined(_STYLES), _joined(_SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    templates = environment(data)
    shown = sections(data)
    shared = {
        "run": data.run,
        "run_id": data.run_id,
        "figures": _figures(data, drawn),
        "present": {section.anchor for section in shown},
    }
    inside = [
        (section, Markup(templates.get_template(section.template).render(**shared, **section.context)))  # noqa: S704 - escaped
        for section in shown
    ]
    own = {name: Markup(text) for name, text in (("css", css), ("script", script), ("policy", policy), ("data", _DATA))}  # noqa: S704 - our own
    before, _, after = (
        templates.get_template("report.html.j2").render(**own, **shared, sections=inside).partition(_DATA)
    )
    yield before
    for section in shown:
        for name, packed in section.data.items():
            yield f'<script type="text/plain" id="{name}">{packed}</script>\n'
    yield after


def render(data: ReportData, *, drawn: "Mapping[str, Figure] | None" = None) -> str:
    """The whole page, with the figures in `drawn` or with its own."""
    return "".join(pieces(data, drawn=drawn))


def write_report(*, data: ReportData, path: Path, drawn: "Mapping[str, Figure] | None" = None) -> Path:
    """Write the run's report to `path` (its folder is made if need be) and return the path.

    `drawn` is what `tasks.report.figures.figures` gave for the same data, so that nothing is drawn twice. The file
    appears whole or not at all. Raises OSError where it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(piece.encode("utf-8") for piece in pieces(data, drawn=drawn))
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path
