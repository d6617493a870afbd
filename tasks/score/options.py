"""Which option of a multiple choice a target or an answer names."""

import re
from typing import Any, Literal

Reading = Literal["auto", "index", "letter", "text"]
_LETTERED = re.compile(r"\(?([A-Za-z])\)?[.:)]?")
_LEADING = re.compile(r"\(?([A-Z])(?:[.:)](?=\s|$)|\)|\s*$|\s*\n)")
_ANNOUNCED = re.compile(r"\b(?i:answer|option|choice)\b(?:\s+is)?\s*:?\s*(?i:option\s+)?\(?([A-Z])\b(?![\w'’])")


def letter(index: int) -> str:
    """The letter of an option: A for 0."""
    return chr(ord("A") + index)


def _readings(*, target: Any, texts: list[str], reading: Reading) -> set[int]:
    found: set[int] = set()
    word = str(target).strip()
    if reading in ("auto", "index") and word.isdecimal() and int(word) < len(texts):
        found.add(int(word))
    if reading in ("auto", "letter") and len(word) == 1 and word.isascii() and word.isalpha():
        index = ord(word.upper()) - ord("A")
        if index < len(texts):
            found.add(index)
    if reading in ("auto", "text"):
        found |= {index for index, text in enumerate(texts) if text.strip() == word}
    return found


def resolve_target(*, target: Any, texts: list[str], reading: Reading = "auto") -> tuple[int | None, str | None]:
    """The index of the right option, or None and the reason.

    A target is an index (from 0), a letter (A is the first) or an option's text. Where it can be read in two ways that
    name different options (target 1, options "1" and "2"), it is ambiguous: `reading` then says which way is meant.
    """
    if not texts:
        return None, "the sample has no options"
    if isinstance(target, bool) or not isinstance(target, int | str):
        return None, f"the target {target!r} is no index, letter or text"
    found = _readings(target=target, texts=texts, reading=reading)
    if len(found) == 1:
        return found.pop(), None
    if not found:
        return None, f"the target {target!r} is none of the {len(texts)} options"
    several = ", ".join(letter(index) for index in sorted(found))
    return None, f"the target {target!r} is ambiguous: it may mean {several}"


def _texts_within(*, answer: str, texts: list[str]) -> set[int]:
    """The options whose text stands in the answer as words of its own, but not only inside a longer option's text."""
    spans: list[tuple[int, int, int]] = []
    for index, text in enumerate(texts):
        word = text.strip().casefold()
        if not word or (len(word) == 1 and word.isalpha()):
            continue
        pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
        spans += [(match.start(), match.end(), index) for match in re.finditer(pattern, answer.casefold())]
    return {
        index
        for start, end, index in spans
        if not any(s <= start and end <= e and (e - s) > (end - start) for s, e, _ in spans)
    }


def _letters_within(*, answer: str, count: int) -> set[int]:
    found: set[int] = set()
    leading = _LEADING.match(answer)
    matches = [leading] if leading else []
    for match in [*matches, *_ANNOUNCED.finditer(answer)]:
        index = ord(match.group(1).upper()) - ord("A")
        if index < count:
            found.add(index)
    return found


def _same_text(*, answer: str, texts: list[str]) -> set[int]:
    """The options that are this answer, as it stands or, where there is none, without regard to case."""
    same = {index for index, text in enumerate(texts) if text.strip() == answer}
    return same or {index for index, text in enumerate(texts) if text.strip().casefold() == answer.casefold()}


def resolve_answer(*, answer: str, texts: list[str]) -> tuple[int | None, str | None]:
    """The index of the option that an answer names, or None and the reason.

    In this order: the answer is an option's text (as it stands, then without regard to case); it is an option's letter
    (`B`, `(b)`, `B.`); it names one option by its text as words of their own, or by a letter at its beginning (`B. …`)
    or after "answer", "option" or "choice". Names that disagree are ambiguous, and an ambiguous answer names nothing.
    """
    bare = answer.strip()
    if not bare:
        return None, "the answer is empty"
    found = _same_text(answer=bare, texts=texts)
    if not found and (alone := _LETTERED.fullmatch(bare)):
        found = {ord(alone.group(1).upper()) - ord("A")} & set(range(len(texts)))
    elif not found:
        found = _texts_within(answer=bare, texts=texts) | _letters_within(answer=bare, count=len(texts))
    if len(found) == 1:
        return found.pop(), None
    if not found:
        return None, "the answer names no option"
    return None, f"ambiguous: the answer names {', '.join(letter(index) for index in sorted(found))}"


__all__ = ["Reading", "letter", "resolve_answer", "resolve_target"]
