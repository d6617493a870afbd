"""From a tree to a sympy expression. Only the functions that stand here are called; no text is evaluated."""

from collections.abc import Callable
from typing import Any

import sympy

from tasks.score.math.tree import Node

MOST_DIGITS = 5000
_LARGEST_FACTORIAL = 1000

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "cot": sympy.cot,
    "sec": sympy.sec,
    "csc": sympy.csc,
    "arcsin": sympy.asin,
    "arccos": sympy.acos,
    "arctan": sympy.atan,
    "sinh": sympy.sinh,
    "cosh": sympy.cosh,
    "tanh": sympy.tanh,
    "ln": sympy.log,
    "exp": sympy.exp,
    "sqrt": sympy.sqrt,
    "abs": sympy.Abs,
    "floor": sympy.floor,
    "ceiling": sympy.ceiling,
}
_CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infinity": sympy.oo}


class Undecided(ValueError):
    """The expression is not worked out: it is too large, undefined, or no single value. Its text says which."""


def build(node: Node) -> Any:
    """The expression of a tree that stands for one value; names are real. Raises Undecided."""
    if node.kind == "number":
        return sympy.Rational(node.value)
    if node.kind == "name":
        return _CONSTANTS.get(node.value) or sympy.Symbol(node.value, real=True)
    items = [build(item) for item in node.items]
    if node.kind in _ARITHMETIC:
        built = _ARITHMETIC[node.kind](*items)
    elif node.kind == "call":
        built = _call(node.value, *items)
    else:
        raise Undecided(f"a {node.kind} stands inside an expression")
    if built.has(sympy.nan, sympy.zoo):
        raise Undecided("it is not defined")
    return built


def _power(base: Any, exponent: Any) -> Any:
    if base.is_Rational and exponent.is_Rational:
        digits = max(len(str(base.p)), len(str(base.q)))
        if base not in (0, 1, -1) and abs(exponent) * digits > MOST_DIGITS:
            raise Undecided(f"a power in it has more than {MOST_DIGITS} digits")
    elif exponent.is_Integer and abs(exponent) > MOST_DIGITS:
        raise Undecided("a power in it is too large")
    return base**exponent


def _divide(top: Any, bottom: Any) -> Any:
    if bottom == 0:
        raise Undecided("it divides by zero")
    return top / bottom


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": sympy.Add,
    "multiply": sympy.Mul,
    "negative": lambda item: -item,
    "divide": _divide,
    "power": _power,
}


def _call(name: str, *items: Any) -> Any:
    if name in ("factorial", "binom"):
        if any(item.is_number and abs(item) > _LARGEST_FACTORIAL for item in items):
            raise Undecided("a factorial in it is too large")
        return sympy.factorial(*items) if name == "factorial" else sympy.binomial(*items)
    if name == "log":
        return sympy.log(items[0], items[1] if len(items) > 1 else 10)
    if name == "root":
        return _root(*items)
    return _FUNCTIONS[name](*items)


def _root(radicand: Any, index: Any) -> Any:
    """The real root where there is one: the cube root of -8 is -2."""
    if index == 0:
        raise Undecided("it is not defined")
    if radicand.is_negative and index.is_odd:
        return -_power(-radicand, 1 / index)
    return _power(radicand, 1 / index)
