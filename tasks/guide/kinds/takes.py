"""Which backend takes which kind of guide, as vLLM drives it."""

from pathlib import Path

from schemas.guide import Guide
from tasks.guide.backends.known import BACKENDS as KNOWN
from tasks.guide.kinds import ebnf
from tasks.guide.kinds.nodes import GrammarError

BACKENDS = tuple(KNOWN)
_WITH_GRAMMARS = ("xgrammar", "guidance")
TAKERS: dict[str, tuple[str, ...]] = {
    "json_schema": BACKENDS,
    "json_object": ("xgrammar", "guidance", "lm-format-enforcer"),
    "regex": BACKENDS,
    "choice": BACKENDS,
    "ebnf": _WITH_GRAMMARS,
    "python": _WITH_GRAMMARS,
    "math": _WITH_GRAMMARS,
    "sql": _WITH_GRAMMARS,
    "tool_calls": _WITH_GRAMMARS,
}
"""By kind of guide."""
_OWN_GRAMMAR = ("ebnf", "python", "math", "sql")


def takers(guide: Guide) -> tuple[str, ...]:
    """The backends that take a guide, the first of them the likeliest. None of them may take each row's own grammar."""
    return tuple(name for name in BACKENDS if backend_fault(guide, backend=name) is None)


def backend_fault(guide: Guide, *, backend: str) -> str | None:
    """Why a backend does not take a guide, in words; None if it does."""
    able = TAKERS[guide.kind]
    if guide.after is not None:
        able = tuple(name for name in able if name in _WITH_GRAMMARS)
        if guide.kind in _OWN_GRAMMAR:
            able = ("xgrammar",)
    if guide.tool_choice == "auto":
        able = ("xgrammar",)
    if backend not in able:
        what = f"{'an' if guide.kind == 'ebnf' else 'a'} {guide.kind} guide"
        what += " with `after`" if guide.after is not None else ""
        what += " and `tool_choice: auto`" if guide.tool_choice == "auto" else ""
        return f"the backend {backend} does not take {what}; {' and '.join(able)} {'do' if len(able) > 1 else 'does'}"
    if guide.kind != "ebnf" or guide.flavour is None:
        return None
    try:
        written = guide.grammar if guide.grammar_file is None else Path(guide.grammar_file).read_text(encoding="utf-8")
        return ebnf.backend_fault(flavour=guide.flavour, grammar=written, backend=backend)
    except (GrammarError, OSError, UnicodeDecodeError):
        return None  # which is said where the grammar itself is read
