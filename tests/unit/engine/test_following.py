"""Grammars that follow their tokens when their next masks are made: the same as ones that follow at once."""

from dataclasses import dataclass
from typing import Any

import pytest
import xgrammar

from tasks.engine.worker.following import Later, accept_together

ENDS = 0
VOCABULARY = ["<end>", "a", "b", "c", "ab"]


@dataclass
class AtOnce:
    """As vLLM's XgrammarGrammar, of which each token is asked for at once."""

    matcher: Any
    num_processed_tokens: int = 0
    _is_terminated: bool = False

    def accept_tokens(self, _: str, tokens: list[int]) -> bool:
        for token in tokens:
            if not self.matcher.accept_token(token):
                return False
            self.num_processed_tokens += 1
        self._is_terminated = self.matcher.is_terminated()
        return True

    def is_terminated(self) -> bool:
        return self._is_terminated

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        return [token for token in tokens[:1] if self.matcher.fork().accept_token(token)]

    def rollback(self, num_tokens: int) -> None:
        self.matcher.rollback(num_tokens)
        self.num_processed_tokens -= num_tokens

    def fill_bitmask(self, bitmask: Any, index: int) -> None:
        self.matcher.fill_next_token_bitmask(bitmask, index)

    def reset(self) -> None:
        self.matcher.reset()


class Followed(Later, AtOnce):
    ends = frozenset({ENDS})


@pytest.fixture(scope="module")
def compiled() -> Any:
    tokens = xgrammar.TokenizerInfo(VOCABULARY, vocab_size=len(VOCABULARY), stop_token_ids=[ENDS])
    return xgrammar.GrammarCompiler(tokens).compile_regex("(ab)*c")


def mask(grammar: AtOnce) -> list[int]:
    rows = xgrammar.allocate_token_bitmask(1, len(VOCABULARY))
    grammar.fill_bitmask(rows, 0)
    return [token for token in range(len(VOCABULARY)) if int(rows[0, 0]) >> token & 1]


def test_each_mask_is_the_same(compiled: Any) -> None:
    soon = AtOnce(xgrammar.GrammarMatcher(compiled))
    late = Followed(xgrammar.GrammarMatcher(compiled))
    assert mask(late) == mask(soon) == [1, 3, 4]
    for token in (1, 2, 4, 3):
        assert soon.accept_tokens("it", [token]) and late.accept_tokens("it", [token])
        assert late.behind == token
        assert mask(late) == mask(soon)
        assert late.behind is None and late.num_processed_tokens == soon.num_processed_tokens
    assert late.accept_tokens("it", [ENDS]) and late.is_terminated()


def test_together_or_in_twos_they_come_to_the_same(compiled: Any) -> None:
    grammars = [Followed(xgrammar.GrammarMatcher(compiled)) for _ in range(3)]
    for grammar in grammars[:2]:
        assert grammar.accept_tokens("it", [1])
    accept_together(grammars)
    assert [mask(grammar) for grammar in grammars] == [[2], [2], [1, 3, 4]]
    assert [grammar.num_processed_tokens for grammar in grammars] == [1, 1, 0]
    assert grammars[0].accept_tokens("it", [2]) and grammars[0].accept_tokens("it", [3, ENDS])
    assert grammars[0].is_terminated()


def test_what_is_asked_in_between_is_answered_after_it_followed(compiled: Any) -> None:
    grammar = Followed(xgrammar.GrammarMatcher(compiled))
    assert grammar.accept_tokens("it", [1])
    assert grammar.validate_tokens([2]) == [2]
    assert grammar.accept_tokens("it", [2])
    grammar.rollback(2)
    assert mask(grammar) == [1, 3, 4] and grammar.num_processed_tokens == 0
    assert grammar.accept_tokens("it", [1])
    grammar.reset()
    assert mask(grammar) == [1, 3, 4]


def test_a_token_that_the_grammar_forbids_ends_the_request_at_the_next_one(
    compiled: Any, caplog: pytest.LogCaptureFixture
) -> None:
    grammar = Followed(xgrammar.GrammarMatcher(compiled))
    assert grammar.accept_tokens("it", [2])
    accept_together([grammar])
    assert "forbids the token 2" in caplog.text
    assert mask(grammar) == [1, 3, 4]
    assert not grammar.accept_tokens("it", [1])
