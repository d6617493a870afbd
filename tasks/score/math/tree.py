"""What a mathematical answer reads as: a tree of nodes, without any sympy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """kind and what it holds:

    number (value: digits), name (value), add, multiply, divide, power, negative, plusminus, minusplus, call (value: the
    function), ordered (value: its two brackets; a tuple or an interval), set, list, union, matrix (value: its number of
    columns), relation (value: the signs between its items), based (value: `digits_base`), text (value)."""

    kind: str
    value: str = ""
    items: tuple["Node", ...] = ()


class Unreadable(ValueError):
    """The text is not mathematics that is read here. Its text says where it stops being so."""
