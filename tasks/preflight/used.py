"""The different grammars of a run, in the form in which the engine's backend gets them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.sample import Request
from tasks.engine.grammar_form import NoForm, engine_form


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """One of them. form and content: vLLM's; no_form: why the backend has none for it, and then they are empty.
    written: the content as the dataset has it."""

    grammar_id: str
    after: str | None
    kind: str
    written: str
    form: str = ""
    content: str = ""
    no_form: str | None = None

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema, where it is one that has keywords."""
        if self.kind != "json_schema":
            return None
        found = json.loads(self.written)
        return found if isinstance(found, dict) else None


def used_grammars(requests: Sequence[Request], *, backend: str, whitespace: bool) -> list[Used]:
    """Each once, in the order of the requests that are to be sent."""
    found: dict[tuple[str, str | None], Used] = {}
    for request in requests:
        grammar = request.grammar
        if grammar is None or request.refused is not None:
            continue
        key = (grammar.grammar_id, request.grammar_after)
        if key in found:
            continue
        own = {"grammar_id": key[0], "after": key[1], "kind": str(grammar.kind), "written": grammar.content}
        try:
            form, content = engine_form(
                kind=grammar.kind, content=grammar.content, after=key[1], backend=backend, whitespace=whitespace
            )
        except NoForm as error:
            found[key] = Used(**own, no_form=str(error))  # type: ignore[arg-type]
        else:
            found[key] = Used(**own, form=form, content=content)  # type: ignore[arg-type]
    return list(found.values())
