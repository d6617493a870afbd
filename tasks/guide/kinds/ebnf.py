"""Grammars that a user writes, in one of three flavours: which backend takes which, and whether a text obeys one.

A grammar's content is JSON: {"flavour": …, "grammar": …}.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache

from tasks.guide.kinds import gbnf, lark
from tasks.guide.kinds.network import Fault, Network
from tasks.guide.kinds.nodes import GrammarError, Node

FLAVOURS = ("gbnf", "xgrammar", "llguidance")
TAKES: Mapping[str, tuple[str, ...]] = {
    "xgrammar": ("xgrammar", "gbnf"),
    "guidance": ("llguidance", "gbnf"),
    "outlines": (),
    "lm-format-enforcer": (),
}
"""The flavours that each backend takes, as vLLM drives it."""
_START = {"gbnf": "root", "xgrammar": "root", "llguidance": "start"}


def content_of(*, flavour: str, grammar: str) -> str:
    """The content of a grammar of the kind ebnf."""
    return json.dumps({"flavour": flavour, "grammar": grammar}, ensure_ascii=False, separators=(",", ":"))


def flavour_and_text(content: str) -> tuple[str, str]:
    """The two parts of a content."""
    found = json.loads(content)
    return found["flavour"], found["grammar"]


def check(*, flavour: str, grammar: str) -> None:
    """Raises GrammarError, with the line where one is known, for a text that is no grammar of this flavour."""
    if flavour == "llguidance" and "::=" in grammar:
        # vLLM and llguidance tell the two notations apart by it, wherever it stands.
        line = grammar[: grammar.index("::=")].count("\n") + 1
        raise GrammarError("`::=` in a grammar of the flavour llguidance makes it look like GBNF to vLLM", line=line)
    try:
        _network(flavour, grammar)
    except GrammarError as error:
        if error.line is not None or error.name is None:
            raise
        named = re.compile(rf"(?<![\w.-]){re.escape(error.name)}(?![\w.-])")
        lines = [at for at, line in enumerate(grammar.splitlines(), start=1) if named.search(line)]
        raise GrammarError(error.words, line=lines[0] if lines else None) from error


def backend_fault(*, flavour: str, grammar: str | None, backend: str) -> str | None:
    """Why a backend does not take a grammar, or None. grammar: None where only its flavour is known."""
    if flavour not in TAKES.get(backend, FLAVOURS):
        takers = [name for name, flavours in TAKES.items() if flavour in flavours]
        own = TAKES[backend]
        takes = f"takes {' and '.join(f'`{each}`' for each in own)}" if own else "takes no grammars"
        return f"the backend {backend} {takes}; `{flavour}` is taken by {' and '.join(takers)}"
    if flavour != "gbnf" or grammar is None:
        return None
    traits = gbnf.parse(grammar, flavour="gbnf").traits
    said = {
        ("xgrammar", "any"): "xgrammar has no `.`: write a class, such as `[^\\n]`",
        ("xgrammar", "empty"): 'xgrammar has no empty alternatives: write `""`',
        ("guidance", "any"): "llguidance's `.` is no line break, GBNF's is: write a class, such as `[^\\n]`",
        ("guidance", "unicode"): "llguidance misreads `\\u` and `\\U`: write the character itself",
        ("guidance", "hex"): "llguidance misreads `\\x` within a text: write the character itself, or a class",
    }
    for (name, trait), words in said.items():
        if name == backend and trait in traits:
            return f"line {traits[trait]}: {words}"
    return None


def rules(*, flavour: str, grammar: str) -> dict[str, Node]:
    """The rules of a grammar. Raises GrammarError."""
    if flavour == "llguidance":
        return lark.parse(grammar)
    return gbnf.parse(grammar, flavour="gbnf" if flavour == "gbnf" else "xgrammar").rules


@lru_cache(maxsize=256)
def _network(flavour: str, grammar: str) -> Network:
    return Network(rules(flavour=flavour, grammar=grammar), start=_START[flavour])


def fault(*, flavour: str, grammar: str, text: str) -> Fault | None:
    """Where a text leaves a grammar; None if it obeys. Raises GrammarError. Takes time with the text's length for most
    grammars, with its cube for the worst."""
    return _network(flavour, grammar).fault(text)


def words(found: Fault, text: str) -> str:
    """What is wrong with a text, and where."""
    if found.at >= len(text):
        return "ends before the grammar lets it"
    line = text.count("\n", 0, found.at) + 1
    column = found.at - (text.rfind("\n", 0, found.at) + 1) + 1
    return f"the grammar does not allow {text[found.at]!r} at line {line}, column {column}"
