"""Grammars that follow their tokens when their next masks are made, one after the other, and not between other work.
What a grammar is asked in between, it answers after it followed."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tasks.engine.worker.within import grammars_of

log = logging.getLogger(__name__)


class Later:
    """Comes before vLLM's XgrammarGrammar: one token may wait in `behind`. A token that the grammar forbids, which no
    mask lets through, is found out a step later than vLLM would."""

    matcher: Any
    behind: int | None = None
    lost = False
    ends: frozenset[int] = frozenset()
    """Tokens that end a grammar: they never wait."""

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        if self.behind is None and len(tokens) == 1 and tokens[0] not in self.ends and not self._is_terminated:  # type: ignore[attr-defined]
            self.behind = tokens[0]
            return not self.lost
        self.catch_up()
        return not self.lost and super().accept_tokens(request_id, tokens)  # type: ignore[misc]

    def catch_up(self) -> None:
        if self.behind is not None:
            accept_together([self])

    def refuse(self, token: int) -> None:
        """The grammar forbids a token that had waited: its request ends with an error at the next one."""
        self.lost = True
        log.error("a grammar forbids the token %s that was sampled under its mask", token)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        self.catch_up()
        return super().validate_tokens(tokens)  # type: ignore[misc]

    def rollback(self, num_tokens: int) -> None:
        self.catch_up()
        super().rollback(num_tokens)  # type: ignore[misc]

    def fill_bitmask(self, bitmask: Any, index: int) -> None:
        self.catch_up()
        super().fill_bitmask(bitmask, index)  # type: ignore[misc]

    def reset(self) -> None:
        self.behind, self.lost = None, False
        super().reset()  # type: ignore[misc]


def follow_later(engine: Any) -> None:
    """Every xgrammar grammar of this engine is Later from now on. Its scheduler is in this process."""
    from vllm.v1.structured_output.backend_xgrammar import XgrammarGrammar  # noqa: PLC0415 - costs seconds

    manager = grammars_of(engine)
    create = manager._create_grammar
    later: Any = type("LaterXgrammarGrammar", (Later, XgrammarGrammar), {})
    names = [each.name for each in fields(XgrammarGrammar) if each.init]

    def create_grammar(request: Any) -> Any:
        grammar = create(request)
        if type(grammar) is XgrammarGrammar:
            grammar = later(**{name: getattr(grammar, name) for name in names})
            later.ends = later.ends or frozenset(grammar.matcher.stop_token_ids)  # the tokenizer's, the same for all
        return grammar

    manager._create_grammar = create_grammar


def accept_together(grammars: Sequence[Any]) -> None:
    """Has these grammars follow what they are behind: one after the other, which takes half as long as between other
    work, and less than xgrammar's own call for many with its list of answers."""
    for grammar in grammars:
        token = grammar.behind
        if token is not None:
            grammar.behind = None
            if grammar.matcher.accept_token(token):
                grammar.num_processed_tokens += 1
            else:
                grammar.refuse(token)
