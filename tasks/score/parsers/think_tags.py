"""think_tags: reasoning between `<think>` and `</think>` before the answer, as many open models write it.

A template may have put `<think>` into the prompt already; then the text begins with the reasoning and only
`</think>` is in it. The first `</think>` ends the reasoning. Where it never comes, all that follows `<think>` is
reasoning and there is no answer. A text without either tag is all answer.
"""

from tasks.score.reasoning import Reasoning

OPENS, CLOSES = "<think>", "</think>"


def parse(text: str) -> Reasoning:
    """The parts of one answer."""
    begun = text.lstrip()
    opened = begun.startswith(OPENS)
    inside = begun.removeprefix(OPENS) if opened else text
    before, end, after = inside.partition(CLOSES)
    if end:
        return Reasoning(reasoning=before.strip(), answer=after.strip(), closed=True)
    if opened:
        return Reasoning(reasoning=inside.strip(), answer="", closed=False)
    return Reasoning(reasoning=None, answer=text, closed=True)
