r"""From a normalized answer to a tree: a recursive-descent parser of the LaTeX (and plain text) that answers are in.

Grammar, loosest first: list (`,`) of relations (`= < ≤ > ≥ ≠ ∈`) of unions (`\cup`) of sums of products (also implicit)
of powers. A number right before a fraction of two whole numbers is a mixed number: 1\frac{1}{2} is 3/2.
"""

from tasks.score.math.lexer import Token, tokens
from tasks.score.math.tree import Node, Unreadable

MOST_CHARACTERS = 2000
_DEEPEST = 40
_RELATIONS = "=<>≤≥≠∈≈"
_CLOSING = {"(": ")", "[": "]", r"\{": r"\}", "{": "}"}
_MATRICES = {"pmatrix", "bmatrix", "Bmatrix", "matrix", "smallmatrix", "array"}
_ROUNDED = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceiling")}
_END = Token("end of text", "")


def parse(text: str) -> Node:
    """The tree of a normalized answer. Raises Unreadable for what is no mathematics that is read here, for more than
    MOST_CHARACTERS characters and for brackets nested deeper than 40."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it is longer than {MOST_CHARACTERS} characters")
    parser = _Parser(tokens(text))
    tree = parser.listed(closing=None)
    if parser.here is not _END:
        raise Unreadable(f"{parser.here.text!r} stands where nothing should follow")
    return tree


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens, self._place, self._depth, self._bars = found, 0, 0, 0

    @property
    def here(self) -> Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else _END

    def _next_is(self, *texts: str) -> bool:
        return self.here.kind == "op" and self.here.text in texts

    def _take(self) -> Token:
        token = self.here
        self._place += 1
        return token

    def _accept(self, *texts: str) -> bool:
        if self._next_is(*texts):
            self._place += 1
            return True
        return False

    def _expect(self, *texts: str) -> str:
        if not self._next_is(*texts):
            raise Unreadable(f"{texts[0]!r} is missing before {self.here.text or 'the end'!r}")
        return self._take().text

    # lists, relations, unions

    def listed(self, *, closing: tuple[str, ...] | None) -> Node:
        """One item as it is, several as a list; up to a closing bracket (not taken) or the end."""
        items = self.items(closing=closing)
        return items[0] if len(items) == 1 else Node("list", items=tuple(items))

    def items(self, *, closing: tuple[str, ...] | None) -> list[Node]:
        items = [self.relation()]
        while self._accept(","):
            if closing is None and self.here is _END:  # `1, 2,`
                break
            items.append(self.relation())
        return items

    def relation(self) -> Node:
        operands, signs = [self._union()], ""
        while self.here.kind == "op" and self.here.text in _RELATIONS:
            signs += self._take().text
            operands.append(self._union())
        return Node("relation", signs, tuple(operands)) if signs else operands[0]

    def _union(self) -> Node:
        parts = [self.sum()]
        while self._accept("∪"):
            parts.append(self.sum())
        return Node("union", items=tuple(parts)) if len(parts) > 1 else parts[0]

    # arithmetic

    def sum(self) -> Node:
        terms = [self._signed_term()]
        while self._next_is("+", "-", "±", "∓"):
            terms.append(self._signed_term())
        return Node("add", items=tuple(terms)) if len(terms) > 1 else terms[0]

    def _signed_term(self) -> Node:
        sign = ""
        while self._next_is("+", "-", "±", "∓"):
            sign += self._take().text
        term = self._term()
        for one in reversed(sign):
            kind = {"-": "negative", "±": "plusminus", "∓": "minusplus"}.get(one)
            term = term if kind is None else Node(kind, items=(term,))
        return term

    def _term(self) -> Node:
        product = self._power()
        mixed = self._mixed_rest(product)
        product = product if mixed is None else Node("add", items=(product, mixed))
        while True:
            if self._accept("*"):
                product = Node("multiply", items=(product, self._signed_power()))
            elif self._accept("/"):
                product = Node("divide", items=(product, self._signed_power()))
            elif self._starts_factor():
                if self.here.kind == "number":
                    raise Unreadable("two numbers stand side by side")
                product = Node("multiply", items=(product, self._power()))
            else:
                return product

    def _mixed_rest(self, whole: Node) -> Node | None:
        r"""The fraction of a mixed number: `\frac{1}{2}` or `1/2` behind a whole number."""
        if whole.kind != "number" or not whole.value.isdigit():
            return None
        before = self._place
        if self.here == Token("function", "frac"):
            fraction = self._power()
        elif self.here.kind == "number":
            top = self._base()
            if not self._accept("/") or self.here.kind != "number":
                raise Unreadable("two numbers stand side by side")
            fraction = Node("divide", items=(top, self._base()))
        else:
            return None
        parts = [part.value for part in fraction.items] if fraction.kind == "divide" else []
        if len(parts) == 2 and all(part.isdigit() for part in parts) and int(parts[0]) < int(parts[1]):
            return fraction
        self._place = before
        return None

    def _starts_factor(self) -> bool:
        if self.here.kind in ("number", "name", "function", "begin"):
            return True
        if self._next_is("|"):
            return self._bars == 0
        return self._next_is("(", "[", "{", r"\{", "lfloor", "lceil")

    def _signed_power(self) -> Node:
        if self._accept("-"):
            return Node("negative", items=(self._signed_power(),))
        self._accept("+")
        return self._power()

    def _power(self) -> Node:
        base = self._base()
        while self._accept("!"):
            base = Node("call", "factorial", (base,))
        if not self._accept("^"):
            return base
        return Node("power", items=(base, self._exponent()))

    def _exponent(self) -> Node:
        if self._next_is("-"):
            return self._signed_power()
        exponent = self._base()
        if self._next_is("^"):  # 2^3^4 is 2^(3^4)
            self._take()
            return Node("power", items=(exponent, self._exponent()))
        return exponent

    # what arithmetic is made of

    def _base(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable(f"it is nested deeper than {_DEEPEST}")
        try:
            return self._base_inside()
        finally:
            self._depth -= 1

    def _base_inside(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return self._based(token)
        if token.kind == "name":
            return Node("name", token.text + self._subscript())
        if token.kind == "function":
            return self._function(token)
        if token.kind == "begin":
            return self._matrix(token.text)
        if token.kind == "text":
            return self._text(token.text)
        if token.kind == "op":
            return self._bracketed(token.text)
        raise Unreadable(f"{token.text or 'the end'!r} stands where a value should")

    def _based(self, token: Token) -> Node:
        base = self._subscript()
        return Node("based", token.text + base) if base else Node("number", token.text)

    def _subscript(self) -> str:
        """`_` and what stands below, as text: part of a name. Empty where there is none."""
        if not self._accept("_"):
            return ""
        if not self._accept("{"):
            token = self._take()
            if token.kind not in ("number", "name"):
                raise Unreadable("the subscript is not read")
            return f"_{token.text}"
        below = ""
        while not self._accept("}"):
            token = self._take()
            if token.kind not in ("number", "name", "text") and token.text not in (",", "+", "-"):
                raise Unreadable("the subscript is not read")
            below += token.text
        return f"_{below}"

    def _text(self, content: str) -> Node:
        content = content.strip()
        if len(content) == 1 and content.isalpha():
            return Node("name", content)
        return Node("text", " ".join(content.casefold().split()))

    def _bracketed(self, opening: str) -> Node:
        if opening == "∅" or (opening == r"\{" and self._accept(r"\}")):
            return Node("set")
        if opening == "|":
            return self._absolute()
        if opening in _ROUNDED:
            closing, name = _ROUNDED[opening]
            inner = self.sum()
            self._expect(closing)
            return Node("call", name, (inner,))
        if opening not in _CLOSING:
            raise Unreadable(f"{opening!r} stands where a value should")
        return self._group(opening)

    def _group(self, opening: str) -> Node:
        closings = (")", "]") if opening in "([" else (_CLOSING[opening],)
        bars, self._bars = self._bars, 0
        items = tuple(self.items(closing=closings))
        self._bars = bars
        closed = self._expect(*closings)
        if opening == r"\{" or (opening == "{" and len(items) > 1):
            return Node("set", items=items)
        if len(items) == 1:
            return items[0]
        return Node("ordered", opening + closed, items)

    def _absolute(self) -> Node:
        self._bars += 1
        inner = self.sum()
        self._bars -= 1
        self._expect("|")
        return Node("call", "abs", (inner,))

    def _function(self, token: Token) -> Node:
        if token.text == "frac":
            return Node("divide", items=(self._argument(token), self._argument(token)))
        if token.text == "binom":
            return self._binomial(token)
        if token.text == "sqrt":
            return self._root(token)
        index = self._subscript_value() if token.text == "log" and self._accept("_") else None
        exponent = self._exponent() if self._accept("^") else None
        argument = self._function_argument()
        items = (argument,) if index is None else (argument, index)
        if exponent == Node("negative", items=(Node("number", "1"),)) and token.text in ("sin", "cos", "tan"):
            return Node("call", f"arc{token.text}", items)
        call = Node("call", token.text, items)
        return call if exponent is None else Node("power", items=(call, exponent))

    def _binomial(self, token: Token) -> Node:
        if not token.plain:
            return Node("call", "binom", (self._argument(token), self._argument(token)))
        both = self._base()
        if both.kind != "ordered" or len(both.items) != 2:
            raise Unreadable("binom takes two values")
        return Node("call", "binom", both.items)

    def _root(self, token: Token) -> Node:
        if self._accept("["):
            index = self.sum()
            self._expect("]")
            return Node("call", "root", (self._argument(token), index))
        return Node("call", "sqrt", (self._argument(token),))

    def _subscript_value(self) -> Node:
        return self._argument(Token("function", "log"))

    def _argument(self, token: Token) -> Node:
        r"""The next argument of a command: a group, or one token; of a number only its first digit, as in \frac12."""
        if self.here.kind == "number" and not token.plain:
            digits = self._take().text
            if len(digits) > 1:
                self._place -= 1
                self._tokens[self._place] = Token("number", digits[1:])
            if not digits[0].isdigit():
                raise Unreadable("a fraction or root of a bare decimal is not read")
            return Node("number", digits[0])
        return self._base()

    def _function_argument(self) -> Node:
        """What a function is of: a bracket, or the factors up to the next sign, bracket or function."""
        if self._next_is("-"):
            self._take()
            return Node("negative", items=(self._function_argument(),))
        bracketed = self._next_is("(", "[", "{", "|")
        argument = self._power()
        while not bracketed and (self.here.kind in ("number", "name") or self.here.text in ("sqrt", "frac")):
            argument = Node("multiply", items=(argument, self._power()))
        return argument

    def _matrix(self, name: str) -> Node:
        if name not in _MATRICES:
            raise Unreadable(f"the environment {name} is not read")
        rows: list[list[Node]] = [[]]
        while True:
            rows[-1].append(self.sum())
            if self._accept("&"):
                continue
            again = self._accept("\\\\")
            if self.here.kind == "end":
                break
            if not again:
                raise Unreadable(f"{self.here.text!r} stands inside a matrix")
            rows.append([])
        if self._take().text != name or len({len(row) for row in rows}) != 1:
            raise Unreadable("the rows of the matrix do not have the same length")
        return Node("matrix", str(len(rows[0])), tuple(cell for row in rows for cell in row))
