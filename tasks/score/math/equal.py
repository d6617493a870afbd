"""Whether two trees are the same answer. Imports sympy: runs in the child process of guarded.py only."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import sympy

from tasks.score.math.build import Undecided, build
from tasks.score.math.relations import both_signs, is_inequality, shortened, value_of, variable_and_interval
from tasks.score.math.tree import Node

_DIGITS = 30
_TOLERANCE = sympy.Float("1e-20", _DIGITS)
_POINTS = 12
_ENOUGH_POINTS = 3
_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "=": "=", "≠": "≠"}
_PLACES = ("ordered", "matrix", "based", "text", "union", "list", "set", "relation")


def equal(one: Node, two: Node) -> bool:
    """Whether the two say the same. Raises Undecided where that is not worked out."""
    one, two = shortened(one), shortened(two)
    ranges = variable_and_interval(one), variable_and_interval(two)
    if ranges[0] and ranges[1] and ranges[0][0] != ranges[1][0]:
        return False
    if not any(is_inequality(node) and not found for node, found in zip((one, two), ranges, strict=True)):
        one, two = ranges[0][1] if ranges[0] else one, ranges[1][1] if ranges[1] else two
    if one.kind == "relation" and two.kind == "relation" and not ({"∈"} & {*one.value, *two.value}):
        return _equal_relations(one, two)
    one, two = value_of(one), value_of(two)
    if {one.kind, two.kind} & {"list", "union", "set"}:
        return _equal_unordered(one, two)
    several = both_signs(one), both_signs(two)
    if any(len(values) > 1 for values in several):
        return _matched(several[0], several[1])
    if one.kind in _PLACES or two.kind in _PLACES:
        return (
            (one.kind, one.value, len(one.items)) == (two.kind, two.value, len(two.items))
            and one.kind not in ("union", "set", "relation")
            and all(equal(*pair) for pair in zip(one.items, two.items, strict=True))
        )
    return _equal_values(build(one), build(two))


def _members(node: Node) -> list[Node]:
    """The members of a list, set or union with each ± as two; any other value is its own only member."""
    if node.kind in ("list", "set", "union"):
        return [value for item in node.items for value in _members(item)]
    return both_signs(value_of(node)) if node.kind != "relation" else [node]


def _equal_unordered(one: Node, two: Node) -> bool:
    """A list or a set, without regard to order; in a set a member counts once. A set of one is not its member."""
    kinds = {one.kind, two.kind}
    if "union" in kinds and len(kinds) > 1:
        return False
    if "set" in kinds and kinds - {"set", "list"} and not any(len(both_signs(node)) > 1 for node in (one, two)):
        return False
    members = _members(one), _members(two)
    if "set" in kinds:
        members = _distinct(members[0]), _distinct(members[1])
    return _matched(*members)


def _distinct(members: Sequence[Node]) -> list[Node]:
    found: list[Node] = []
    for member in members:
        if not any(equal(member, other) for other in found):
            found.append(member)
    return found


def _matched(ones: Sequence[Node], twos: Sequence[Node]) -> bool:
    """Whether the members pair off, each with an equal one."""
    if len(ones) != len(twos):
        return False
    left = list(twos)
    for one in ones:
        match = next((place for place, two in enumerate(left) if equal(one, two)), None)
        if match is None:
            return False
        del left[match]
    return True


def _equal_relations(one: Node, two: Node) -> bool:
    if len(one.items) != 2 or len(two.items) != 2:
        return one.value == two.value and all(equal(*pair) for pair in zip(one.items, two.items, strict=True))
    if any(item.kind in _PLACES for item in (*one.items, *two.items)):
        return one.value == two.value and all(equal(*pair) for pair in zip(one.items, two.items, strict=True))
    same, flipped = one.value == two.value, one.value == _FLIPPED[two.value]
    if not (same or flipped):
        return False
    several = both_signs(one), both_signs(two)
    if any(len(values) > 1 for values in several):
        return _matched(several[0], several[1])
    sides = [[build(item) for item in node.items] for node in (one, two)]
    factor = _constant_factor(sides[0][0] - sides[0][1], sides[1][0] - sides[1][1])
    if factor is None:
        return False
    either = same and flipped  # = and ≠ look the same from both sides
    return bool(factor != 0) if either else bool((factor > 0) == same)


def _constant_factor(one: Any, two: Any) -> Any:
    """The number k with one = k * two everywhere; None where there is none."""
    if not (one.free_symbols and two.free_symbols):
        return sympy.Integer(1) if not one.free_symbols and not two.free_symbols and _equal_values(one, two) else None
    ratios: list[Any] = []

    def constant(left: Any, right: Any) -> bool:
        if _near(right, 0) or _near(left, 0):
            return _near(right, 0) and _near(left, 0)
        ratios.append(left / right)
        return _near(ratios[0], ratios[-1])

    if not _agree_at_points(one, two, agree=constant) or not ratios or abs(sympy.im(ratios[0])) > _TOLERANCE:
        return None
    return sympy.re(ratios[0])


def _near(one: Any, two: Any) -> bool:
    return bool(abs(one - two) <= _TOLERANCE * max(sympy.Integer(1), abs(one), abs(two)))


def _equal_values(one: Any, two: Any) -> bool:
    """Two expressions: identical, or the same to 20 digits, with free names at random points where both are real.

    Two rationals are compared exactly."""
    if one == two:
        return True
    if one.is_Rational and two.is_Rational:
        return False
    if one.has(sympy.oo, -sympy.oo) or two.has(sympy.oo, -sympy.oo):
        return False
    if one.free_symbols or two.free_symbols:
        return _agree_at_points(one, two, agree=_near)
    return _near(_worked_out(one), _worked_out(two))


def _worked_out(expression: Any, *, at: dict[Any, Any] | None = None) -> Any:
    value = expression.evalf(_DIGITS, subs=at)
    if not value.is_number or value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo) or not value.is_comparable:
        parts = value.as_real_imag() if value.is_number else ()
        if not parts or not all(part.is_Float or part.is_Rational for part in parts):
            raise Undecided("its value is not worked out")
    return value


def _agree_at_points(one: Any, two: Any, *, agree: Callable[[Any, Any], bool]) -> bool:
    """Whether the two agree at 12 points, drawn anew from the same seed each time. A point where one of them is not
    defined, or leaves the real numbers though neither holds i, says nothing; at least 3 have to say something."""
    names = sorted(one.free_symbols | two.free_symbols, key=str)
    real = not (one.has(sympy.I) or two.has(sympy.I))
    draw = random.Random(0)  # noqa: S311 - points to test at, no secret
    said = 0
    for _ in range(_POINTS):
        at = {name: sympy.Rational(draw.choice((-1, 1)) * draw.randint(20, 300), 97) for name in names}
        try:
            values = [_worked_out(expression, at=at) for expression in (one, two)]
        except Undecided:
            continue
        if real and any(abs(sympy.im(value)) > _TOLERANCE for value in values):
            continue
        if not agree(*values):
            return False
        said += 1
    if said < _ENOUGH_POINTS:
        raise Undecided("the two are defined together at too few points")
    return True
