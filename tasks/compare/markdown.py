"""A comparison as GitHub's Markdown, for a pull request. Nothing that a model or a config wrote is more than text."""

import re
from collections.abc import Iterable, Sequence

from tasks.compare import words
from tasks.compare.model import Answer, Flip, RunComparison
from tasks.report.numbers import DASH
from tasks.report.text import plain, shortened

MARKS = {"worse": "❌", "undecided": "❔", "better": "✅", "same": "➖"}
_SPECIAL = re.compile(r"[\\`*_\[\]|~!]")
_APART = re.compile(r"[@#$]")
"""What GitHub looks for in the text once it is made, where a backslash is gone: it calls people, links numbers, sets
formulas. In an element of its own each is a mere sign."""
_CODES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "://": "&colon;//", "www.": "www&period;"}
_TEXT = 160
_DIFFERENCES = 30


def markdown(comparison: RunComparison, *, flips: int = 10) -> str:
    """Verdict, table, what flipped (at most so many of each result and way), what else differs, times."""
    candidate, baseline = comparison.candidate, comparison.baseline
    parts = opening(
        words.sentence(comparison),
        sides=[(candidate.label, candidate.name), (baseline.label, baseline.name)],
        paired_by=f"sample; margin {comparison.margin:g}" if comparison.results else "load",
        results="\n\n".join(
            part for part in (_results(comparison) if comparison.results else "", _speed(comparison)) if part
        ),
        notes=comparison.notes,
    )
    if flips and comparison.flips:
        parts.append(_flips(comparison, most=flips))
    if comparison.differences:
        parts.append(_differences(comparison))
    times = _times(comparison)
    if times:
        parts.append(times)
    return "\n\n".join(parts) + "\n"


def opening(
    sentence: str, *, sides: Sequence[tuple[str, str]], paired_by: str, results: str, notes: Sequence[str]
) -> list[str]:
    """What every comparison begins with. sides: label and name of the candidate and of the baseline; results: the table
    of verdicts."""
    (one, its_name), (other, others_name) = sides
    parts = [
        f"**{escaped(sentence)}**",
        f"Candidate {code(one)} ({escaped(its_name)}) against baseline {code(other)} ({escaped(others_name)}), "
        f"paired by {paired_by}.",
        results,
    ]
    if notes:
        parts.append("\n".join(f"- ⚠️ {escaped(note)}" for note in notes))
    return parts


def escaped(text: str) -> str:
    """Text that stays text: no markup, no link, no picture, no tag, one line."""
    shown = _SPECIAL.sub(lambda found: f"\\{found[0]}", plain(text))
    for wrong, right in _CODES.items():
        shown = shown.replace(wrong, right)
    shown = _APART.sub(lambda found: f"<span>{found[0]}</span>", shown)
    return shown.replace("\n", " ⏎ ").replace("\t", " ")


