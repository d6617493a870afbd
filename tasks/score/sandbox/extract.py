"""Finding the program in an answer: in a fenced block, among words, or as what goes on from the prompt."""

import re
from typing import Literal

How = Literal["auto", "continuation", "whole"]

_FENCE = re.compile(r"^([ \t]*)```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("python", "python3", "py", "")
_STOPS = ("\ndef ", "\nasync def ", "\nclass ", "\nif ", "\nprint", "\nassert ", "\n@", "\n#", "\n```")
"""Where a continuation ends: HumanEval's own stops (Chen et al. 2021), and a fence, a decorator, a test."""
_CODE = re.compile(
    r"(?:from|import|def|async\s+def|class)\s+\w|@\w|[A-Za-z_][\w.\[\]'\"]*\s*(?::[^=]+)?=[^=]|[#)\]}]|\"{3}|'{3}"
)
_BLOCK = re.compile(r"(?:if|for|while|with|try|else|elif|except|finally|match)\b.*:\s*(?:#.*)?$")
_END = re.compile(r"if\s+__name__\b|print\s*\(|assert\b|```")
_ANY_DEFINITION = re.compile(r"^(?:async\s+def|def|class)\s+\w", re.MULTILINE)


def extract_code(answer: str, *, prompt: str = "", entry_point: str | None = None, how: How = "auto") -> str:
    """The program text of an answer.

    auto, in this order: an answer that begins indented goes on from the prompt, up to the next thing at the margin;
    the first fenced Python block that defines the entry point (any function, where there is none); the code among
    words that does, up to the first line that is no code, or is a test of it; the longest block, else the answer, as
    what goes on from the prompt, or by itself where there is no prompt. What defines the function gets what stands
    before it in the prompt (imports, helpers). continuation: always as what goes on from the prompt. whole: the
    answer as it is.
    """
    answer = answer.replace("\r\n", "\n")
    if how == "whole":
        return answer
    if how == "auto" and not (prompt and _goes_on(answer)):
        found = _defining(answer, entry_point)
        if found is not None:
            return _header(prompt, entry_point) + found
        blocks = _blocks(answer)
        answer = max(blocks, key=len) if blocks else answer
    return prompt + _until_stop(answer) if prompt else answer


def _definition(entry_point: str | None) -> re.Pattern[str]:
    if entry_point is None:
        return _ANY_DEFINITION
    name = re.escape(entry_point)
    return re.compile(rf"^(?:(?:async\s+def|def|class)\s+{name}\b|{name}\s*=)", re.MULTILINE)


def _blocks(answer: str) -> list[str]:
    found = [
        (match[2].lower(), re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE))
        for match in _FENCE.finditer(answer)
    ]
    python = [text for language, text in found if language in _PYTHON]
    return python or [text for _, text in found]


def _defining(answer: str, entry_point: str | None) -> str | None:
    definition = _definition(entry_point)
    for block in _blocks(answer):
        if definition.search(block):
            return block
    return _among_words(answer, definition)


def _goes_on(answer: str) -> bool:
    """Whether the answer begins as the body of a function. One blank is what many models begin a sentence with."""
    first = next((line for line in answer.split("\n") if line.strip()), "")
    return first.startswith(("\t", "  ")) and not first.lstrip().startswith("```")


def _among_words(answer: str, definition: re.Pattern[str]) -> str | None:
    kept: list[str] = []
    quoted = defined = False
    for line in answer.split("\n"):
        inside, quoted = quoted, quoted ^ bool((line.count('"""') + line.count("'''")) % 2)
        margin = bool(line.strip()) and line[:1] not in (" ", "\t") and not inside
        if margin and _END.match(line):
            if defined:
                break
            continue
        if margin and not _CODE.match(line) and not _BLOCK.match(line):
            if defined:
                break
            kept.clear()
            continue
        defined = defined or bool(margin and definition.match(line))
        kept.append(line)
    return "\n".join(kept).strip("\n") + "\n" if defined else None


def _header(prompt: str, entry_point: str | None) -> str:
    """What the prompt has before the function that it asks for."""
    if entry_point is None:
        return ""
    found = _definition(entry_point).search(prompt)
    return prompt[: found.start()] if found else ""


def _until_stop(text: str) -> str:
    places = [place for stop in _STOPS if (place := text.find(stop)) >= 0]
    return text[: min(places)] + "\n" if places else text
