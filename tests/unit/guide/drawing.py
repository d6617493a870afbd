"""Drawing texts at random from a grammar's rules, and asking the two grammar engines themselves about texts."""

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

from tasks.guide.kinds.nodes import Alt, Chars, Node, Ref, Repeat, Seq, Text

FAR = 10_000
_depths: dict[int, tuple[Mapping[str, Node], dict[str, int]]] = {}
LIKELY = "abcxyz0123456789 _+-*/()[]{}<>=.,:'\"#éß"


def shortest(rules: Mapping[str, Node]) -> dict[str, int]:
    """How many calls deep each rule goes at least."""
    depth = dict.fromkeys(rules, FAR)

    def of(node: Node) -> int:
        match node:
            case Ref(name):
                return depth[name] + 1
            case Seq(items):
                return max(map(of, items), default=0)
            case Alt(items):
                return min(map(of, items))
            case Repeat(item, least):
                return of(item) if least else 0
        return 0

    for _ in rules:
        new = {name: of(body) for name, body in rules.items()}
        if new == depth:
            break
        depth = new
    return depth


def draw(rules: Mapping[str, Node], *, start: str, rng: random.Random, budget: int = 30) -> str:
    """One text of the language. budget: calls of rules one within the other before only the shortest way is taken."""
    if id(rules) not in _depths:
        _depths[id(rules)] = (rules, shortest(rules))
    depth = _depths[id(rules)][1]

    def cost(node: Node) -> int:
        match node:
            case Ref(name):
                return depth[name] + 1
            case Seq(items):
                return max(map(cost, items), default=0)
            case Alt(items):
                return min(map(cost, items))
            case Repeat(item, least):
                return cost(item) if least else 0
        return 0

    def of(node: Node, left: int) -> str:  # noqa: PLR0911 - one for each sort of node
        match node:
            case Text(text):
                return text
            case Chars():
                some = [letter for letter in LIKELY if node.has(ord(letter))]
                if some:
                    return rng.choice(some)
                low, high = rng.choice(node.ranges)
                return chr(rng.randint(low, min(high, low + 80)))
            case Ref(name):
                return of(rules[name], left - 1)
            case Seq(items):
                return "".join(of(item, left) for item in items)
            case Alt(items):
                open_ = [item for item in items if cost(item) <= left] or [min(items, key=cost)]
                return of(rng.choice(open_), left)
            case Repeat(item, least, most):
                extra = 0 if cost(item) > left else rng.choice((0, 0, 1, 1, 2, 3))
                times = least + (extra if most is None else min(extra, most - least))
                return "".join(of(item, left) for _ in range(times))
        raise AssertionError(node)

    return of(rules[start], budget)


def xgrammar_takes(grammar: str, text: str) -> bool:
    """Whether xgrammar's own matcher takes a text by a grammar of its EBNF."""
    from xgrammar.testing import _is_grammar_accept_string

    return bool(_is_grammar_accept_string(_xgrammar(grammar), text))


@cache
def _xgrammar(grammar: str) -> Any:
    from xgrammar import Grammar

    return Grammar.from_ebnf(grammar)


class Llguidance:
    """llguidance's own matcher of one grammar, as vLLM hands it over, over bytes as tokens."""

    def __init__(self, grammar: str) -> None:
        from llguidance import LLMatcher, LLTokenizer, grammar_from

        self.tokenizer = LLTokenizer("byte")
        self.grammar = grammar_from("grammar", grammar)
        error = LLMatcher.validate_grammar(self.grammar, self.tokenizer)
        if error:
            raise ValueError(error)

    def takes(self, text: str) -> bool:
        from llguidance import LLMatcher

        matcher = LLMatcher(self.tokenizer, self.grammar, log_level=0)
        ids = self.tokenizer.tokenize_str(text)
        return matcher.try_consume_tokens(ids) == len(ids) and bool(matcher.is_accepting())
