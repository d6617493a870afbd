"""What a person sees while a run runs, on stderr: a line a step, a progress bar, the results."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from flows.commands.output import visible, visible_lines
from schemas.built import BuiltEngine
from schemas.gate import GateVerdict
from schemas.metric import is_score
from schemas.plan import EnginePlan
from schemas.summary import DatasetsSummary, GeneratedSummary, JudgedSummary, ScoredSummary
from tasks.compare.points import Measured
from tasks.gate import words as gate_words
from tasks.generate import Update

_GATE_STYLES = {
    "passed": "bold green",
    "failed": "bold red",
    "refused": "bold red",
    "undecided": "yellow",
    "skipped": "dim",
}
FORM_SHOWN = ".form.empirical_coverage"


class Counting(Protocol):
    """Tells a bar how far it is."""

    def __call__(self, done: int, said: str, of: int = ...) -> None: ...


class RunConsole:
    """Prints for people; nothing of it goes to stdout, which belongs to `--json`.

    log: where the same lines go without colours: the logs of Prefect's page."""

    def __init__(self, *, log: Callable[[str], None] | None = None) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._log = log
        if not self._console.is_terminal:
            self._console.width = 140

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """A step: its name while it runs, then how long it took and what the caller put in the list."""
        said: list[str] = []
        started = time.monotonic()
        status = self._console.status(f"{name} …")
        with status:
            try:
                yield said
            except BaseException:
                self._console.print(f"[red]✗[/red] {name}  [dim]{time.monotonic() - started:.1f} s[/dim]")
                raise
        text, seconds = "  ".join(said), f"{time.monotonic() - started:.1f} s"
        self._console.print(f"[green]✓[/green] {name:<18}{_shown(text)}  [dim]{seconds}[/dim]")
        self._record(f"{name}: {text}  {seconds}" if text else f"{name}  {seconds}")

    def title(self, text: str) -> None:
        self._console.print(f"[bold]{_shown(text)}[/bold]")
        self._record(text)

    def warn(self, text: str) -> None:
        self._console.print(f"[yellow]![/yellow] {_shown(text)}")
        self._record(text)

    def note(self, text: str) -> None:
        """What happens now and may take a while."""
        self._console.print(f"  {_shown(text)}")
        self._record(text)

    def _record(self, text: str) -> None:
        if self._log is not None:
            self._log(text)

    def _bar(self, *columns: ProgressColumn) -> Progress:
        """Only for a terminal: in a file it would leave an empty line."""
        return Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)

    @contextmanager
    def progress(self, total: int, *, what: str = "generating") -> "Iterator[ProgressBar]":
        """The bar of the generating step, or of another one that makes requests."""
        columns = [
            TextColumn(f"  {what}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed}/{task.total} requests"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        ]
        with self._bar(*columns) as progress:
            yield ProgressBar(progress, progress.add_task(what, total=total, rate=""))

    @contextmanager
    def counting(self, total: int, *, what: str, unit: str) -> "Iterator[Counting]":
        """A bar of things that are done one by one; what it gives takes how many are done, what to say of them, and of
        how many where that changes."""
        columns = [
            TextColumn(f"  {what}"),
            BarColumn(bar_width=30),
            TextColumn(f"{{task.completed}}/{{task.total}} {unit}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[said]}"),
        ]
        with self._bar(*columns) as progress:
            task = progress.add_task(what, total=total, said="")

            def update(done: int, said: str, of: int = total) -> None:
                progress.update(task, completed=done, said=_shown(said), total=of)

            yield update

    def datasets(self, said: list[str], summary: DatasetsSummary) -> None:
        said.append(", ".join(f"{dataset.dataset} {dataset.rows_used}" for dataset in summary.datasets))

    def profile(self, said: list[str], summary: DatasetsSummary) -> None:
        longest = max((profile.tokens_max for profile in summary.profiles), default=0)
        total = sum(profile.tokens_total for profile in summary.profiles)
        said.append(f"{total:,} prompt tokens, the longest prompt {longest:,}")

    def plan(self, said: list[str], plan: EnginePlan) -> None:
        estimate, values = plan.estimate, {planned.option: planned.value for planned in plan.options}
        words = [f"{estimate.requests:,} requests", f"max_model_len {_number(values['max_model_len'])}"]
        if "long_prefill_token_threshold" in values:
            words.append(f"prefill threshold {_number(values['long_prefill_token_threshold'])}")
        if estimate.start_s is not None and estimate.generate_s is not None:
            words.append(f"about {estimate.start_s + estimate.generate_s:.0f} s")
        said.append(", ".join(words))

    def built(self, said: list[str], built: BuiltEngine) -> None:
        resolved = built.resolved
        if resolved.get("kind") == "endpoint":
            version = resolved.get("server_version") or "of a version that it does not tell"
            said.append(
                f"{resolved['url']}: {resolved['dialect']} {version}, model {resolved['model']}, {resolved['api']}"
            )
            return
        said.append(
            f"vLLM {built.versions.get('vllm')} on {built.device.name}, {built.resolved['dtype']}, "
            + ("it stood already" if built.start_s is None else f"ready in {built.start_s:.1f} s")
        )

    def generated(self, said: list[str], summary: GeneratedSummary) -> None:
        counts = ", ".join(f"{n} {status}" for status, n in sorted(summary.statuses.items()))
        reused = f", {summary.reused} from before" if summary.reused else ""
        rate = f", {summary.output_tokens / summary.wall_s:,.0f} tokens/s" if summary.wall_s > 0 else ""
        said.append(f"{counts}{reused}, {summary.output_tokens:,} output tokens{rate}")

    def judged(self, said: list[str], summary: JudgedSummary) -> None:
        counts = ", ".join(f"{n} {status}" for status, n in sorted(summary.statuses.items()))
        reused = f"{summary.reused} from before" if summary.reused else ""
        said.append(f"{summary.answers:,} answers: {', '.join(filter(None, (counts, reused))) or 'none to judge'}")

    def results(self, summary: ScoredSummary, *, warnings: Sequence[str], gates: Sequence[GateVerdict] = ()) -> None:
        """What was warned of; quality with its 95 % intervals, the arms against each other; the answers' form; what the
        gates came to."""
        for warning in warnings:
            self.warn(warning)
        quality = [row for row in summary.headline if is_score(str(row["metric"]))]
        one_pair = len(_pairs(summary.verdicts)) == 1
        if quality:
            self._console.print(_quality_table(quality, summary.verdicts if one_pair else []))
        if summary.verdicts and not one_pair:
            self._console.print(_differences_table(summary.verdicts))
        form = [row for row in summary.headline if str(row["metric"]).endswith(FORM_SHOWN)]
        if form:
            self._console.print(_form_table(form))
        if summary.guiding:
            self._console.print(_guiding_table(summary.guiding))
        if gates:
            self._console.print(gate_table(gates))

    def load(self, points: Sequence[Measured]) -> None:
        """The measured points, a line each."""
        if points:
            from flows.console_load import benchmark_table, knee_lines  # noqa: PLC0415 - few runs measure load

            self._console.print(benchmark_table(points))
            self.lines(knee_lines(points))

    def lines(self, lines: Sequence[tuple[str, str]]) -> None:
        """Closing lines: a word and what it points to."""
        for word, text in lines:
            self._console.print(f"{word:<10}{_shown(text)}", soft_wrap=True)


def _quality_table(rows: Sequence[dict[str, Any]], verdicts: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="quality", title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("metric", no_wrap=True)
    arms = sorted({str(row["arm"]) for row in rows})
    for arm in arms:
        table.add_column(arm, justify="right", no_wrap=True)
    compared = {row["metric"]: row for row in verdicts}
    if compared:
        table.add_column(_difference(verdicts[0]), justify="right", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
    for name in dict.fromkeys(str(row["metric"]) for row in rows):
        cells = {str(row["arm"]): row for row in rows if row["metric"] == name}
        effect = compared.get(name)
        verdict = [] if not compared else [_signed(effect), "" if effect is None else str(effect["verdict"])]
        table.add_row(name, *(_interval(cells.get(arm)) for arm in arms), *verdict)
    return table


def _differences_table(verdicts: Sequence[dict[str, Any]]) -> Table:
    """Where several pairs of arms were compared: a line a pair and metric."""
    table = Table(title="arms compared", title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for head in ("metric", "arms"):
        table.add_column(head, no_wrap=True)
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for metric in dict.fromkeys(str(row["metric"]) for row in verdicts):
        for row in (row for row in verdicts if row["metric"] == metric):
            table.add_row(metric, _difference(row), _signed(row), str(row["verdict"]))
    return table


def _pairs(verdicts: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(_difference(row) for row in verdicts))


def _difference(verdict: dict[str, Any]) -> str:
    return f"{verdict['candidate_arm']} − {verdict['baseline_arm']}"


def _form_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(
        title="well-formed answers", title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0)
    )
    table.add_column("dataset", no_wrap=True)
    arms = sorted({str(row["arm"]) for row in rows})
    for arm in arms:
        table.add_column(arm, justify="right", no_wrap=True)
    for name in dict.fromkeys(str(row["metric"]) for row in rows):
        cells = {str(row["arm"]): row for row in rows if row["metric"] == name}
        table.add_row(name.partition(".")[0], *(_share(cells.get(arm)) for arm in arms))
    return table


def _guiding_table(lines: Sequence[dict[str, str]]) -> Table:
    """Whether the grammar helps, and what it costs: a line a figure, each dataset's name once."""
    table = Table(title="what guiding does", title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for head in ("dataset", "figure", "arms"):
        table.add_column(head, no_wrap=True)
    for head in ("baseline", "candidate", "change"):
        table.add_column(head, justify="right", no_wrap=True)
    before = None
    for line in lines:
        names = ("figure", "arms", "before", "after", "change")
        table.add_row("" if line["dataset"] == before else line["dataset"], *(line[name] for name in names))
        before = line["dataset"]
    return table


def gate_table(verdicts: Sequence[GateVerdict]) -> Table:
    """A line a gate and what it was held against, with the reason of those that were not judged."""
    table = Table(title="gates", title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for head in ("verdict", "metric", "arm", "rule", "against"):
        table.add_column(head, overflow="fold")
    table.add_column("because", overflow="fold", ratio=1)
    for each in verdicts:
        style = "bold red" if each.fails else _GATE_STYLES[each.verdict]
        cells = (
            each.metric,
            gate_words.where(each),
            gate_words.rule(each),
            gate_words.against(each),
            gate_words.because(each),
        )
        table.add_row(Text(each.verdict, style=style), *(escape(visible(cell)) for cell in cells))
    return table


def _shown(text: str) -> str:
    """Text that may come from a model, a server or a file."""
    return escape(visible_lines(text))


class ProgressBar:
    """The generating step's bar."""

    def __init__(self, progress: Progress, task: Any) -> None:
        self._progress = progress
        self._task = task

    def update(self, update: Update) -> None:
        rate = update.output_tokens / update.elapsed_s if update.elapsed_s > 1 else None
        text = "" if rate is None else f"{rate:,.0f} tokens/s"
        self._progress.update(self._task, completed=update.done, total=update.total, rate=text)


def _interval(row: dict[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return "–"
    if row["lo"] is None or row["hi"] is None:
        return f"{row['value']:.3g}"
    return f"{row['value']:.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"


def _share(row: dict[str, Any] | None) -> str:
    return "–" if row is None or row["value"] is None else f"{row['value']:.1%} of {row['n']}"


def _signed(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["effect"] is None:
        return "–"
    if row["lo"] is None or row["hi"] is None:
        return f"{row['effect']:+.3f}"
    return f"{row['effect']:+.3f} [{row['lo']:+.3f}, {row['hi']:+.3f}]"


def _number(value: int | None) -> str:
    """A planned number; None is one that vLLM chooses."""
    return "left to vLLM" if value is None else f"{value:,}"
