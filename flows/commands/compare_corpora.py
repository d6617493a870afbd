"""`assay compare` of two runs over a corpus of schemas: backend by backend, schema by schema."""

import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from flows.commands.answers import replace_file
from flows.commands.compare import Asked, Shown, format_of
from flows.commands.output import WIDTH_OF_A_FILE, json_line, rows_table, stdout_console, visible
from flows.runtime import assay_home
from schemas.errors import ConfigError, RunError
from tasks.compare.names import Named
from tasks.corpus.compare import BackendCompared, Changed, CorpusComparison, compare_corpora, save
from tasks.corpus.compare_markdown import markdown
from tasks.corpus.compare_words import FIGURES
from tasks.report.numbers import DASH

_GATE_FAILED = 3


def compare_and_show(asked: Asked, shown: Shown, *, candidate: Named, baseline: Named, fail_on: str | None) -> int:
    """Compares, keeps it, shows it; 0, or 3 where a verdict is what fail_on names (`undecided` means `worse` too).

    Raises ConfigError for what cannot be compared or shown so, RunError where it cannot be kept."""
    format_of(shown)
    if asked.metrics:
        raise ConfigError.one("runs over a corpus have no metrics to choose from", key="--metric")
    home = assay_home()
    found = compare_corpora(
        home,
        candidate=candidate.run_id,
        baseline=baseline.run_id,
        arms=(candidate.arm, baseline.arm),
        margin=asked.margin,
    )
    if asked.save:
        try:
            save(home, found)
        except OSError as error:
            raise RunError(
                f"the comparison could not be kept: {error} (make room under {home}, or give --no-save)"
            ) from error
    failing = {None: (), "worse": ("worse",), "undecided": ("worse", "undecided")}[fail_on]
    words = [share.verdict for backend in found.backends for share in backend.shares]
    code = _GATE_FAILED if any(word in failing for word in words) else 0
    if shown.html is not None:
        from tasks.report.corpus_compare import render  # noqa: PLC0415 - draws a figure: slow to import

        page = render(found)
        replace_file(shown.html, lambda path: _write_text(path, page))
    _show(found, shown, code=code, saved=asked.save)
    return code


def _show(found: CorpusComparison, shown: Shown, *, code: int, saved: bool) -> None:
    form, text = format_of(shown), ""
    if form == "markdown":
        text = markdown(found, most=shown.flips)
    elif form == "json":
        page = None if shown.html is None else str(shown.html)
        text = json_line(asdict(found) | {"saved": saved, "html": page, "exit_code": code})

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8") as stream:
            if text:
                stream.write(text)
            else:
                Console(file=stream, width=WIDTH_OF_A_FILE, highlight=False).print(_rendered(found, flips=shown.flips))

    if shown.out is not None:
        replace_file(shown.out, write)
        _say(shown.out)
    elif text:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        stdout_console().print(_rendered(found, flips=shown.flips))
    if form != "json" or shown.out is not None:
        _say(shown.html)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _say(path: Path | None) -> None:
    if path is not None:
        Console(stderr=True, highlight=False).print(str(path), markup=False, soft_wrap=True)


def _rendered(found: CorpusComparison, *, flips: int) -> Group:
    parts: list[RenderableType] = [
        Text(f"candidate {found.candidate}"),
        Text(f"baseline  {found.baseline}, margin {found.margin:g}"),
        "",
        rows_table([row for backend in found.backends for row in _rows(backend)]),
    ]
    parts += [Text(f"! {visible(note)}", style="yellow") for note in found.notes]
    for backend in found.backends:
        if backend.changed and flips:
            some = backend.changed[:flips]
            more = f" (the first {len(some)})" if len(some) < len(backend.changed) else ""
            head = f"{backend.candidate}: {len(backend.changed)} schemas came out otherwise{more}"
            parts += ["", Text(head, style="bold"), rows_table([_changed(each) for each in some])]
    return Group(*parts)


def _rows(backend: BackendCompared) -> list[dict[str, str]]:
    same = backend.candidate == backend.baseline
    name = backend.candidate if same else f"{backend.candidate} − {backend.baseline}"
    versions = f"{backend.candidate_version or DASH} − {backend.baseline_version or DASH}"
    rows = []
    for share in backend.shares:
        rows.append(
            {
                "backend": name,
                "versions": versions,
                "figure": FIGURES[share.metric],
                "candidate": DASH if share.candidate is None else f"{share.candidate:.1%}",
                "baseline": DASH if share.baseline is None else f"{share.baseline:.1%}",
                "difference": DASH
                if share.effect is None or share.lo is None or share.hi is None
                else f"{share.effect:+.1%} [{share.lo:+.1%}, {share.hi:+.1%}]",
                "p (Holm)": DASH if share.p_adjusted is None else f"{share.p_adjusted:.3g}",
                "verdict": share.verdict,
                "n": f"{share.n_pairs:,}",
            }
        )
    for ratio in backend.ratios:
        bounded = ratio.value is not None and ratio.lo is not None and ratio.hi is not None
        told = f"x {ratio.value:.3g} [{ratio.lo:.3g}, {ratio.hi:.3g}]" if bounded else DASH
        row = {"backend": name, "versions": versions, "figure": ratio.figure, "candidate": "", "baseline": ""}
        rows.append(row | {"difference": told, "p (Holm)": "", "verdict": "", "n": f"{ratio.n:,}"})
    return rows


def _changed(each: Changed) -> dict[str, str]:
    return {
        "schema": visible(each.name),
        "split": visible(each.split),
        "before": each.before,
        "after": each.after,
        "words": visible((each.message or "").split("\n")[0])[:120],
    }
