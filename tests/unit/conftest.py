"""What the tests of the grammar backends share: one child process, whose start takes as long as importing vLLM."""

from collections.abc import Iterator

import pytest

from tasks.guide.backends import Backends


@pytest.fixture(scope="session")
def grammar_backends() -> Iterator[Backends]:
    """All four, with a tokenizer of single bytes."""
    with Backends(model=None) as backends:
        yield backends
