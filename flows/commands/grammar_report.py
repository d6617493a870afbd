"""The lint's report for people."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.output import stdout_console, visible
from tasks.guide.lint.model import BackendLint, Finding, Lint, Rewrite

_STYLES = {
    "right": "bold green",
    "silently wrong": "bold red",
    "refused": "yellow",
    "timed out": "red",
    "crashed": "red",
}
_LONGEST = 160


def print_lint(lint: Lint, *, name: str) -> None:
    """A table of the backends, then what each gets wrong, does on purpose, or does not take."""
    console = stdout_console()
    tokenizer = "single bytes" if lint.tokenizer is None else lint.tokenizer
    head = f"{name}: vLLM {lint.vllm or 'of unknown version'}, tokens of {tokenizer}, seed {lint.seed}"
    console.print(head, style="bold", markup=False, soft_wrap=True)
    console.print(_table(lint))
    for backend in lint.backends:
        _print_backend(console, backend)


def _table(lint: Lint) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("backend", "version", "verdict"):
        table.add_column(column, no_wrap=True)
    for column in ("valid", "invalid", "unknown", "compile", "mask p50", "mask p99"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in lint.backends:
        seconds = None if each.compile_s is None or each.check_s is None else each.check_s + each.compile_s
        table.add_row(
            each.backend,
            each.version or "–",
            f"[{_STYLES[each.verdict]}]{each.verdict}[/]" + (" (cut)" if each.cut else ""),
            *(f"{count}" if each.status == "accepted" else "–" for count in (each.valid, each.invalid, each.unknown)),
            "–" if seconds is None else f"{seconds * 1000:,.1f} ms",
            *(f"{each.mask_us[key]:,.0f} µs" if each.mask_us else "–" for key in ("p50", "p99")),
        )
    return table


def _print_backend(console: Console, backend: BackendLint) -> None:
    if not (backend.findings or backend.words or backend.engine_fault or backend.cut):
        return
    console.print(f"\n{backend.backend}", style="bold", markup=False)
    if backend.engine_fault is not None:
        _line(console, "!", "yellow", f"no engine can use it: {backend.engine_fault}")
    if backend.words is not None:
        _line(console, backend.status, _STYLES.get(backend.status, ""), backend.words)
        if backend.avoid is not None:
            _sub(console, "instead", _shown(backend.avoid))
        else:
            _sub(console, "instead", "no change was found that it takes: another backend, or a simpler schema")
    for finding in backend.findings:
        style = "red" if finding.is_fault else "cyan"
        where = f"{finding.path}: " if finding.path else ""
        _line(console, finding.kind, style, f"{where}{finding.words}")
        if finding.instance is not None:
            _sub(console, _verb(finding), finding.instance)
        if finding.rewrite is not None:
            _sub(console, "instead", _shown(finding.rewrite))
        elif finding.is_fault:
            _sub(console, "instead", "no rewrite helps: validate the answers after, and count on some that fail")
    if backend.cut:
        _line(console, "!", "yellow", "its time was over: there may be more (--limit-s)")


def _verb(finding: Finding) -> str:
    return "takes" if finding.kind == "under-constrained" else "rejects"


def _shown(rewrite: Rewrite) -> str:
    return rewrite.words + ("" if rewrite.exact else " (allows more)")


def _line(console: Console, word: str, style: str, text: str) -> None:
    console.print(f"  [{style}]{escape(word)}[/]  {escape(_cut(text))}", soft_wrap=True)


def _sub(console: Console, word: str, text: str) -> None:
    console.print(f"      [dim]{word:<8}[/] {escape(_cut(text))}", soft_wrap=True)


def _cut(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= _LONGEST * 2 else shown[: _LONGEST * 2 - 1] + "…"
