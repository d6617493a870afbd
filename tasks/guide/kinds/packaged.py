"""The grammars of the kinds python, math and sql, which assay brings along in configs/grammars."""

from functools import cache

from tasks.config.locate import packaged_configs

KINDS = ("python", "math", "sql")


@cache
def packaged_grammar(kind: str) -> str:
    """The grammar's text, which xgrammar and guidance both take as it is. kind: one of KINDS."""
    return (packaged_configs() / "grammars" / f"{kind}.gbnf").read_text(encoding="utf-8")
