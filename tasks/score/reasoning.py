"""Reasoning parsers by name: they tell the reasoning in a model's text from the answer behind it.

Each module in tasks/score/parsers is one, with a function `parse`; installed packages add theirs by entry points of
the group `assay.parsers`. A parser is a callable text -> (reasoning, answer, closed). It may say what begins the
reasoning (a module's `OPENS`, the attribute `opens` of a package's callable): where a prompt ends with that, what the
model writes has no beginning of its own, and the parser gets it with it. It may say what ends it (`CLOSES`, `closes`):
a guide with `after: reasoning` lets an engine write freely up to there.

`after:TEXT` is a parser too, for any text: the answer is what follows its first occurrence.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from schemas.errors import ConfigError
from tasks.config.nearest import did_you_mean_or_list
from tasks.plugins import Plugin, load, plugins, plugins_named, twice, unfit

_FOLDER = Path(__file__).parent / "parsers"
_PARTS = 3
AFTER = "after:"
"""What a parser's name begins with that is given by the text which ends what is no answer."""
NO_PARSER = "none"
"""What stands for no parser in a config and on the command line."""
UNFINISHED = "cut before the reasoning ended"
"""The reason of an answer that never came, because its reasoning did not end."""


class Reasoning(NamedTuple):
    """reasoning: None where the text has none; answer: what is scored; closed: False where the reasoning never ended,
    so that there is no answer."""

    reasoning: str | None
    answer: str
    closed: bool


Parser = Callable[[str], tuple[str | None, str, bool]]


@cache
def _own_names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(_FOLDER)])))


def parser_names() -> list[str]:
    """The names of all parsers, those of plugins too, sorted."""
    return sorted({*_own_names(), *(plugin.name for plugin in plugins("assay.parsers"))})


@cache
def parser(name: str) -> Parser:
    """The parser of that name. Raises ConfigError with the nearest name for one that does not exist, for a name that is
    there twice, and for a plugin's that cannot be imported or cannot be called."""
    if name.startswith(AFTER) and name != AFTER:
        return _after(name.removeprefix(AFTER))
    added = plugins_named("assay.parsers", name)
    own = [f"assay's own tasks/score/parsers/{name}.py"] if name in _own_names() else []
    if added and len(own) + len(added) > 1:
        raise twice(name, [*own, *(plugin.place for plugin in added)], what="reasoning parser")
    if added:
        return _of_plugin(added[0])
    if not own:
        hint = did_you_mean_or_list(name, parser_names())
        raise ConfigError.one(f"there is no reasoning parser `{name}`", suggestion=hint)
    found: Parser = importlib.import_module(f"tasks.score.parsers.{name}").parse
    return found


def chosen_parser(own: str | None, otherwise: str | None) -> str | None:
    """The parser of two settings, of which the first counts if it says anything; None for none."""
    chosen = otherwise if own is None else own
    return None if chosen == NO_PARSER else chosen


@cache
def opens(name: str) -> str | None:
    """What begins the reasoning, where the parser of that name says it."""
    return _told(name, "opens")


@cache
def closes(name: str) -> str | None:
    """What ends the reasoning, where the parser of that name says it."""
    return _told(name, "closes")


def _told(name: str, what: str) -> str | None:
    found = parser(name)
    if name in _own_names():
        return getattr(importlib.import_module(f"tasks.score.parsers.{name}"), what.upper(), None)
    return getattr(found, what, None)


def _after(marker: str) -> Parser:
    def parse(text: str) -> Reasoning:
        before, found, after = text.partition(marker)
        if not found:
            return Reasoning(reasoning=None, answer=text, closed=True)
        return Reasoning(reasoning=before.strip(), answer=after.strip(), closed=True)

    parse.closes = marker  # type: ignore[attr-defined]
    return parse


def _of_plugin(plugin: Plugin) -> Parser:
    found = load(plugin, what="reasoning parser")
    if not callable(found):
        raise unfit(plugin, what="reasoning parser", reason=f"a {type(found).__name__} cannot be called")

    def checked(text: str) -> Reasoning:
        try:
            given = found(text)
        except Exception as error:  # the plugin's own code, on what a model wrote
            reason = f"it failed on an answer: {type(error).__name__}: {error}"
            raise unfit(plugin, what="reasoning parser", reason=reason) from error
        if not (isinstance(given, tuple) and len(given) == _PARTS and _fits(*given)):
            reason = "it must give (reasoning: text or None, answer: text, closed: True or False)"
            raise unfit(plugin, what="reasoning parser", reason=reason)
        return Reasoning(*given)

    checked.opens = getattr(found, "opens", None)  # type: ignore[attr-defined]
    checked.closes = getattr(found, "closes", None)  # type: ignore[attr-defined]
    return checked


def _fits(reasoning: object, answer: object, closed: object) -> bool:
    return isinstance(reasoning, str | None) and isinstance(answer, str) and isinstance(closed, bool)


def begun_in(prompt: str, name: str) -> bool:
    """Whether a prompt ends with the beginning of the reasoning, as some models' chat templates let it."""
    begin = opens(name)
    return begin is not None and prompt[-len(begin) - 100 :].rstrip().endswith(begin)


def parse_reasoning(name: str, text: str, *, begun: bool = False) -> Reasoning:
    """The parts of one answer, told apart by the parser of that name. begun: its prompt ends within the reasoning.
    Raises ConfigError as `parser` does."""
    begin = opens(name) if begun else None
    if begin is not None and not text.lstrip().startswith(begin):
        text = begin + text
    return Reasoning(*parser(name)(text))


def cut_at_stop(answer: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """The answer up to the first of the stop strings in it, and which one that was; None where none is in it."""
    found = [(place, each) for each in stop if each and (place := answer.find(each)) >= 0]
    if not found:
        return answer, None
    place, each = min(found, key=lambda one: one[0])
    return answer[:place], each
