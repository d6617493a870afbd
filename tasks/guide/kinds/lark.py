"""Grammars in llguidance's dialect of Lark, read into rules that tasks.guide.kinds.network runs.

`start` is the first rule; names in lower case are rules, in upper case terminals. A text is judged by what the rules
say, character by character; an engine's lexer, which takes the longest match, only ever writes less than that. What no
validator of a text could judge is refused: `%json`, tokens (`<|…|>`), `&` and `~` of terminals, `stop` and the like.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tasks.guide.kinds.lark_words import COMMON, Piece, pieces
from tasks.guide.kinds.nodes import (
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
from tasks.guide.kinds.patterns import nodes_of

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b", "\\": "\\", '"': '"', "/": "/", "'": "'"}
_HARMLESS = ("capture",)


def parse(text: str) -> dict[str, Node]:
    """The rules of a grammar, `start` among them. Raises GrammarError with the line for what is none."""
    reader = _Reader(pieces=pieces(text))
    try:
        return reader.rules()
    except RecursionError as error:
        raise GrammarError("is nested too deeply to be judged") from error


@dataclass
class _Reader:
    pieces: list[Piece]
    at: int = 0
    depth: int = 0
    found: dict[str, Node] = field(default_factory=dict)
    ignored: list[Node] = field(default_factory=list)

    @property
    def here(self) -> Piece:
        return self.pieces[self.at]

    def fail(self, message: str) -> GrammarError:
        return GrammarError(message, line=self.here.line)

    @contextlib.contextmanager
    def located(self, line: int | None = None) -> Iterator[None]:
        """What is wrong in here is wrong in this line, or in the one given."""
        try:
            yield
        except GrammarError as error:
            raise GrammarError(error.words, line=line or self.here.line) from error

    def is_sign(self, text: str) -> bool:
        return self.here.kind == "sign" and self.here.text == text

    def take(self, text: str) -> None:
        if not self.is_sign(text):
            raise self.fail(f"`{text}` is missing before {self.here.text!r}")
        self.at += 1

    def past_lines(self) -> None:
        while self.here.kind == "newline":
            self.at += 1

    def rules(self) -> dict[str, Node]:
        self.past_lines()
        while self.here.kind != "end":
            if self.here.kind == "directive":
                self.directive()
            else:
                self.rule()
            if self.here.kind not in ("newline", "end"):
                raise self.fail(f"{self.here.text!r} cannot stand here")
            self.past_lines()
        if "start" not in self.found:
            raise GrammarError("there is no rule `start`, with which a text begins")
        if not self.ignored:
            return self.found
        # As Lark has it, what is ignored may stand before and after any terminal.
        between = Repeat(Alt(tuple(self.ignored)), 0, None)
        spaced = {name: body if name.isupper() else _spaced(body, between) for name, body in self.found.items()}
        return spaced | {"start": Seq((between, spaced["start"]))}

    def rule(self) -> None:
        while self.is_sign("!") or self.is_sign("?"):
            self.at += 1
        name, line = self.here.text, self.here.line
        if self.here.kind != "name":
            raise self.fail(f"a rule begins with its name, not with {name!r}")
        self.at += 1
        if self.is_sign("["):
            self.attributes()
        if self.is_sign("."):
            raise self.fail("llguidance has no priorities of rules and terminals")
        if self.is_sign("{"):
            raise self.fail("llguidance has no templates")
        if not self.is_sign(":"):
            raise self.fail(f"after the name of the rule `{name}` comes `:`")
        self.at += 1
        if self.is_sign(":"):
            raise self.fail("`::=` is GBNF: the flavours `gbnf` and `xgrammar` have it")
        if name in self.found:
            raise GrammarError(f"the rule `{name}` stands twice", line=line)
        self.past_lines()
        body = self.alternatives()
        self.found[name] = body
        if name.isupper():
            low = next((each for each in _names(body) if not each.isupper()), None)
            if low is not None:
                raise GrammarError(f"the terminal `{name}` calls `{low}`, which is a rule", line=line)

    def attributes(self) -> None:
        while not self.is_sign("]"):
            if self.here.kind in ("newline", "end"):
                raise self.fail("`]` is missing")
            if self.here.kind == "name" and self.here.text not in _HARMLESS:
                raise self.fail(f"the attribute `{self.here.text}` cannot be judged by a text's validator")
            self.at += 1
        self.at += 1

    def directive(self) -> None:
        word = self.here.text
        self.at += 1
        match word:
            case "%ignore":
                self.ignored.append(self.alternatives())
            case "%import":
                self.imported()
            case "%llguidance":
                self.settings()
            case _:
                raise self.fail(f"`{word}` cannot be judged by a text's validator")

    def imported(self) -> None:
        words = []
        while self.here.kind in ("name", "sign", "arrow"):
            words.append(self.here.text)
            self.at += 1
        path, _, alias = "".join(words).partition("->")
        library, _, name = path.rpartition(".")
        if library != "common" or name not in COMMON:
            raise self.fail(f"`%import {path}` is not known; there is common.{', common.'.join(COMMON)}")
        self.found[alias or name] = nodes_of(COMMON[name])

    def settings(self) -> None:
        text = ""
        while self.here.kind not in ("newline", "end"):
            text += self.here.text
            self.at += 1
        try:
            given = json.loads(text)
        except ValueError as error:
            raise self.fail(f"`%llguidance` is followed by an object of JSON, not {text!r}") from error
        if set(given) - {"no_forcing"}:
            raise self.fail(f"`%llguidance {text}` cannot be judged by a text's validator")

    def alternatives(self, closing: str = "") -> Node:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.fail("is nested too deeply to be judged")
        found = [self.sequence(closing)]
        while True:
            before = self.at
            self.past_lines()
            if not self.is_sign("|"):
                self.at = self.at if closing else before
                break
            self.at += 1
            self.past_lines()
            found.append(self.sequence(closing))
        self.depth -= 1
        return found[0] if len(found) == 1 else Alt(tuple(found))

    def sequence(self, closing: str) -> Node:
        items: list[Node] = []
        while True:
            if closing:
                self.past_lines()
            item = self.item()
            if item is None:
                break
            items.append(self.repeated(item))
        if self.here.kind == "arrow":
            self.at += 2
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def item(self) -> Node | None:
        piece = self.here
        match piece.kind:
            case "string":
                self.at += 1
                return self.quoted(piece.text)
            case "pattern":
                self.at += 1
                body, _, flags = piece.text[1:].rpartition("/")
                with self.located(piece.line):
                    return _terminal(nodes_of(body.replace("\\/", "/"), flags))
            case "name":
                self.at += 1
                if self.is_sign("{") and self.pieces[self.at + 1].kind not in ("number",) and not self.comma_next():
                    raise self.fail("llguidance has no templates")
                return Ref(piece.text)
            case "special":
                raise self.fail(f"the token {piece.text} cannot be judged by a text's validator")
            case "directive":
                hint = ": `kind: json_schema` is a guide of its own" if piece.text == "%json" else ""
                raise self.fail(f"`{piece.text}` within a rule cannot be judged by a text's validator{hint}")
        if self.is_sign("("):
            return self.group("(", ")")
        if self.is_sign("["):
            return Repeat(self.group("[", "]"), 0, 1)
        if piece.kind == "sign" and piece.text in "&~@^$;":
            hint = ": a number of times is `{2,3}`" if piece.text == "~" else ""
            raise self.fail(f"`{piece.text}` cannot be judged by a text's validator{hint}")
        return None

    def comma_next(self) -> bool:
        after = self.pieces[self.at + 1]
        return after.kind == "sign" and after.text == ","

    def group(self, opening: str, closing: str) -> Node:
        self.take(opening)
        inside = self.alternatives(closing)
        self.past_lines()
        self.take(closing)
        return inside

    def quoted(self, text: str) -> Node:
        insensitive = text.endswith("i")
        said = self.unescaped(text[1 : -2 if insensitive else -1])
        if self.here.kind == "dots":
            return self.range_from(said)
        if insensitive:
            return _terminal(nodes_of(re.escape(said), "i")) if said else Text("")
        return Text(said)

    def range_from(self, low: str) -> Node:
        self.at += 1
        if self.here.kind != "string":
            raise self.fail('a range has a text of one character on each side, as in `"a".."z"`')
        high = self.unescaped(self.here.text[1:-1])
        self.at += 1
        if len(low) != 1 or len(high) != 1 or low > high:
            raise self.fail('a range has a text of one character on each side, as in `"a".."z"`')
        return Chars(((ord(low), ord(high)),))

    def unescaped(self, text: str) -> str:
        said, at = "", 0
        while at < len(text):
            letter = text[at + 1] if text[at] == "\\" else ""
            if not letter:
                said, at = said + text[at], at + 1
            elif letter in HEX:
                with self.located():
                    said, at = said + escaped(letter, text, at + 2), at + 2 + HEX[letter]
            elif letter in _ESCAPES:
                said, at = said + _ESCAPES[letter], at + 2
            else:
                raise self.fail(f"there is no escape `\\{letter}`")
        return said

    def repeated(self, item: Node) -> Node:
        while self.here.kind == "sign" and self.here.text in "*+?{":
            match self.here.text:
                case "*":
                    item = Repeat(item, 0, None)
                case "+":
                    item = Repeat(item, 1, None)
                case "?":
                    item = Repeat(item, 0, 1)
                case _:
                    item = Repeat(item, *self.times())
                    continue
            self.at += 1
        return item

    def times(self) -> tuple[int, int | None]:
        self.take("{")
        least = self.number()
        most = least
        if self.is_sign(","):
            self.at += 1
            most = self.number()
        elif least is None:
            raise self.fail("a number is missing in `{…}`")
        self.take("}")
        fewest = 0 if least is None else least  # `{,3}`
        with self.located():
            check_times(fewest, most)
        return fewest, most

    def number(self) -> int | None:
        if self.here.kind != "number":
            return None
        self.at += 1
        return int(self.pieces[self.at - 1].text)


def _terminal(node: Node) -> Node:
    """One terminal, marked so that what is ignored comes after it, not into it: a sequence of it and an empty text."""
    return Seq((node, Text("")))


def _names(node: Node) -> list[str]:
    match node:
        case Ref(name):
            return [name]
        case Seq(items) | Alt(items):
            return [name for item in items for name in _names(item)]
        case Repeat(item):
            return _names(item)
    return []


def _spaced(node: Node, between: Node) -> Node:  # noqa: PLR0911 - one for each sort of node
    """A rule's body with what is ignored after each terminal."""
    match node:
        case Text(text):
            return Seq((node, between)) if text else node
        case Chars():
            return Seq((node, between))
        case Ref(name):
            return Seq((node, between)) if name.isupper() else node
        case Seq((_, Text(""))):
            return Seq((node, between))
        case Seq(items):
            return Seq(tuple(_spaced(item, between) for item in items))
        case Alt(items):
            return Alt(tuple(_spaced(item, between) for item in items))
        case Repeat(item, least, most):
            return Repeat(_spaced(item, between), least, most)
