"""The doctor's part of docs/troubleshooting.md: every line that `assay doctor` may print, with its cure.

Read from the source of its checks, not from a run of them: no machine has all the troubles at once, and none can be
forgotten. What a message holds of the machine shows as `…`.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from flows.reference.markdown import paragraphs, table
from tasks import doctor


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that a check may print. looks_at: the first sentence of the check's docstring."""

    check: str
    looks_at: str
    status: str
    message: str
    cure: str | None


def doctor_table() -> str:
    """Two tables: what is looked at, and what can be wrong with it."""
    looks: dict[str, list[str]] = {}
    wrong: dict[tuple[str, str, str], list[str]] = {}
    for line in doctor_lines():
        looks.setdefault(line.looks_at, []).append(line.check)
        if line.status != "ok":
            wrong.setdefault((line.status, line.message, line.cure or "nothing"), []).append(line.check)
    looked_at = table(("check", "looks at"), ((", ".join(dict.fromkeys(names)), what) for what, names in looks.items()))
    cures = table(
        ("check", "is", "says", "what to do"),
        ((", ".join(names), *(each.replace("<", "&lt;") for each in line)) for line, names in wrong.items()),
    )
    return f"{looked_at}\n{cures}"


def doctor_lines() -> Iterator[Line]:
    """Every `Check` that the functions of tasks/doctor.py make, in their order."""
    for node in ast.parse(inspect.getsource(doctor)).body:
        if isinstance(node, ast.FunctionDef):
            yield from _made_by(node)


def _made_by(function: ast.FunctionDef) -> Iterator[Line]:
    looks_at = (paragraphs(ast.get_docstring(function)) or [""])[0].partition(". ")[0].rstrip(".")
    names: dict[str, list[tuple[int, ast.expr]]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names.setdefault(node.targets[0].id, []).append((node.lineno, node.value))
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            names.setdefault(node.target.id, []).append((node.lineno, node.iter))
    for values in names.values():
        values.sort(key=lambda found: found[0])
    made = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _is_check(node)]
    for call in sorted(made, key=lambda node: node.lineno):
        said = {word.arg: word.value for word in call.keywords}
        reader = _Reader(names, call.lineno)
        status, message, cure = (reader.text(said.get(word)) for word in ("status", "message", "cure"))
        for name in reader.choices(said["name"]):
            yield Line(check=name, looks_at=looks_at, status=status or "…", message=message or "…", cure=cure)


def _is_check(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == doctor.Check.__name__


class _Reader:
    """Reads text out of expressions, with the names that hold at a line."""

    def __init__(self, names: dict[str, list[tuple[int, ast.expr]]], line: int) -> None:
        self._names = names
        self._line = line

    def text(self, node: ast.expr | None, depth: int = 0) -> str | None:
        """The text, with `…` for what only a run knows; None where the expression is None or is not there."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return None
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return re.sub(r"…(\W?…)+", "…", "".join(self._part(part, depth) for part in node.values))
        if isinstance(node, ast.IfExp):
            return self.text(node.body, depth + 1) or self.text(node.orelse, depth + 1)
        if isinstance(node, ast.Name) and (value := self._value(node.id)) is not None and depth < 3:
            return self.text(value, depth + 1)
        return "…"

    def choices(self, node: ast.expr) -> list[str]:
        """The text, or each of the texts that a loop goes through."""
        if isinstance(node, ast.Name):
            value = self._value(node.id)
            if isinstance(value, ast.Tuple):
                return [text for each in value.elts if (text := self.text(each)) is not None]
        return [self.text(node) or "…"]

    def _part(self, part: ast.expr, depth: int) -> str:
        if isinstance(part, ast.FormattedValue):
            known = isinstance(part.value, ast.Name | ast.IfExp)
            return self.text(part.value, depth + 1) or "" if known else "…"
        return str(part.value) if isinstance(part, ast.Constant) else "…"

    def _value(self, name: str) -> ast.expr | None:
        before = [value for line, value in self._names.get(name, []) if line <= self._line]
        return before[-1] if before else None
