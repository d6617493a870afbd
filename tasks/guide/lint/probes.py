"""The instances that a schema's grammar is asked with, each with the validator's verdict."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.guide.backends.instances import compact
from tasks.guide.lint.mutate import Step, put, steps_away
from tasks.guide.lint.values import Values
from tasks.guide.lint.verdicts import Verdicts

_TRIES = 30
_MOST_BASES = 8
_MOST_TRIED = 1_200
_MOST_VALID = 50
_MOST_INVALID = 120
_LONGEST = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """An instance, whether the schema allows it, and which keywords it breaks (JSON pointers)."""

    value: Any
    text: str
    valid: bool
    keywords: tuple[str, ...] = ()


def probes(verdicts: Verdicts, *, seed: int, given: Sequence[Any] = ()) -> list[Probe]:
    """Instances with verdicts, the shortest first, as many keywords as possible among the broken ones. The same for the
    same seed. given: instances that are asked in any case. None is among them that the validator could not judge:
    nothing can be claimed of a backend by it."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    values = Values(verdicts.parts, rng)
    made: dict[str, Probe] = {}
    kept = [_probe(verdicts, value) for value in given if verdicts.judged(value)]
    bases = [probe for probe in kept if probe.valid][:_MOST_BASES]
    for number in range(_TRIES):
        fullness = (0.0, 1.0, 0.5)[number % 3]
        probe = _made(verdicts, values, fullness)
        if probe is not None:
            made.setdefault(probe.text, probe)
    valid = sorted((probe for probe in made.values() if probe.valid), key=_size)
    bases += [*valid[: _MOST_BASES // 2], *valid[-_MOST_BASES // 2 :]] if len(valid) > _MOST_BASES else valid
    steps: dict[str, list[tuple[Any, Step]]] = {}
    for base in sorted(bases, key=_size):
        for step in steps_away(base.value, parts=verdicts.parts, values=values, rng=rng):
            steps.setdefault(step[0], []).append((base.value, step))
    for base_value, (_, path, value) in _spread(steps, rng):
        changed = put(base_value, path, value)
        text = compact(changed)
        if len(text) <= _LONGEST and text not in made and verdicts.judged(changed):
            made[text] = _probe(verdicts, changed)
    made = {text: probe for text, probe in made.items() if not _of_a_dialect(probe)}
    chosen = {probe.text: probe for probe in kept}
    chosen |= {probe.text: probe for probe in _some([p for p in made.values() if p.valid], _MOST_VALID, rng)}
    chosen |= {probe.text: probe for probe in _covering([p for p in made.values() if not p.valid])}
    return sorted(chosen.values(), key=_size)


def _made(verdicts: Verdicts, values: Values, fullness: float) -> Probe | None:
    try:
        value = values.make(verdicts.schema, fullness=fullness)
        return _probe(verdicts, value) if verdicts.judged(value) else None
    except (RecursionError, TypeError, ValueError, AttributeError, OverflowError):
        return None  # a keyword of a shape that no draft has; the validator passes over those too


def _probe(verdicts: Verdicts, value: Any) -> Probe:
    return Probe(value=value, text=compact(value), valid=verdicts.valid(value), keywords=verdicts.keywords(value))


def _of_a_dialect(probe: Probe) -> bool:
    """Whether the verdict hangs on a dialect of patterns: is é a `\\w`, does `$` stand before a last line feed?
    Validators differ there, so nothing is claimed of it."""
    broken = any(keyword.endswith(("/pattern", "/propertyNames")) for keyword in probe.keywords)
    return broken and (not probe.text.isascii() or "\\n" in probe.text)


def _size(probe: Probe) -> tuple[int, str]:
    return len(probe.text), probe.text


def _spread(steps: dict[str, list[tuple[Any, Step]]], rng: random.Random) -> list[tuple[Any, Step]]:
    """At most _MOST_TRIED steps, each keyword having its turn."""
    for each in steps.values():
        rng.shuffle(each)
    found: list[tuple[Any, Step]] = []
    while len(found) < _MOST_TRIED and any(steps.values()):
        for each in steps.values():
            if each:
                found.append(each.pop())
    return found


def _some(found: list[Probe], most: int, rng: random.Random) -> list[Probe]:
    ranked = sorted(found, key=_size)
    if len(ranked) <= most:
        return ranked
    return [*ranked[: most // 2], *rng.sample(ranked[most // 2 :], most - most // 2)]


def _covering(invalid: list[Probe]) -> list[Probe]:
    """The shortest few for each keyword that is broken alone, then for each set of them."""
    by_keywords: dict[tuple[str, ...], list[Probe]] = {}
    for probe in sorted(invalid, key=lambda probe: (len(probe.keywords), *_size(probe))):
        by_keywords.setdefault(probe.keywords, []).append(probe)
    found: list[Probe] = []
    for turn in range(6):
        for group in by_keywords.values():
            if turn < len(group) and len(found) < _MOST_INVALID:
                found.append(group[turn])
    return found
