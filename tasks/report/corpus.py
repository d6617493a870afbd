"""The page of a run over a corpus of schemas: one file that needs nothing outside itself and runs no script."""

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from schemas.corpus import BackendFigures
from tasks.corpus.answers import answers_by_split, answers_table
from tasks.corpus.figures import share_of, stored_masks
from tasks.corpus.read import Corpus
from tasks.corpus.tables import WRONG, backends_table, in_two, splits_table
from tasks.report import corpus_figures
from tasks.report.data import ReportData
from tasks.report.environment import HERE, environment
from tasks.report.figures.style import to_svg
from tasks.report.sections.section import Section
from warehouse.parquet import read_rows
from warehouse.schema.table import literal

_STYLES = ("report.css", "samples.css", "print.css")
_MOST = 60
"""Schemas that one list of the page has, of each backend; SQL has them all."""
_LONGEST = 300
_LOST = ("timeout", "crashed", "error")
Row = Mapping[str, Any]


def corpus_page(
    *,
    home: Path,
    run_id: str,
    corpus: Corpus,
    rows: Sequence[Row],
    found: Sequence[BackendFigures],
    notes: Sequence[str] = (),
    answers: Sequence[Row] = (),
    max_tokens: int | None = None,
) -> str:
    """The whole page, for `runs/<run_id>/report.html`.

    rows: those of `corpus_schemas`; answers: those of `corpus_answers`, of at most max_tokens; found: what they come
    to. Raises AssayError for tables that cannot be read."""
    backends = [each.backend for each in found if each.split is None]
    versions = {row["backend"]: row["backend_version"] for row in rows}
    examples = _examples(home, run_id, rows)
    shown = _Shown(
        wrong=_shortest_first(_listed(rows, WRONG, backends), examples),
        lost=_listed(rows, _LOST, backends),
        examples=examples,
        disputed=_disputed(home, run_id, rows),
    )
    css = "\n".join((HERE / name).read_text(encoding="utf-8") for name in _STYLES)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    templates = environment(ReportData(run={"run_id": run_id}))
    figures = _figures(home, run_id, rows, found, backends)
    answered = _answers(found, rows, answers, max_tokens)
    parts = _sections(
        corpus, answered=answered, run_id=run_id, rows=rows, found=found, versions=versions, notes=notes, shown=shown
    )
    inside = [
        (section, Markup(templates.get_template(section.template).render(figures=figures, **section.context)))  # noqa: S704 - escaped
        for section in parts
    ]
    own = {"css": Markup(css), "script": "", "policy": Markup(policy), "data": ""}  # noqa: S704 - our own
    return templates.get_template("report.html.j2").render(
        **own, run={"name": corpus.name}, run_id=run_id, sections=inside, figures={}, present=set()
    )


class _Shown:
    """What the page lists one by one."""

    def __init__(
        self,
        *,
        wrong: dict[str, list[Row]],
        lost: dict[str, list[Row]],
        examples: dict[tuple[str, str], Row],
        disputed: list[Row],
    ) -> None:
        self.wrong = wrong
        self.lost = lost
        self.examples = examples
        self.disputed = disputed


def _listed(rows: Sequence[Row], verdicts: Sequence[str], backends: Sequence[str]) -> dict[str, list[Row]]:
    found = {name: [row for row in rows if row["backend"] == name and row["verdict"] in verdicts] for name in backends}
    return {name: own for name, own in found.items() if own}


def _shortest_first(wrong: Mapping[str, list[Row]], examples: Mapping[tuple[str, str], Row]) -> dict[str, list[Row]]:
    """Those whose instance is short say most to a reader, and a page has only the first."""

    def length(row: Row) -> float:
        example = examples.get((row["case_id"], row["backend"]))
        return float("inf") if example is None else len(example["instance"])

    return {name: sorted(own, key=length) for name, own in wrong.items()}


