"""Grammars as llama.cpp writes them (GBNF) and as xgrammar does, read into rules that tasks.guide.kinds.network runs.

The two are alike and not the same. GBNF has `.`, may leave an alternative empty, and an alternative goes on in the next
line only after `|` or within parentheses. xgrammar has neither `.` nor empty alternatives, lets `|` begin a line, and
has more escapes. What only an engine's tokens can tell (token literals, TagDispatch, look-ahead) is refused: no
validator that looks at text could judge it.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tasks.guide.kinds.nodes import (
    ANY,
    HEX,
    MOST_DEPTH,
    Alt,
    Chars,
    GrammarError,
    Node,
    Ref,
    Repeat,
    Seq,
    Text,
    check_times,
    escaped,
)

_NAME = {
    "gbnf": re.compile(r"[A-Za-z0-9-]+"),
    "xgrammar": re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*"),
}
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_MORE = {"-": "-", "'": "'", "/": "/", "^": "^", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}
_INT = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """rules: by name, `root` among them. traits: of what backends differ about, what stands in it, each with its line:
    `any` (a `.`), `empty` (an alternative of nothing), `unicode` (an escape with u or U), `hex` (one with x in a text).
    """

    rules: dict[str, Node]
    traits: dict[str, int] = field(default_factory=dict)


def parse(text: str, *, flavour: Literal["gbnf", "xgrammar"]) -> Grammar:
    """The rules of a grammar. Raises GrammarError with the line for what is none in this flavour."""
    reader = _Reader(text=text, flavour=flavour)
    try:
        rules = reader.rules()
    except RecursionError as error:
        raise GrammarError("is nested too deeply to be judged", line=reader.line) from error
    if "root" not in rules:
        raise GrammarError("there is no rule `root`, with which a text begins")
    return Grammar(rules=rules, traits=reader.traits)


@dataclass
class _Reader:
    text: str
    flavour: Literal["gbnf", "xgrammar"]
    at: int = 0
    depth: int = 0
    traits: dict[str, int] = field(default_factory=dict)

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def fail(self, message: str) -> GrammarError:
        return GrammarError(message, line=self.line)

    @contextlib.contextmanager
    def located(self) -> Iterator[None]:
        """What is wrong in here is wrong in this line."""
        try:
            yield
        except GrammarError as error:
            raise self.fail(error.words) from error

    @property
    def here(self) -> str:
        return self.text[self.at : self.at + 1]

    def space(self, *, lines: bool) -> None:
        """Past blanks and comments; past line ends too if `lines`."""
        while self.here:
            if self.here in " \t" or (lines and self.here in "\r\n"):
                self.at += 1
            elif self.here == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def name(self) -> str | None:
        found = _NAME[self.flavour].match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        self.space(lines=True)
        while self.here:
            begun = self.line
            name = self.name()
            if name is None:
                raise self.fail(f"a rule begins with its name, not with {self.here!r}")
            self.space(lines=False)
            if not self.text.startswith("::=", self.at):
                hint = "; `rule: …` is Lark, which is the flavour llguidance" if self.here == ":" else ""
                raise self.fail(f"after the name of the rule `{name}` comes `::=`{hint}")
            self.at += 3
            self.space(lines=True)
            if name in rules:
                raise GrammarError(f"the rule `{name}` stands twice", line=begun)
            rules[name] = self.alternatives(nested=False)
            self.space(lines=False)
            if self.here and self.here not in "\r\n":
                raise self.fail(f"{self.here!r} cannot stand here")
            self.space(lines=True)
        return rules

    def alternatives(self, *, nested: bool) -> Node:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.fail("is nested too deeply to be judged")
        found = [self.sequence(nested=nested)]
        while self.another(nested=nested):
            self.at += 1
            self.space(lines=True)
            found.append(self.sequence(nested=nested))
        self.depth -= 1
        return found[0] if len(found) == 1 else Alt(tuple(found))

    def another(self, *, nested: bool) -> bool:
        """Whether another alternative follows: xgrammar lets it begin in the next line."""
        before = self.at
        self.space(lines=nested or self.flavour == "xgrammar")
        if self.here == "|":
            return True
        if not nested:
            self.at = before
        return False

    def sequence(self, *, nested: bool) -> Node:
        items: list[Node] = []
        while True:
            before = self.at
            self.space(lines=nested)
            # In xgrammar a rule's body may go on in the next line; a name there that `::=` follows is the next rule.
            if not nested and self.flavour == "xgrammar" and self.here and self.here in "\r\n":
                self.space(lines=True)
                if not self.here or self.here == "|" or self.begins_a_rule():
                    self.at = before
                    break
            item = self.item()
            if item is None:
                break
            items.append(self.repeated(item))
        if not items:
            self.traits.setdefault("empty", self.line)
            if self.flavour == "xgrammar":
                raise self.fail('an alternative cannot be empty: write `""`')
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def begins_a_rule(self) -> bool:
        return re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*[ \t]*::=").match(self.text, self.at) is not None

    def item(self) -> Node | None:
        match self.here:
            case '"':
                return self.quoted()
            case "[":
                return self.char_class()
            case "(":
                return self.group()
            case ".":
                if self.flavour == "xgrammar":
                    raise self.fail("xgrammar has no `.`: write a class, such as `[^\\n]`")
                self.traits.setdefault("any", self.line)
                self.at += 1
                return ANY
            case "<" | "!":
                raise self.fail("a token literal cannot be judged by a text's validator")
            case "'" | "/":
                raise self.fail(f'{self.here!r} begins nothing here: a text stands in ", a class in []')
        name = self.name()
        if name is None:
            return None
        if self.here == "(":
            raise self.fail(f"`{name}(…)` cannot be judged by a text's validator")
        return Ref(name)

    def group(self) -> Node:
        self.at += 1
        self.space(lines=True)
        if self.here == "=":
            raise self.fail("a look-ahead `(= …)` cannot be judged by a text's validator")
        inside = self.alternatives(nested=True)
        self.space(lines=True)
        if self.here != ")":
            raise self.fail("a `)` is missing")
        self.at += 1
        return inside

    def quoted(self) -> Node:
        self.at += 1
        text = ""
        while self.here != '"':
            text += self.character(closing='"')
        self.at += 1
        return Text(text)

    def char_class(self) -> Node:
        self.at += 1
        negated = self.here == "^"
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while self.here != "]":
            low = high = ord(self.character(closing="]"))
            if self.here == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = ord(self.character(closing="]"))
            if high < low:
                raise self.fail(f"the range {chr(low)!r} to {chr(high)!r} runs backwards")
            ranges.append((low, high))
        self.at += 1
        if not ranges:
            raise self.fail("an empty class `[]` matches nothing")
        chars = Chars(tuple(ranges))
        return chars.without() if negated else chars

    def character(self, *, closing: str) -> str:
        here = self.here
        if not here or here in "\r\n":
            raise self.fail(f"a `{closing}` is missing")
        self.at += 1
        if here != "\\":
            return here
        letter = self.here
        self.at += 1
        if letter in HEX:
            with self.located():
                said = escaped(letter, self.text, self.at)
            self.at += HEX[letter]
            if letter != "x" or closing == '"':
                self.traits.setdefault("hex" if letter == "x" else "unicode", self.line)
            return said
        known = _SIMPLE | (_MORE if self.flavour == "xgrammar" else {})
        if letter not in known:
            hint = "; a class such as `[0-9]` says what `\\d` says" if letter in "dwsDWS" and letter else ""
            raise self.fail(f"there is no escape `\\{letter}`{hint}")
        return known[letter]

    def repeated(self, item: Node) -> Node:
        while True:
            before = self.at
            self.space(lines=False)
            match self.here:
                case "*" | "+" | "?":
                    least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.here]
                    self.at += 1
                    item = Repeat(item, least, most)
                case "{":
                    item = Repeat(item, *self.times())
                case _:
                    self.at = before
                    return item

    def times(self) -> tuple[int, int | None]:
        self.at += 1
        least = self.number()
        most: int | None = least
        if self.here == ",":
            self.at += 1
            self.space(lines=True)
            most = None if self.here == "}" else self.number()
        if self.here != "}":
            raise self.fail("a `}` is missing")
        self.at += 1
        with self.located():
            check_times(least, most)
        return least, most

    def number(self) -> int:
        self.space(lines=True)
        found = _INT.match(self.text, self.at)
        if found is None:
            raise self.fail("a number is missing in `{…}`")
        self.at = found.end()
        self.space(lines=True)
        return int(found.group())
