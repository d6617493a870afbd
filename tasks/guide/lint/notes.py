"""What a backend does on purpose, and what a schema costs: no faults, but good to know."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tasks.guide.backends import Compiled
from tasks.guide.backends.instances import IN_ANOTHER_ORDER, compact
from tasks.guide.lint.asking import Asking
from tasks.guide.lint.edit import everywhere, nodes
from tasks.guide.lint.model import Finding, Rewrite
from tasks.guide.lint.probes import Probe
from tasks.guide.lint.verdicts import Verdicts

SLOW_COMPILE_S = 1.0
SLOW_MASK_US = 10_000.0
_FASTER = 3.0
_SUSPECTS = (
    ("maxLength",), ("minLength", "maxLength"), ("maxItems",), ("minItems", "maxItems"), ("pattern",), ("format",),
    ("minLength", "maxLength", "minItems", "maxItems", "pattern", "format"),
)  # fmt: skip


def order_note(asking: Asking, verdicts: Verdicts, asked: list[Probe]) -> list[Finding]:
    """Whether the keys of an object must come in the schema's order, shown by the shortest valid instance with two."""
    for probe in asked:
        if not probe.valid or not isinstance(probe.value, dict) or len(probe.value) < 2:
            continue
        value = dict(reversed(probe.value.items()))
        taken = asking.takes(verdicts.schema, value, parts=verdicts.parts)
        if taken is not None and taken.form in IN_ANOTHER_ORDER:
            words = "takes the keys of an object only in the order of `properties`"
            return [Finding(kind="order", path="", words=words, instance=compact(value))]
        if taken is not None and taken.accepted:
            return []
    return []


def slow_note(
    asking: Asking, verdicts: Verdicts, *, compiled: Compiled, spent: list[float], timed: Sequence[Probe]
) -> list[Finding]:
    """Which keyword makes compiling or masks slow, if they are: the one without which they are three times faster.

    spent: microseconds of the masks of the `timed` probes, which are asked again without the keyword."""
    compile_s, mask_us = compiled.compile_s, _p99(spent)
    slow_compile = compile_s is not None and compile_s >= SLOW_COMPILE_S
    if slow_compile:
        slow, was = compile_s, f"compiling takes {compile_s:.1f} s"
    elif mask_us is not None and mask_us >= SLOW_MASK_US:
        slow, was = mask_us, f"a mask takes {mask_us / 1000:.0f} ms (p99)"
    else:
        return []
    present = {keyword for part in nodes(verdicts.schema) for keyword in part.node}
    for keywords in _SUSPECTS:
        if not set(keywords) & present:
            continue
        made = everywhere(verdicts.schema, frozenset(keywords))
        again = asking.compile(made)
        if again.status != "accepted":
            continue
        without = again.compile_s if slow_compile else _p99(mask_times(asking, made, verdicts, timed))
        if not without:
            continue
        faster = slow / without
        if faster >= _FASTER:
            names = " and ".join(sorted(set(keywords) & present))
            rewrite = Rewrite(words=f"drop {names} and validate the answers after", schema=made, exact=False)
            words = f"{was}, {faster:.0f} times as long as without {names}"
            return [
                Finding(
                    kind="slow", path=_first(verdicts.schema, keywords), words=words, instance=None, rewrite=rewrite
                )
            ]
    return [Finding(kind="slow", path="", words=was, instance=None)]


def mask_times(asking: Asking, schema: dict[str, Any], verdicts: Verdicts, timed: Sequence[Probe]) -> list[float]:
    """Microseconds of each mask of some probes under a schema; none where it could not be asked."""
    spent: list[float] = []
    for probe in timed:
        taken = asking.takes(schema, probe.value, parts=verdicts.parts, masks=True)
        spent.extend(taken.match.mask_us if taken is not None else [])
    return spent


def _p99(spent: Sequence[float]) -> float | None:
    return float(np.percentile(spent, 99)) if spent else None


def _first(schema: dict[str, Any], keywords: tuple[str, ...]) -> str:
    for part in nodes(schema):
        for keyword in keywords:
            if keyword in part.node:
                return f"{part.pointer}/{keyword}"
    return ""