def _examples(home: Path, run_id: str, rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """By schema and backend: the shortest instance that it gets wrong."""
    wrong = {(row["case_id"], row["backend"]) for row in rows if row["verdict"] in WRONG}
    columns = ["case_id", "backend", "test_index", "expected", "validated", "accepted", "instance", "revision"]
    found: dict[tuple[str, str], Row] = {}
    for row in read_rows(home, "corpus_tests", run_id, columns=columns) if wrong else []:
        key = (row["case_id"], row["backend"])
        told = row["accepted"] is not None and row["validated"] in (None, row["expected"])
        shown = key in wrong and told and row["accepted"] is not row["expected"]
        if shown and (key not in found or len(row["instance"]) < len(found[key]["instance"])):
            found[key] = row
    return found


def _disputed(home: Path, run_id: str, rows: Sequence[Row]) -> list[Row]:
    """The instances on which the corpus and the validator differ, each once, with the schema's name and split."""
    named = {row["case_id"]: row for row in rows if row["disputed"]}
    columns = ["case_id", "backend", "test_index", "expected", "validated", "instance", "revision"]
    found: dict[tuple[str, int], Row] = {}
    for row in read_rows(home, "corpus_tests", run_id, columns=columns) if named else []:
        if row["validated"] not in (None, row["expected"]) and row["case_id"] in named:
            case = named[row["case_id"]]
            key = (row["case_id"], row["test_index"])
            found[key] = {**row, "name": case["name"], "split": case["split"]}
    return [found[key] for key in sorted(found)]


def _figures(
    home: Path, run_id: str, rows: Sequence[Row], found: Sequence[BackendFigures], backends: Sequence[str]
) -> dict[str, Any]:
    masks: dict[str, list[Any]] = {name: [] for name in backends}
    for (backend, _), values in stored_masks(home, run_id).items():
        masks.setdefault(backend, []).append(values)
    mask_us = {name: np.concatenate(each) for name, each in masks.items() if each}
    compile_ms = {
        name: np.array(
            [
                (row["check_s"] + row["compile_s"]) * 1000
                for row in rows
                if row["backend"] == name and row["status"] == "accepted" and row["compile_s"] is not None
            ]
        )
        for name in backends
    }
    drawn = {
        "verdicts": (
            corpus_figures.draw_verdicts(found),
            corpus_figures.VERDICTS_TITLE,
            corpus_figures.verdicts_table(found),
        ),
        "by_split": (
            corpus_figures.draw_splits(found),
            corpus_figures.SPLITS_TITLE,
            corpus_figures.splits_numbers(found),
        ),
        "compile": (
            corpus_figures.draw_times(compile_ms, unit="ms"),
            corpus_figures.COMPILE_TITLE,
            corpus_figures.times_table(compile_ms, unit="ms"),
        ),
        "masks": (
            corpus_figures.draw_times(mask_us, unit="µs"),
            corpus_figures.MASKS_TITLE,
            corpus_figures.times_table(mask_us, unit="µs"),
        ),
    }
    svgs = {}
    for name, (figure, title, table) in drawn.items():
        if figure is not None:
            lines = "; ".join(", ".join(row) for row in table[1])
            svg = to_svg(figure, name=name, title=title, description=f"{', '.join(table[0])}: {lines}.")
            svgs[name] = {"svg": Markup(svg), "title": title, "table": table}  # noqa: S704 - drawn here
    return svgs


def _sections(
    corpus: Corpus,
    *,
    run_id: str,
    rows: Sequence[Row],
    found: Sequence[BackendFigures],
    versions: Mapping[str, str | None],
    notes: Sequence[str],
    shown: _Shown,
    answered: dict[str, Any],
) -> list[Section]:
    whole = [each for each in found if each.split is None]
    top = {
        "title": corpus.name,
        "sentence": _sentence(whole),
        "facts": _facts(corpus, run_id=run_id, rows=rows, versions=versions),
        "description": corpus.description,
        "notes": notes,
    }
    refused = _refused(rows)
    lists = {"most": _MOST, "longest": _LONGEST}
    parts: list[tuple[str, str, dict[str, Any], int | None, bool]] = [
        ("top", "Overview", top, None, True),
        ("backends", "Backends", {"tables": in_two(backends_table(found, versions=versions))}, None, True),
        ("splits", "By split", {"tables": in_two(splits_table(found))}, None, any(each.split for each in found)),
        ("answers", "A model's answers", answered, None, bool(answered["rows"])),
        ("wrong", "Silently wrong", {"wrong": shown.wrong, "examples": shown.examples, **lists},
         sum(map(len, shown.wrong.values())), bool(shown.wrong)),
        ("refused", "Refused", {"refused": refused, **lists}, sum(n for _, _, n in refused), bool(refused)),
        ("lost", "Out of time, crashed", {"lost": shown.lost, **lists}, sum(map(len, shown.lost.values())),
         bool(shown.lost)),
        ("disputed", "Disputed instances", {"disputed": shown.disputed, **lists}, len(shown.disputed),
         bool(shown.disputed)),
        ("sql", "Ask in SQL", {"queries": queries(run_id)}, None, True),
    ]  # fmt: skip
    return [
        Section(
            anchor=anchor,
            title=title,
            template="_sweep_sql.html.j2" if anchor == "sql" else f"_corpus_{anchor}.html.j2",
            context=context,
            count=count,
            frame="header" if anchor == "top" else "section",
        )
        for anchor, title, context, count, there in parts
        if there
    ]


def _answers(
    found: Sequence[BackendFigures], rows: Sequence[Row], answers: Sequence[Row], max_tokens: int | None
) -> dict[str, Any]:
    runs = dict.fromkeys((row["backend"], row["child_run_id"]) for row in answers if row["child_run_id"] is not None)
    return {
        "rows": answers_table(found),
        "splits": answers_by_split(found),
        "model": next((row["tokenizer"] for row in rows if row.get("tokenizer")), "the model"),
        "max_tokens": max_tokens,
        "runs": list(runs),
    }


def _sentence(whole: Sequence[BackendFigures]) -> str:
    told = []
    for each in whole:
        right = share_of(each, "right")
        takes = share_of(each, "accepted")
        if right is not None:
            told.append(f"{each.backend} is right on {right[0]:.0%}")
        elif takes is not None:
            told.append(f"{each.backend} takes {takes[0]:.0%}")
    if not told:
        return "Nothing was asked."
    of = "of those with instances " if any(each.with_tests for each in whole) else ""
    return f"{whole[0].schemas:,} schemas: {of}{', '.join(told)}."


def _facts(
    corpus: Corpus, *, run_id: str, rows: Sequence[Row], versions: Mapping[str, str | None]
) -> list[tuple[str, str]]:
    first: Row = next((row for row in rows if row.get("vllm_version")), {})
    drawn = f" of {corpus.of:,}" if corpus.of != len(corpus.cases) else ""
    return [
        ("Run", run_id),
        ("Schemas", f"{len(corpus.cases):,}{drawn}"),
        ("Instances", f"{sum(len(case.tests) for case in corpus.cases):,}"),
        ("Splits", f"{len(corpus.splits):,}"),
        ("vLLM", str(first.get("vllm_version") or "of unknown version")),
        ("Tokens", str(first.get("tokenizer") or "single bytes")),
        *((name, str(version or "of unknown version")) for name, version in versions.items()),
        ("Content", f"sha256:{corpus.fingerprint[:16]}…"),
    ]


def _refused(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    """(backend, what it or vLLM said, how many schemas), the most frequent first."""
    counted = Counter(
        (row["backend"], (row["message"] or "no reason given").splitlines()[0][:_LONGEST])
        for row in rows
        if row["verdict"] == "refused"
    )
    return [(backend, words, n) for (backend, words), n in counted.most_common()]


def queries(run_id: str) -> list[tuple[str, str]]:
    """(question, SQL) of questions that name this run."""
    run = literal(run_id)
    return [
        (
            "Which schemas does a backend take and get wrong?",
            "SELECT backend, split, name, verdict, over, under, keywords\n"
            f"FROM corpus_schemas\nWHERE run_id = {run} AND verdict IN ('over', 'under', 'both')\n"
            "ORDER BY backend, split, name;",
        ),
        (
            "Which keywords go with wrong or refused schemas?",
            "SELECT backend, keyword, count(*) AS schemas,\n"
            "  count(*) FILTER (verdict IN ('over', 'under', 'both')) AS wrong,\n"
            "  count(*) FILTER (verdict = 'refused') AS refused\n"
            "FROM corpus_schemas, unnest(keywords) AS each(keyword)\n"
            f"WHERE run_id = {run}\nGROUP BY ALL\nORDER BY wrong DESC, refused DESC;",
        ),
        (
            "Which schemas are slow to compile or to mask?",
            "SELECT backend, name, 1000 * (check_s + compile_s) AS compile_ms, mask_us_p99, mask_us_max\n"
            f"FROM corpus_schemas\nWHERE run_id = {run} AND status = 'accepted'\n"
            "ORDER BY compile_ms DESC\nLIMIT 20;",
        ),
        (
            "Which instances does a backend get wrong?",
            "SELECT backend, case_id, expected, accepted, why, instance\n"
            f"FROM corpus_tests\nWHERE run_id = {run} AND accepted <> expected\n"
            "  AND coalesce(validated, expected) = expected -- what is disputed counts for nobody\n"
            "ORDER BY length(instance);",
        ),
    ]
