"""A comparison of two runs over a corpus as one page that needs nothing outside itself and runs no script."""

from typing import Any

from tasks.compare import words
from tasks.corpus import compare_words as told
from tasks.corpus.compare import BackendCompared, CorpusComparison
from tasks.report.compare_page import effects, page
from tasks.report.data import ReportData
from tasks.report.environment import environment
from tasks.report.numbers import is_number
from tasks.report.sections.section import Section
from tasks.report.text import plain
from warehouse.schema.table import literal

_TITLE = "Candidate minus baseline, paired by schema"
_MOST = 60
"""Schemas that came out otherwise which the page has, of each backend; SQL has them all."""
_LONGEST = 300
_LABEL = 60


def render(found: CorpusComparison) -> str:
    """The whole page. Its content policy admits its own style by its hash, and no script, picture or address."""
    templates = environment(ReportData(run={"run_id": found.candidate}))
    shared = {"c": found, "words": words, "told": told, "most": _MOST, "longest": _LONGEST}
    title = f"{found.sides[0].name} against {found.sides[1].name}"
    return page(templates, _sections(found), shared=shared, title=title, run_id=found.candidate)


def _sections(found: CorpusComparison) -> list[Section]:
    changed = [backend for backend in found.backends if backend.changed]
    times = told.time_rows(found)
    versions = {(each.candidate, each.baseline): told.versions(each) for each in found.backends}
    shares = {"results": told.results(found), "versions": versions, "figures": _figures(found)}
    parts: list[tuple[str, str, str, dict[str, Any], int | None, bool]] = [
        ("top", "Verdict", "_corpus_compare_top.html.j2", {"results": shares["results"]}, None, True),
        ("shares", "Backends", "_corpus_compare_shares.html.j2", shares, None, True),
        ("splits", "Coverage by split", "_corpus_compare_splits.html.j2", {"rows": told.coverage_rows(found)}, None,
         True),
        ("changed", "Schemas that changed", "_corpus_compare_changed.html.j2", {"changed": changed},
         sum(len(backend.changed) for backend in changed), bool(changed)),
        ("times", "Times", "_corpus_compare_times.html.j2", {"rows": times}, None, bool(times)),
        ("sql", "Ask in SQL", "_compare_sql.html.j2", {"queries": queries(found)}, None, True),
    ]  # fmt: skip
    return [
        Section(
            anchor=anchor,
            title=title,
            template=template,
            context=context,
            short={"changed": "Changed schemas"}.get(anchor),
            count=count,
            frame="header" if anchor == "top" else "section",
        )
        for anchor, title, template, context, count, there in parts
        if there
    ]


def _figures(found: CorpusComparison) -> dict[str, Any]:
    rows = [result for result in told.results(found) if is_number(result.comparison.effect)]
    labels = [plain(f"{result.arms} · {told.FIGURES[result.comparison.metric]}")[-_LABEL:] for result in rows]
    return {"effects": effects(rows, labels, title=_TITLE)} if rows else {}


def queries(found: CorpusComparison) -> list[tuple[str, str]]:
    """(question, SQL) of questions that name these two runs."""
    own, other = literal(found.candidate), literal(found.baseline)
    return [
        (
            "What came of this comparison?",
            "SELECT dataset AS corpus, metric, candidate_arm, baseline_arm, candidate, baseline, effect, lo, hi,"
            f" verdict\nFROM comparisons\nWHERE run_id = {own} AND baseline_run_id = {other}\n"
            "ORDER BY candidate_arm, metric;",
        ),
        (
            "Which schemas came out otherwise, all of them?",
            "SELECT new.backend, new.split, new.name, old.verdict AS before, new.verdict AS now,\n"
            "  coalesce(new.message, old.message) AS words\n"
            "FROM corpus_schemas AS new JOIN corpus_schemas AS old USING (case_id)\n"
            f"WHERE new.run_id = {own} AND old.run_id = {other} AND new.verdict <> old.verdict\n"
            f"  AND (new.backend, old.backend) IN ({', '.join(map(_pair, found.backends))})\n"
            "ORDER BY new.backend, new.split, new.name;",
        ),
        (
            "Which schemas take much longer to compile?",
            "SELECT new.backend, new.name, 1000 * (old.check_s + old.compile_s) AS before_ms,\n"
            "  1000 * (new.check_s + new.compile_s) AS now_ms\n"
            "FROM corpus_schemas AS new JOIN corpus_schemas AS old USING (case_id)\n"
            f"WHERE new.run_id = {own} AND old.run_id = {other}\n"
            "  AND new.status = 'accepted' AND old.status = 'accepted'\n"
            f"  AND (new.backend, old.backend) IN ({', '.join(map(_pair, found.backends))})\n"
            "ORDER BY now_ms - before_ms DESC\nLIMIT 20;",
        ),
    ]


def _pair(backend: BackendCompared) -> str:
    return f"({literal(backend.candidate)}, {literal(backend.baseline)})"