def code(text: str) -> str:
    """The same in type of one width."""
    return f"<code>{escaped(text)}</code>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """A table. right: which columns hold numbers. Cells are escaped already."""
    lines = [f"| {' | '.join(heads)} |"]
    lines.append(f"| {' | '.join('---:' if place in right else '---' for place in range(len(heads)))} |")
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _results(comparison: RunComparison) -> str:
    rows = []
    for result in comparison.results:
        own = result.comparison
        one, two = words.means(result)
        rows.append(
            (
                f"{MARKS[own.verdict]} {own.verdict}",
                code(result.name),
                escaped(result.arms),
                one,
                two,
                words.effect(result),
                words.interval(result),
                words.p_value(own.p_adjusted).replace("<", "&lt;"),
                words.changed(result),
                words.count(own.n_pairs),
                words.count(own.n_needed),
            )
        )
    heads = (
        "Verdict",
        "Metric",
        "Arm",
        "Candidate",
        "Baseline",
        "Difference",
        "95 % interval",
        "p (Holm)",
        "Won / lost / tied",
        "Pairs",
        "Would decide",
    )
    return table(heads, rows, right=range(3, len(heads)))


def _speed(comparison: RunComparison) -> str:
    """The measured loads; nothing where none is in both."""
    if not comparison.speed:
        return ""
    heads = (
        "Verdict",
        "Load",
        "Speed",
        "Candidate",
        "Baseline",
        "Change",
        "95 % interval",
        "p (Holm)",
        "Repeats",
        "Would decide",
    )
    rows = [
        (
            f"{MARKS[each.found.word]} {each.found.word}",
            code(each.point_id if each.candidate_arm == each.baseline_arm else f"{each.name}, {each.arms}"),
            code(each.figure),
            *(escaped(text) for text in words.speed_medians(each)),
            words.speed_effect(each),
            words.speed_interval(each),
            words.p_value(each.p_adjusted).replace("<", "&lt;"),
            words.count(each.found.repeats),
            words.count(each.found.n_needed),
        )
        for each in comparison.speed
    ]
    told = [words.speed_basis(comparison), *words.speed_reasons(comparison)]
    return f"{table(heads, rows, right=range(3, len(heads)))}\n\n{escaped(' '.join(told))}"


def _flips(comparison: RunComparison, *, most: int) -> str:
    rows = []
    for result in comparison.results:
        own = comparison.flips_of(result)
        for change in ("lost", "won"):
            for flip in [each for each in own if each.change == change][:most]:
                rows.append(_flip_row(flip))
    total = len(comparison.flips)
    head = f"{len(rows)} of {total} samples that changed" if len(rows) < total else f"{total} samples that changed"
    shown = table(
        ("", "Sample", "Metric", "Target", "Candidate", "Its answer", "Baseline", "Its answer"), rows, right=(4, 6)
    )
    return f"<details><summary>{head}</summary>\n\n{shown}\n\n</details>"


def _flip_row(flip: Flip) -> tuple[str, ...]:
    metric = f"{flip.dataset}.{flip.metric}"
    return (
        flip.change,
        code(cut(flip.sample_id)),
        code(metric),
        code(cut(flip.target)) if flip.target is not None else DASH,
        words.value(flip.candidate),
        _said(flip.candidate_answers),
        words.value(flip.baseline),
        _said(flip.baseline_answers),
    )


def _said(answers: Sequence[Answer]) -> str:
    if not answers:
        return DASH
    first = answers[0]
    text = first.output if first.extracted is None else first.extracted
    more = f" and {len(answers) - 1} more" if len(answers) > 1 else ""
    return (DASH if text is None else code(cut(text))) + more


def cut(text: str) -> str:
    """Its head and its tail, where it is long."""
    head, left_out, tail = shortened(text, limit=_TEXT)
    return f"{head} … {tail}" if left_out else head


def _differences(comparison: RunComparison) -> str:
    rows = [
        (
            escaped(cut(each.what)),
            *(DASH if side is None else code(cut(side)) for side in (each.candidate, each.baseline)),
        )
        for each in comparison.differences[:_DIFFERENCES]
    ]
    more = len(comparison.differences) - len(rows)
    after = f"\n\nand {more} more" if more > 0 else ""
    shown = table(("", "Candidate", "Baseline"), rows)
    return (
        f"<details><summary>{len(comparison.differences)} other differences</summary>\n\n{shown}{after}\n\n</details>"
    )


def _times(comparison: RunComparison) -> str:
    rows = [
        (
            code(f"{timing.name}{f' ({timing.arm})' if timing.arm else ''}"),
            words.value(timing.candidate),
            words.value(timing.baseline),
            words.ratio(timing),
        )
        for timing in words.shown_times(comparison)
    ]
    if not rows:
        return ""
    shown = table(("Timing", "Candidate", "Baseline", "Ratio"), rows, right=(1, 2, 3))
    return f"<details><summary>Times</summary>\n\n{shown}\n\n{words.NO_VERDICT}\n\n</details>"
