"""What to change in a schema that a backend does not take, so that it does."""

from collections.abc import Iterator
from typing import Any

from tasks.guide.lint.asking import Asking
from tasks.guide.lint.blame import unwanted
from tasks.guide.lint.edit import everywhere, nodes
from tasks.guide.lint.model import Rewrite
from tasks.guide.lint.probes import Probe
from tasks.guide.lint.rewrite import candidates
from tasks.guide.lint.verdicts import Verdicts
from tasks.guide.pointers import step

_MOST_SHOWN = 3
_MOST_TRIED = 8


def way_out(asking: Asking, verdicts: Verdicts, asked: list[Probe]) -> Rewrite | None:
    """The smallest change that was tried and is taken: a keyword written in another way, or keywords left out. None
    where none is found. Raises OutOfTime."""
    schema = verdicts.schema
    for words, made in _other_ways(schema):
        if asking.compile(made).status == "accepted" and same(made, asked):
            return Rewrite(words=words, schema=made, exact=True)
    names = unwanted(schema, accepted=lambda other: asking.compile(other).status == "accepted")
    if names is None:
        return None
    found = [(part.pointer, name) for part in nodes(schema) for name in sorted(names & part.node.keys())]
    places = ", ".join(step(pointer, name) for pointer, name in found[:_MOST_SHOWN])
    places += f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    made = everywhere(schema, names)
    words = f"drop {', '.join(sorted(names))} ({places}) and validate the answers after"
    return Rewrite(words=words, schema=made, exact=same(made, asked))


def _other_ways(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema with one of its keywords written in another way, a few of them."""
    seen: set[str] = set()
    for part in nodes(schema):
        for keyword in part.node:
            for words, made in candidates(schema, step(part.pointer, keyword), drop=False):
                if words not in seen:
                    seen.add(words)
                    yield words, made
                if len(seen) >= _MOST_TRIED:
                    return


def same(schema: dict[str, Any], asked: list[Probe]) -> bool:
    """Whether another schema has the same verdict on every probe."""
    try:
        other = Verdicts(schema, grammar_id="rewrite")
        return all(other.valid(probe.value) is probe.valid for probe in asked)
    except (ValueError, RecursionError):
        return False
