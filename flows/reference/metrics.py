"""docs/reference/metrics.md: every metric, from the docstring and the options of its module."""

import sys

from flows.reference.config import keys, keys_table
from flows.reference.markdown import WRITTEN, paragraphs, table
from tasks.score.registry import builtin_names, metric

_HEAD = f"""{WRITTEN}
# Every metric

A dataset names those that it wants: `metrics: [exact_match]`, or with options `metrics: [{{use: exact_match, options:
{{compare: number}}}}]`. In the tables one is named `<dataset>.<metric>`. How error bars are made, what counts as not
scored, and the numbers of form and time are in [Metrics](../metrics.md). Scores of different versions are never
compared.
"""
_NEEDS = {
    "generate": "an answer, in the arms `free` and `guided`",
    "loglikelihood": "the log-likelihood of each of the dataset's `choices`, in the arm `free`",
    "rolling": "the log-likelihoods of a document's windows, in the arm `free`",
}


def metrics_page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_section(name) for name in builtin_names())])


def _section(name: str) -> str:
    found = metric(name)
    doc = sys.modules[f"tasks.score.metrics.{name}"].__doc__
    first, *rest = paragraphs(doc)
    first = first.removeprefix(f"{name}: ")
    values = "0 or 1" if found.info.is_rate else "0 to 1"
    if found.info.needs == "loglikelihood":
        values += ", or 1/k where k options share the top"
    if found.info.needs == "rolling":
        values = "that of its own sums"
    if found.score_judged is not None:
        values = "what the judge's verdict counts on the `scale`"
    facts = [
        ("unit", found.info.unit),
        ("better is", found.info.direction),
        ("reads", _NEEDS[found.info.needs]),
        ("a sample's value", values),
        ("version", str(found.info.version)),
        ("file", f"`tasks/score/metrics/{name}.py`"),
    ]
    options = list(keys(found.Options))
    parts = [
        f"## {name}\n",
        f"{first[:1].upper()}{first[1:]}\n",
        *(f"{each}\n" for each in rest),
        table(("", ""), facts),
    ]
    if options:
        parts.append(keys_table(options).replace("| key |", "| option |", 1))
    return "\n".join(parts)
