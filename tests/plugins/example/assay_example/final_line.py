"""final_line: the last line of a text is its answer, all before it the reasoning."""


def parse(text: str) -> tuple[str | None, str, bool]:
    """(reasoning, answer, closed) of one text."""
    reasoning, newline, answer = text.rstrip().rpartition("\n")
    return (reasoning if newline else None), answer, True
