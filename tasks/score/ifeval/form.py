"""Checks of form: placeholders, bullets, titles, sections, JSON, how the text begins and ends, case, commas."""

import json
import re
from itertools import pairwise

from tasks.score.ifeval.language import is_in

_CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.S.": re.compile(r"p\.\s?s\."), "P.P.S": re.compile(r"p\.\s?p\.\s?s")}
_FENCE = "```"
_FENCED = re.compile(r"```(?:json|Json|JSON)?")
_BULLET = re.compile(r"\s*(?:-|\*[^*])")
_SPAN = re.compile(r"\*[^\n*]*\*")
_DOUBLE_SPAN = re.compile(r"\*\*[^\n*]*\*\*")


def response_language(text: str, *, language: str) -> bool:
    """The most likely language of the whole text is that one."""
    return is_in(text, language=language)


def placeholders(text: str, *, num_placeholders: int) -> bool:
    """At least so many `[…]`, each within one line."""
    count = 0
    for line in text.split("\n"):
        place = line.find("[")
        while place >= 0 and (end := line.find("]", place)) >= 0:
            count += 1
            place = line.find("[", end)
    return count >= num_placeholders


def postscript(text: str, *, postscript_marker: str) -> bool:
    """The marker occurs; case does not count, and `P.S.` may have a space inside."""
    marker = postscript_marker.strip()
    if marker in _POSTSCRIPTS:
        return _POSTSCRIPTS[marker].search(text.lower()) is not None
    return marker.lower() in text.lower()


def bullets(text: str, *, num_bullets: int) -> bool:
    """Exactly so many lines that begin with `-`, or with one `*` and something behind it."""
    lines = [line.lstrip() for line in text.split("\n")]
    return (
        sum(line.startswith("-") or (line[:1] == "*" and line[1:2] not in ("", "*")) for line in lines) == num_bullets
    )


def constrained_response(text: str) -> bool:
    """One of the three fixed answers stands in the text."""
    return any(choice in text for choice in _CHOICES)


def highlights(text: str, *, num_highlights: int) -> bool:
    """At least so many `*…*` or `**…**` that are not blank."""
    found = _SPAN.findall(text) + _DOUBLE_SPAN.findall(text)
    return sum(bool(span.strip("*").strip()) for span in found) >= num_highlights


def sections(text: str, *, section_spliter: str, num_sections: int) -> bool:
    """At least so many section marks: the word, then a number. The word's case counts."""
    return len(re.findall(rf"{re.escape(section_spliter.strip())}\s?\d+", text)) >= num_sections


def json_format(text: str) -> bool:
    """The whole text is JSON; one code fence around it may stand."""
    bare = text.strip()
    opened = _FENCED.match(bare)
    bare = bare[opened.end() :] if opened else bare
    try:
        json.loads(bare.removesuffix(_FENCE).strip())
    except (ValueError, RecursionError):
        return False
    return True


def title(text: str) -> bool:
    """A line holds `<<…>>` with something inside."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end and line[start:end].lstrip("<").rstrip(">").strip():
            return True
    return False


def two_responses(text: str) -> bool:
    """Exactly two different parts with `******` between them; blank parts may stand at either end only."""
    parts = [part.strip() for part in text.split("******")]
    filled = [part for part in parts if part]
    return all(parts[1:-1]) and len(filled) == 2 and all(one != two for one, two in pairwise(filled))


def repeats_prompt(text: str, *, prompt_to_repeat: str) -> bool:
    """The text begins with the prompt; case does not count."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def ends_with(text: str, *, end_phrase: str) -> bool:
    """The text ends with the phrase; case and double quotes at the very end do not count."""
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def all_capitals(text: str) -> bool:
    """There is a letter, none is small, and the text is English."""
    return text.isupper() and is_in(text, language="en")


def all_lowercase(text: str) -> bool:
    """There is a letter, none is a capital, and the text is English."""
    return text.islower() and is_in(text, language="en")


def no_comma(text: str) -> bool:
    """No `,`; the commas of other scripts do not count."""
    return "," not in text


def quoted(text: str) -> bool:
    """The first and the last sign are double quotes, the straight ones."""
    bare = text.strip()
    return len(bare) > 1 and bare[0] == bare[-1] == '"'
