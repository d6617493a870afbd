"""The grammar backends' own matchers, outside any engine and set up as vLLM sets them up.

`Backends` compiles grammars and matches texts in a child process that may hang or crash without harm:

    with Backends(model=folder, names=["xgrammar", "guidance"]) as backends:
        compiled = backends.compile(backend="xgrammar", content=schema_text)
        if compiled.status == "accepted":
            backends.match(compiled, text='{"a":1}', masks=True).accepted

`tasks.guide.backends.instances` matches values of a JSON schema in whatever text form the backend takes.
"""

from tasks.guide.backends.answers import BackendFacts, Compiled, Match, Source
from tasks.guide.backends.known import BACKENDS, KINDS, Known
from tasks.guide.backends.session import Backends, BackendsError

__all__ = ["BACKENDS", "KINDS", "BackendFacts", "Backends", "BackendsError", "Compiled", "Known", "Match", "Source"]
