"""A comparison of two runs over a corpus as GitHub's Markdown. Nothing that a corpus or a backend wrote is more than
text."""

from tasks.compare import words
from tasks.compare.markdown import MARKS, code, cut, escaped, opening, table
from tasks.corpus import compare_words as told
from tasks.corpus.compare import BackendCompared, Changed, CorpusComparison
from tasks.report.numbers import DASH


def markdown(found: CorpusComparison, *, most: int = 10) -> str:
    """Verdicts, coverage by split, times, and of each backend at most so many schemas that came out otherwise."""
    parts = opening(
        told.sentence(found),
        sides=[(each.run_id, each.name) for each in found.sides],
        paired_by=f"schema; margin {found.margin:g}",
        results=_results(found),
        notes=found.notes,
    )
    parts.append(_rows("Coverage by split", told.coverage_rows(found), texts=2))
    times = told.time_rows(found)
    if times:
        parts.append(_rows("Times", times, texts=2))
    parts += [_changed(backend, most=most) for backend in found.backends if most and backend.changed]
    return "\n\n".join(parts) + "\n"


def _results(found: CorpusComparison) -> str:
    named = {(each.candidate, each.baseline): told.versions(each) for each in found.backends}
    rows = []
    for result in told.results(found):
        own = result.comparison
        one, two = words.means(result)
        rows.append(
            (
                f"{MARKS[own.verdict]} {own.verdict}",
                escaped(result.arms),
                escaped(named[own.candidate_arm, own.baseline_arm]),
                told.FIGURES[own.metric],
                one,
                two,
                words.effect(result),
                words.interval(result),
                words.p_value(own.p_adjusted).replace("<", "&lt;"),
                words.changed(result),
                words.count(own.n_pairs),
            )
        )
    heads = ("Verdict", "Backend", "Version", "Figure", "Candidate", "Baseline", "Difference", "95 % interval")
    return table((*heads, "p (Holm)", "Won / lost / tied", "Schemas"), rows, right=range(4, 11))


def _rows(head: str, rows: list[dict[str, str]], *, texts: int) -> str:
    """A table to unfold. texts: the columns before the numbers."""
    cells = [[escaped(cell) for cell in row.values()] for row in rows]
    shown = table(list(rows[0]), cells, right=range(texts, len(rows[0])))
    return f"<details><summary>{head}</summary>\n\n{shown}\n\n</details>"


def _changed(backend: BackendCompared, *, most: int) -> str:
    some = backend.changed[:most]
    shown = table(("", "Schema", "Split", "Before", "Now", "Words"), [_change(each) for each in some])
    counts = ", ".join(f"{change} {n:,}" for change, n in told.counted(backend.changed))
    left = len(backend.changed) - len(some)
    more = f"\n\nand {left:,} more" if left else ""
    head = f"{escaped(told.backend_name(backend))}: {len(backend.changed):,} schemas came out otherwise"
    return f"<details><summary>{head}</summary>\n\n{escaped(counts)}\n\n{shown}{more}\n\n</details>"


def _change(each: Changed) -> tuple[str, ...]:
    said = told.said(each)
    return (
        told.way(each),
        code(cut(each.name)),
        escaped(cut(each.split)),
        escaped(each.before),
        escaped(each.after),
        DASH if said is None else escaped(cut(said.split("\n")[0])),
    )
