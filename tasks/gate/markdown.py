"""Gates as GitHub's Markdown, for a pull request or a job's summary. What a model or a config wrote stays text."""

from tasks.compare.markdown import code, escaped
from tasks.compare.markdown import markdown as compared
from tasks.compare.words import count, p_value
from tasks.gate import words
from tasks.gate.model import Evaluation

MARKS = {"passed": "✅", "failed": "❌", "undecided": "❔", "skipped": "➖", "refused": "⛔"}
_HEADS = (
    "Verdict",
    "Metric",
    "Arm",
    "Rule",
    "Against",
    "Baseline → candidate",
    "Difference",
    "95 % interval",
    "p (Holm)",
    "Samples",
    "Would decide",
)
_RIGHT = 6


def markdown(evaluation: Evaluation, *, flips: int = 10) -> str:
    """The verdicts as a table, why any was not judged, and for each other run what changed: paired evidence, flipped
    samples (at most so many of each metric and way), what else differs."""
    head = f"Run {code(evaluation.run_id)} of {escaped(evaluation.name)}"
    if evaluation.model is not None:
        head += f", model {escaped(evaluation.model)}"
    parts = [
        f"## {MARKS[evaluation.word]} Gates {evaluation.word}",
        f"{escaped(words.sentence(evaluation))}",
        f"{head}.",
    ]
    parts.append(_table(evaluation))
    told = [
        f"- {MARKS[each.verdict]} {escaped(words.claim(each))}: {escaped(each.reason)}"
        for each in evaluation.verdicts
        if each.reason
    ]
    if told:
        parts.append("\n".join(told))
    for comparison in evaluation.comparisons:
        if not (comparison.results or comparison.speed):  # the gates' arm is not in both: the reason stands above
            continue
        names = dict.fromkeys(
            each.against for each in evaluation.verdicts if each.baseline_run_id == comparison.baseline.run_id
        )
        title = f"Against {', '.join(code(name) for name in names if name)}"
        parts.append(
            f"<details><summary>{title}</summary>\n\n{compared(comparison, flips=flips).strip()}\n\n</details>"
        )
    return "\n\n".join(parts) + "\n"


def _table(evaluation: Evaluation) -> str:
    lines = [f"| {' | '.join(_HEADS)} |"]
    lines.append(f"| {' | '.join('---:' if place >= _RIGHT else '---' for place in range(len(_HEADS)))} |")
    for each in evaluation.verdicts:
        cells = (
            f"{MARKS['failed' if each.fails else each.verdict]} {each.verdict}",
            code(each.metric),
            escaped(words.where(each)),
            words.rule(each),
            "–" if each.against is None else code(words.against(each)),
            words.change(each),
            words.effect(each),
            words.interval(each),
            p_value(each.p_adjusted).replace("<", "&lt;"),
            words.rests_on(each),
            count(each.n_needed),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
