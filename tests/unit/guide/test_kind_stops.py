"""What is said where a guided answer cannot end with a token with which a free one does; and defaults given anew."""

from types import SimpleNamespace

from tasks.engine.settings import downgrades
from tasks.engine.worker.stops import _by_default


def test_tokens_that_only_free_answers_can_end_with_are_said() -> None:
    resolved = {"grammar_backend": "outlines", "stop_token_ids": [0, 2], "grammar_stop_token_ids": [0]}
    (said,) = downgrades({}, resolved)
    assert said.startswith("guided answers cannot end with the token 2, with which free ones do: outlines knows only 0")
    assert downgrades({}, {**resolved, "grammar_stop_token_ids": [0, 2]}) == []
    assert downgrades({}, {"grammar_backend": "xgrammar"}) == []


def test_a_default_gives_way_to_what_is_given() -> None:
    owner = SimpleNamespace(call=lambda *given, end=None: (given, end))
    _by_default(owner, "call", end=[0, 2])
    assert owner.call(1) == ((1,), [0, 2])
    assert owner.call(1, end=None) == ((1,), [0, 2])
    assert owner.call(1, end=[7]) == ((1,), [7])
