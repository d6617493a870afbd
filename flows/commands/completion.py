"""What Tab offers in the SQL shell: tables, columns with their meaning, macros, functions, keywords, dot-commands."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from warehouse.vocabulary import Relation, Vocabulary

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_DOTTED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z0-9_]*)$")
_AFTER_FROM = re.compile(r"\b(?:from|join|describe|summarize|show|table)\s+(?:[A-Za-z0-9_]+\s*,\s*)*$", re.IGNORECASE)
_NAMED = re.compile(
    r"\b(?:from|join)\s+([A-Za-z_][A-Za-z0-9_]*)(?:\s*\([^()]*\))?(?:\s+(?:as\s+)?([A-Za-z_][A-Za-z0-9_]*))?",
    re.IGNORECASE,
)
_NO_ALIAS = frozenset({"where", "join", "inner", "left", "right", "full", "on", "using", "group", "order", "limit"})


class SqlCompleter(Completer):
    """Completes the statement that is being typed; dot-commands where the text begins with a dot."""

    def __init__(self, vocabulary: Callable[[], Vocabulary], *, commands: Mapping[str, str]) -> None:
        self._vocabulary = vocabulary
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Most fitting first; nothing in the middle of a string."""
        before = document.text_before_cursor
        if before.lstrip().startswith("."):
            yield from self._dot_command(before.lstrip())
            return
        if before.count("'") % 2:
            return
        words = self._vocabulary()
        dotted = _DOTTED.search(before)
        if dotted is not None:
            relation = _aliases(document.text, words).get(dotted[1].lower())
            if relation is not None:
                yield from _columns([relation], typed=dotted[2])
            return
        word = _WORD.search(before)
        typed = "" if word is None else word[0]
        if _AFTER_FROM.search(before[: len(before) - len(typed)]):
            yield from _relations(words, typed=typed)
            return
        if not typed:
            return
        yield from self._anything(document, words, typed=typed)

    def _anything(self, document: Document, words: Vocabulary, *, typed: str) -> Iterator[Completion]:
        named = list({relation.name: relation for relation in _aliases(document.text, words).values()}.values())
        offered: set[str] = set()
        for found in (
            _columns(named, typed=typed),
            _relations(words, typed=typed),
            _columns([] if named else list(words.relations.values()), typed=typed),
            _keywords(words, typed=typed),
            _functions(words, typed=typed),
        ):
            for each in found:
                if each.text not in offered:
                    offered.add(each.text)
                    yield each

    def _dot_command(self, text: str) -> Iterator[Completion]:
        command, space, argument = text.partition(" ")
        if not space:
            for name, doc in self._commands.items():
                if name.startswith(command):
                    yield Completion(name, start_position=-len(command), display_meta=doc)
        elif command == ".columns":
            yield from _relations(self._vocabulary(), typed=argument.strip(), calls=False)
        elif command == ".format":
            for name in ("table", "json", "csv", "markdown", "parquet"):
                if name.startswith(argument.strip()):
                    yield Completion(name, start_position=-len(argument.strip()))


def _aliases(text: str, words: Vocabulary) -> dict[str, Relation]:
    """The relations that a statement names, by their own name and by their alias."""
    found: dict[str, Relation] = {}
    for name, alias in _NAMED.findall(text):
        relation = words.relations.get(name.lower())
        if relation is not None:
            found[name.lower()] = relation
            if alias and alias.lower() not in _NO_ALIAS:
                found[alias.lower()] = relation
    return found


def _relations(words: Vocabulary, *, typed: str, calls: bool = True) -> Iterator[Completion]:
    for name, relation in words.relations.items():
        if name.startswith(typed.lower()) and (calls or not relation.call):
            text = f"{name}(" if relation.call else name
            yield Completion(
                text, start_position=-len(typed), display=f"{name}{relation.call}", display_meta=relation.doc
            )


def _columns(relations: Iterable[Relation], *, typed: str) -> Iterator[Completion]:
    offered: set[str] = set()
    for relation in relations:
        for name, doc in relation.columns.items():
            if name.startswith(typed.lower()) and name not in offered:
                offered.add(name)
                yield Completion(name, start_position=-len(typed), display_meta=f"{relation.name}: {doc}")


def _keywords(words: Vocabulary, *, typed: str) -> Iterator[Completion]:
    for name in words.keywords:
        if name.startswith(typed.upper()):
            yield Completion(name if not typed.islower() else name.lower(), start_position=-len(typed))


def _functions(words: Vocabulary, *, typed: str) -> Iterator[Completion]:
    for name, doc in words.functions.items():
        if name.startswith(typed.lower()):
            yield Completion(f"{name}(", start_position=-len(typed), display=name, display_meta=doc)
