"""A regular expression as the rules of tasks.guide.kinds.network: what stands between slashes in a Lark grammar.

Python's own reader of patterns takes it apart. What a grammar's terminal cannot hold (look-around, references back,
anchors) is refused, as the engines do.
"""

import re
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser
from typing import Any

from tasks.guide.kinds.nodes import Alt, Chars, GrammarError, Node, Repeat, Seq, check_times

_WORD = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE = ((9, 13), (32, 32))
_DIGIT = ((48, 57),)
_FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE, "u": re.UNICODE}


def nodes_of(pattern: str, flags: str = "") -> Node:
    """The rules of a pattern. `\\d`, `\\w` and `\\s` are those of ASCII, `.` is no line feed. Raises GrammarError."""
    unknown = [flag for flag in flags if flag not in _FLAGS]
    if unknown:
        raise GrammarError(f"there is no flag `{unknown[0]}` of a pattern")
    value = 0
    for flag in flags:
        value |= _FLAGS[flag]
    try:
        parsed = _parser.parse(pattern, value)
    except (re.error, OverflowError, RecursionError) as error:
        raise GrammarError(f"/{pattern}/ is no regular expression: {error}") from error
    return _Walk(flags=parsed.state.flags).seq(parsed)


class _Walk:
    def __init__(self, *, flags: int) -> None:
        self.flags = flags

    def seq(self, parsed: Any) -> Node:
        items = tuple(self.one(op, value) for op, value in parsed)
        return items[0] if len(items) == 1 else Seq(items)

    def one(self, op: Any, value: Any) -> Node:  # noqa: PLR0911 - one for each sort of part
        match op:
            case ops.LITERAL:
                return self.chars(((value, value),))
            case ops.NOT_LITERAL:
                return self.chars(((value, value),)).without()
            case ops.ANY:
                return Chars(()).without() if self.flags & re.DOTALL else Chars(((10, 10),)).without()
            case ops.IN:
                return self.char_class(value)
            case ops.BRANCH:
                return Alt(tuple(self.seq(branch) for branch in value[1]))
            case ops.SUBPATTERN:
                _, added, removed, inside = value
                walk = _Walk(flags=(self.flags | added) & ~removed)
                return walk.seq(inside)
            case ops.MAX_REPEAT | ops.MIN_REPEAT:
                least, most, inside = value
                times = (least, None if most is ops.MAXREPEAT else int(most))
                check_times(*times)
                return Repeat(self.seq(inside), *times)
        raise GrammarError(f"a terminal's pattern cannot have {str(op).lower().replace('_', ' ')} in it")

    def chars(self, ranges: tuple[tuple[int, int], ...]) -> Chars:
        if not self.flags & re.IGNORECASE:
            return Chars(ranges)
        both = list(ranges)
        for low, high in ranges:
            if high - low < 512:
                cases = [each for code in range(low, high + 1) for each in (chr(code).lower(), chr(code).upper())]
                both += [(ord(each), ord(each)) for each in cases if len(each) == 1]
        return Chars(tuple(dict.fromkeys(both)))

    def char_class(self, parts: Any) -> Chars:
        ranges: list[tuple[int, int]] = []
        negated = False
        for op, value in parts:
            match op:
                case ops.NEGATE:
                    negated = True
                case ops.LITERAL:
                    ranges.append((value, value))
                case ops.RANGE:
                    ranges.append(value)
                case ops.CATEGORY:
                    ranges += self.category(value)
                case _:
                    raise GrammarError(f"a class of characters cannot have {op} in it")
        chars = self.chars(tuple(ranges))
        return chars.without() if negated else chars

    def category(self, value: Any) -> tuple[tuple[int, int], ...]:
        known = {
            ops.CATEGORY_DIGIT: _DIGIT,
            ops.CATEGORY_SPACE: _SPACE,
            ops.CATEGORY_WORD: _WORD,
        }
        negations = {
            ops.CATEGORY_NOT_DIGIT: _DIGIT,
            ops.CATEGORY_NOT_SPACE: _SPACE,
            ops.CATEGORY_NOT_WORD: _WORD,
        }
        return known[value] if value in known else Chars(negations[value]).without().ranges
