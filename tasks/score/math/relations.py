"""What a relation says, tree to tree: the value it gives a name, or the interval it leaves."""

from tasks.score.math.tree import Node

_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
_MINUS_INFINITY = Node("negative", items=(Node("name", "infinity"),))
_INFINITY = Node("name", "infinity")
CONSTANT_NAMES = ("pi", "e", "i", "infinity")


def is_variable(node: Node) -> bool:
    """A name that stands for something unknown."""
    return node.kind == "name" and node.value not in CONSTANT_NAMES


def _has_variable(node: Node) -> bool:
    return is_variable(node) or any(_has_variable(item) for item in node.items)


def _is_label(node: Node) -> bool:
    """What may stand left of `=` only to say what the answer is: x, f(x), AB/CD, (x, y), A(1,2), text."""
    if node.kind == "text" or is_variable(node):
        return True
    if node.kind == "ordered":
        return all(is_variable(item) for item in node.items)
    return node.kind in ("multiply", "divide") and all(_is_label(item) for item in node.items)


def shortened(node: Node) -> Node:
    """A chain without its working: `x = 2 + 3 = 5` is `x = 5`, and nothing behind an `≈` counts but what it is of."""
    if node.kind != "relation" or not set(node.value) <= {"=", "∈", "≈"}:
        return node
    exact = node.value.find("≈") + 1
    items = node.items[:exact] if exact and not (exact == 1 and _is_label(node.items[0])) else node.items
    if len(items) == 1:
        return items[0]
    ends = (items[0], items[-1])
    if len(items) > 2 and not (_is_label(items[0]) or not _has_variable(items[0])):
        return Node("relation", node.value[: len(items) - 1].replace("≈", "="), items)
    return Node("relation", "∈" if "∈" in node.value else "=", ends)


def value_of(node: Node) -> Node:
    """The value in a shortened `x = 5`, `f(x) = 2x`, `x in (0, 1)` or `2 + 3 = 5`; any other node as it is."""
    if node.kind == "relation" and node.value in ("=", "∈"):
        one, two = node.items
        if node.value == "=" and is_variable(two) and not is_variable(one):
            return one
        if _is_label(one) or not _has_variable(one):
            return two
    return node


def is_inequality(node: Node) -> bool:
    """`<`, `>`, `≤` and `≥` only, at least one of them."""
    return node.kind == "relation" and set(node.value) <= set(_FLIPPED)


def variable_and_interval(node: Node) -> tuple[str, Node] | None:
    """The variable and the interval of `x > 3` or `0 < x ≤ 1`, or the union of `x < 1 or x > 3`; None for any other
    node."""
    if node.kind == "list":
        parts = [variable_and_interval(item) for item in node.items]
        variables = {part[0] for part in parts if part}
        if None in parts or len(variables) != 1:
            return None
        return variables.pop(), Node("union", items=tuple(part[1] for part in parts if part))
    return _one_interval(node) if is_inequality(node) else None


def _one_interval(node: Node) -> tuple[str, Node] | None:
    signs, items = node.value, node.items
    if len(items) == 2:
        if is_variable(items[1]) and not is_variable(items[0]):
            signs, items = _FLIPPED[signs], (items[1], items[0])
        if not is_variable(items[0]):
            return None
        below = signs in "<≤"
        brackets = ("(" + (")" if signs == "<" else "]")) if below else (("(" if signs == ">" else "[") + ")")
        ends = (_MINUS_INFINITY, items[1]) if below else (items[1], _INFINITY)
        return items[0].value, Node("ordered", brackets, ends)
    if len(items) != 3 or not is_variable(items[1]):
        return None
    if set(signs) <= {">", "≥"}:
        signs, items = "".join(_FLIPPED[sign] for sign in reversed(signs)), items[::-1]
    if not set(signs) <= {"<", "≤"}:
        return None
    brackets = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
    return items[1].value, Node("ordered", brackets, (items[0], items[2]))


def both_signs(node: Node) -> list[Node]:
    """The two values of an expression with ±, upper and lower signs together; the node itself where there is none."""
    if not _has_both_signs(node):
        return [node]
    return [_one_sign(node, upper=upper) for upper in (True, False)]


def _has_both_signs(node: Node) -> bool:
    return node.kind in ("plusminus", "minusplus") or any(_has_both_signs(item) for item in node.items)


def _one_sign(node: Node, *, upper: bool) -> Node:
    items = tuple(_one_sign(item, upper=upper) for item in node.items)
    if node.kind in ("plusminus", "minusplus"):
        positive = (node.kind == "plusminus") == upper
        return items[0] if positive else Node("negative", items=items)
    return Node(node.kind, node.value, items)
