"""Context-free grammars over characters, and a recogniser of them: whether a text is in a grammar's language, exactly.

Each rule becomes an automaton whose edges are characters and calls of other rules, and an Earley parser runs over those
(left recursion, ambiguity and empty rules are all fine). It knows nothing of tokens and shares no code with any
grammar engine: that is what makes it a judge of one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tasks.guide.kinds.nodes import Alt, Chars, GrammarError, Node, Ref, Repeat, Seq, Text, refs

MOST_STATES = 200_000


@dataclass
class _Automaton:
    """The states of all rules. Edges by state: (characters, target), (rule, target), and those that read nothing."""

    chars: list[list[tuple[Chars, int]]] = field(default_factory=list)
    calls: list[list[tuple[str, int]]] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)

    def state(self) -> int:
        if len(self.free) >= MOST_STATES:
            raise GrammarError(f"is too large to be judged: more than {MOST_STATES:,} states")
        for edges in (self.chars, self.calls, self.free):
            edges.append([])
        return len(self.free) - 1

    def add(self, node: Node, begin: int) -> int:
        """Adds what `node` reads from the state `begin` on; the state where it ends."""
        match node:
            case Text(text):
                for character in text:
                    begin = self._step(Chars(((ord(character), ord(character)),)), begin)
                return begin
            case Chars():
                return self._step(node, begin)
            case Ref(name):
                end = self.state()
                self.calls[begin].append((name, end))
                return end
            case Seq(items):
                for item in items:
                    begin = self.add(item, begin)
                return begin
            case Alt(items):
                end = self.state()
                for item in items:
                    branch = self.state()
                    self.free[begin].append(branch)
                    self.free[self.add(item, branch)].append(end)
                return end
            case Repeat(item, least, most):
                return self._repeated(item, least=least, most=most, begin=begin)

    def _step(self, chars: Chars, begin: int) -> int:
        end = self.state()
        self.chars[begin].append((chars, end))
        return end

    def _repeated(self, item: Node, *, least: int, most: int | None, begin: int) -> int:
        for _ in range(least):
            begin = self.add(item, begin)
        end = self.state()
        if most is None:
            loop = self.state()
            self.free[begin].append(loop)
            self.free[self.add(item, loop)].append(loop)
            self.free[loop].append(end)
            return end
        for _ in range(most - least):
            self.free[begin].append(end)
            begin = self.add(item, begin)
        self.free[begin].append(end)
        return end


_Item = tuple[frozenset[int], int]
"""States of a rule, and the place where the rule began."""
_Waiting = dict[str, list[_Item]]
"""By rule, what goes on once it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Where a text leaves a grammar: the index of the first character that cannot stand there; at its end: it stops
    too early."""

    at: int


class Network:
    """The grammar of `start` and the rules that it calls. Raises GrammarError for a rule that is called and not there,
    one that can never end, and a grammar too large."""

    def __init__(self, rules: Mapping[str, Node], *, start: str) -> None:
        if start not in rules:
            raise GrammarError(f"there is no rule `{start}`, with which a text begins")
        for name, body in rules.items():
            missing = next((each for each in refs(body) if each not in rules), None)
            if missing is not None:
                raise GrammarError(f"the rule `{name}` calls `{missing}`, which is not there", name=missing)
        self._rules = dict(rules)
        self._start = start
        if start not in _ending(self._rules):
            raise GrammarError(f"no text can ever obey it: the rule `{start}` never ends")
        self._automaton = _Automaton()
        self._begin: dict[str, frozenset[int]] = {}
        self._end: dict[str, int] = {}
        try:
            for name, body in rules.items():
                first = self._automaton.state()
                self._end[name] = self._automaton.add(body, first)
                self._begin[name] = self._closed([first])
        except RecursionError as error:
            raise GrammarError("is nested too deeply to be judged") from error
        self._rule_at = {end: name for name, end in self._end.items()}
        self._steps: dict[tuple[frozenset[int], int], frozenset[int] | None] = {}
        self._calls: dict[frozenset[int], list[tuple[str, frozenset[int]]]] = {}

    @cached_property
    def _nullable(self) -> frozenset[str]:
        """The rules that may read nothing."""
        found: set[str] = set()
        grown = True
        while grown:
            new = {name for name, body in self._rules.items() if name not in found and _empty(body, found)}
            grown = bool(new)
            found |= new
        return frozenset(found)

    def _closed(self, states: Iterable[int]) -> frozenset[int]:
        found, todo = set(states), list(states)
        while todo:
            for target in self._automaton.free[todo.pop()]:
                if target not in found:
                    found.add(target)
                    todo.append(target)
        return frozenset(found)

    def _after(self, states: frozenset[int], code: int) -> frozenset[int] | None:
        key = (states, code)
        if key not in self._steps:
            targets = [end for state in states for chars, end in self._automaton.chars[state] if chars.has(code)]
            self._steps[key] = self._closed(targets) if targets else None
        return self._steps[key]

    def _called(self, states: frozenset[int]) -> list[tuple[str, frozenset[int]]]:
        if states not in self._calls:
            ends: dict[str, list[int]] = {}
            for state in states:
                for name, end in self._automaton.calls[state]:
                    ends.setdefault(name, []).append(end)
            self._calls[states] = [(name, self._closed(targets)) for name, targets in ends.items()]
        return self._calls[states]

    def _finished(self, states: frozenset[int]) -> list[str]:
        return [self._rule_at[state] for state in states if state in self._rule_at]

    def fault(self, text: str) -> Fault | None:
        """None if all of `text` is in the language; else where it leaves it."""
        waiting: list[_Waiting] = []
        tops: dict[tuple[int, str], _Item | None] = {}
        items = {(self._begin[self._start], 0)}
        for at in range(len(text) + 1):
            waiting.append({})
            self._complete(items, at=at, waiting=waiting, tops=tops)
            if at == len(text):
                break
            code = ord(text[at])
            items = {(after, origin) for states, origin in items if (after := self._after(states, code)) is not None}
            if not items:
                return Fault(at=at)
        whole = any(origin == 0 and self._end[self._start] in states for states, origin in items)
        return None if whole else Fault(at=len(text))

    def _complete(
        self, items: set[_Item], *, at: int, waiting: list[_Waiting], tops: dict[tuple[int, str], _Item | None]
    ) -> None:
        """Adds to the items at one place those that calls and ends of rules lead to."""
        todo = list(items)
        here = waiting[at]
        while todo:
            states, origin = todo.pop()
            found = []
            for name, after in self._called(states):
                here.setdefault(name, []).append((after, origin))
                found.append((self._begin[name], at))
                if name in self._nullable:
                    found.append((after, origin))
            for name in self._finished(states):
                top = None if origin == at else self._top(name, origin, waiting=waiting, tops=tops)
                found += waiting[origin].get(name, ()) if top is None else [top]
            for item in found:
                if item not in items:
                    items.add(item)
                    todo.append(item)

    def _top(
        self, name: str, origin: int, *, waiting: list[_Waiting], tops: dict[tuple[int, str], _Item | None]
    ) -> _Item | None:
        """Where the end of a rule leads to, if only one waits for it, which thereby ends too, and so on: the last of
        them. Without it (Leo 1991) a rule that calls itself at its end takes time with the square of the text."""
        path: list[tuple[int, str]] = []
        found: _Item | None = None
        while (origin, name) not in tops:
            calls = waiting[origin].get(name, ())
            if len(calls) != 1 or calls[0][1] >= origin or not self._only_ends(calls[0][0]):
                tops[(origin, name)] = None
                break
            path.append((origin, name))
            found = calls[0]
            (name,), origin = self._finished(found[0]), found[1]
        found = tops[(origin, name)] or found
        tops.update(dict.fromkeys(path, found))
        return found

    def _only_ends(self, states: frozenset[int]) -> bool:
        """Whether nothing can follow there but the end of the one rule."""
        automaton = self._automaton
        if any(automaton.chars[state] or automaton.calls[state] for state in states):
            return False
        return len(self._finished(states)) == 1


def _empty(node: Node, nullable: set[str]) -> bool:
    match node:
        case Text(text):
            return not text
        case Chars():
            return False
        case Ref(name):
            return name in nullable
        case Seq(items):
            return all(_empty(item, nullable) for item in items)
        case Alt(items):
            return any(_empty(item, nullable) for item in items)
        case Repeat(item, least):
            return least == 0 or _empty(item, nullable)


def _ending(rules: Mapping[str, Node]) -> set[str]:
    """The rules of which some text is an instance."""
    found: set[str] = set()

    def ends(node: Node) -> bool:
        match node:
            case Text():
                return True
            case Chars(ranges):
                return bool(ranges)
            case Ref(name):
                return name in found
            case Seq(items):
                return all(map(ends, items))
            case Alt(items):
                return any(map(ends, items))
            case Repeat(item, least):
                return least == 0 or ends(item)

    grown = True
    while grown:
        new = {name for name, body in rules.items() if name not in found and ends(body)}
        grown = bool(new)
        found |= new
    return found
