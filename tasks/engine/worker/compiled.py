"""Grammars that were compiled once are there at once.

vLLM gives every guided request to a pool of threads to be compiled, and looks at each step whether that is done: the
steps, of which nothing comes, keep those threads from working. A grammar that xgrammar has in its cache is
there in some 20 microseconds, and needs no thread."""

import hashlib
from concurrent.futures import Future
from typing import Any

from tasks.engine.worker.within import grammars_of

_NEEDED = ("_create_grammar", "grammar_init")


def ready_at_once(engine: Any, *, backend: str) -> None:
    """A grammar that this engine compiled before is taken from xgrammar's cache while its request is added. The other
    backends have no cache, and go on as they do."""
    manager = grammars_of(engine)
    if backend != "xgrammar" or any(not hasattr(manager, name) for name in _NEEDED):
        return
    create, init = manager._create_grammar, manager.grammar_init
    compiled: set[bytes] = set()

    def create_grammar(request: Any) -> Any:
        grammar = create(request)
        compiled.add(_key(request))
        return grammar

    def grammar_init(request: Any) -> None:
        structured = request.structured_output_request
        if structured is None or manager.backend is None or _key(request) not in compiled:
            init(request)
            return
        try:
            structured.grammar = create(request)
        except Exception as error:  # noqa: BLE001 - vLLM's scheduler reads it there, and fails this request only
            failed: Future[Any] = Future()
            failed.set_exception(error)
            structured.grammar = failed

    manager._create_grammar = create_grammar
    manager.grammar_init = grammar_init


def _key(request: Any) -> bytes:
    kind, content = request.structured_output_request.structured_output_key
    return hashlib.blake2b(f"{kind} {content}".encode(), digest_size=16).digest()
