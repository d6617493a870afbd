"""The tokens that end an answer, and those that the grammar backend lets an answer end with.

A model may end its turn with several tokens: the tokenizer's own, and those of its generation config. Some releases of
vLLM tell a grammar backend only of the first, so that a guided answer cannot end with the token that the model would
take, and goes on as long as its grammar lets it. Here the backend is told of all of them, where it can be.
"""

import functools
import inspect
from typing import Any


def heed_all_stops(engine: Any, *, inprocess: bool) -> dict[str, list[int]]:
    """Tells the engine's backend of every token that ends an answer. Before the first guided request.

    inprocess: whether vLLM's core, and so the backend, is in this process. Gives stop_token_ids, all those tokens, and
    grammar_stop_token_ids, those that the backend's mask allows at an end."""
    config = engine.vllm_config
    own = engine.get_tokenizer().eos_token_id
    generation = config.model_config.try_get_generation_config().get("eos_token_id")
    more = [generation] if isinstance(generation, int) else list(generation or [])
    ends = list(dict.fromkeys(token for token in [own, *more] if token is not None))
    known = [token for token in ends if token == own]
    if len(ends) > len(known):
        known = _tell(config.structured_outputs_config.backend, ends, known, inprocess=inprocess)
    return {"stop_token_ids": ends, "grammar_stop_token_ids": known}


def _tell(backend: str, ends: list[int], known: list[int], *, inprocess: bool) -> list[int]:
    if backend == "xgrammar":
        from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend  # noqa: PLC0415 - costs seconds

        if "stop_token_ids" in inspect.signature(XgrammarBackend.compile_grammar).parameters:
            return ends
        if inprocess:
            import xgrammar  # noqa: PLC0415

            _by_default(xgrammar.GrammarMatcher, "__init__", override_stop_tokens=ends)
            return ends
    if backend == "guidance" and inprocess:
        from llguidance import hf  # noqa: PLC0415

        if "eos_token" in inspect.signature(hf.from_tokenizer).parameters:
            _by_default(hf, "from_tokenizer", eos_token=ends)
            return ends
    return known


def _by_default(owner: Any, name: str, **values: Any) -> None:
    """Gives a function's arguments other defaults."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def called(*given: Any, **named: Any) -> Any:
        return inner(*given, **{**values, **{key: value for key, value in named.items() if value is not None}})

    setattr(owner, name, called)
