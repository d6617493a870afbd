"""Schemas that vLLM found good, which it need not look at again: it otherwise reads the schema anew for every request,
half a millisecond each for a small one, while the engine waits."""

import functools
import hashlib
import importlib
from typing import Any

_CHECKS = {
    "xgrammar": ("vllm.v1.structured_output.backend_xgrammar", "validate_xgrammar_grammar"),
    "guidance": ("vllm.v1.structured_output.backend_guidance", "validate_guidance_grammar"),
}


def check_once(backend: str) -> None:
    """From now on vLLM checks each JSON schema once for this backend. What it refused, it refuses again in its own
    words; other kinds of grammar, which some releases rewrite while they check, go through every time."""
    if backend not in _CHECKS:
        return
    module_name, name = _CHECKS[backend]
    module = importlib.import_module(module_name)
    check = getattr(module, name, None)
    if check is None or hasattr(check, "__wrapped__"):
        return
    good: set[bytes] = set()

    @functools.wraps(check)
    def checked(parameters: Any, *given: Any, **named: Any) -> None:
        schema = getattr(parameters.structured_outputs, "json", None)
        if not isinstance(schema, str):
            check(parameters, *given, **named)
            return
        seen = hashlib.blake2b(schema.encode(), digest_size=16).digest()
        if seen not in good:
            check(parameters, *given, **named)
            good.add(seen)

    setattr(module, name, checked)
