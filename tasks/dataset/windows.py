"""The windows in which a document is read, so that each of its tokens is predicted once.

As lm-evaluation-harness rolls them: the first window predicts all that it holds, after the token that the document
begins with; each further one predicts as many tokens as its context leaves, the last one those that are left, with all
the context that still fits before them.
"""

from schemas.sample import Window

RESERVED = 2
"""What a window needs beyond the tokens that it reads: the last token that it predicts, and the one that the engine
generates in any case."""


def rolling_windows(tokens: int, *, window: int, context: int = 1) -> list[Window]:
    """Windows over a document of so many tokens that stand behind one more, by places in all of them together.

    window: the most tokens that one reads, and predicts. context: the fewest that all but the first read before those
    that they predict. Raises ValueError unless 1 <= context <= window."""
    if not 1 <= context <= window:
        raise ValueError(f"a context of {context} tokens in a window of {window}")
    stride = window - context + 1
    done = min(tokens, window)
    windows = [Window(begin=0, start=1, end=done + 1)] if tokens else []
    while done < tokens:
        start = done + 1
        done = min(tokens, done + stride)
        windows.append(Window(begin=done - window, start=start, end=done + 1))
    return windows
