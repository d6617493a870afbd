"""The commands that keep the warehouse: export, import, prune, vacuum."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.output import print_json, stdout_console, visible
from flows.runtime import assay_home
from schemas.errors import ConfigError
from tasks.record.open import stored_run
from warehouse.export import export_run
from warehouse.merge import Imported, import_warehouse
from warehouse.retention import Fate, Policy, Pruned, PrunePlan, orphans, plan_prune, prune
from warehouse.vacuum import vacuum

_AGES = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_COLORS = {"imported": "green", "merged": "green", "here already": "dim", "refused": "red", "skipped": "yellow"}


def export(*, run_id: str, out: Path | None, as_json: bool) -> None:
    """Writes one run to a folder or a zip; prints where and how large."""
    home = assay_home()
    row = stored_run(home, run_id)
    target = out or Path(f"{row['run_id']}.zip")
    with _progress(quiet=as_json) as say:
        done = export_run(home=home, run_id=row["run_id"], out=target, on_progress=say)
    if as_json:
        print_json({"run_id": done.run_id, "path": str(done.path), "files": len(done.files), "bytes": done.bytes})
        return
    stdout_console().print(
        f"{done.path}: {len(done.files)} files, {megabytes(done.bytes)}", markup=False, soft_wrap=True
    )


def import_one(*, source: Path, as_json: bool) -> int:
    """Merges another warehouse into this one; 1 where a run was refused, else 0."""
    with _progress(quiet=as_json) as say:
        done = import_warehouse(
            home=assay_home(), source=source, on_progress=lambda number, of, run: say(f"{number} of {of}  {run}")
        )
    code = 1 if done.count("refused") else 0
    if as_json:
        print_json({"source": str(done.source), "runs": [asdict(run) for run in done.runs], "exit_code": code})
    else:
        _print_imported(done)
    return code


def prune_runs(
    *,
    older_than: str | None,
    max_size: str | None,
    statuses: Sequence[str],
    tags: Sequence[str],
    keep_tags: Sequence[str],
    yes: bool,
    as_json: bool,
) -> None:
    """Shows which runs would go and why the others stay, and with `yes` lets them go."""
    home = assay_home()
    policy = Policy(
        older_than_s=None if older_than is None else parse_age(older_than),
        max_bytes=None if max_size is None else parse_size(max_size),
        statuses=frozenset(statuses),
        tags=dict(map(_tag, tags)),
        keep_tags=dict(map(_tag, keep_tags)),
    )
    plan = plan_prune(home, policy)
    done: Pruned | None = None
    if yes and plan.going:
        with _progress(quiet=as_json) as say:
            done = prune(home, plan, on_progress=lambda number, of, run: say(f"{number} of {of}  {run}"))
    if as_json:
        print_json(_pruned_object(plan, done, yes=yes))
        return
    _print_plan(plan, done, yes=yes)
    for run_id in orphans(home):
        _note(f"{run_id} has rows but none in `runs`, so no policy speaks of it")


def vacuum_home(*, grace: str | None, as_json: bool) -> None:
    """Tidies the warehouse up; prints how much came free."""
    with _progress(quiet=as_json) as say:
        seconds = {} if grace is None else {"grace_s": parse_age(grace)}
        freed = vacuum(assay_home(), on_progress=say, **seconds)
    if as_json:
        print_json(asdict(freed) | {"bytes": freed.bytes})
        return
    console = stdout_console()
    for what, size in (
        ("replaced parts and temporaries", freed.superseded),
        ("pruned runs", freed.trash),
        ("broken-off imports", freed.staging),
        ("broken-off conversions", freed.caches),
        ("DuckDB file", freed.database_before - freed.database_after),
    ):
        console.print(f"{what:<31} {megabytes(size):>12}", markup=False)
    console.print(
        f"{megabytes(freed.bytes)} came free, {len(freed.compacted)} runs compacted", markup=False, style="bold"
    )


def parse_age(text: str) -> float:
    """Seconds of `90d`, `12h`, `2w`, `0s`. Raises ConfigError for anything else."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhdw])\s*", text.lower())
    if match is None:
        raise ConfigError.one(f"{text} is no age", suggestion="write 90d, 12h or 2w")
    return float(match[1]) * _AGES[match[2]]


def parse_size(text: str) -> int:
    """Bytes of `50GB`, `500 MB`, `1GiB`. Raises ConfigError for anything else."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _SIZES:
        raise ConfigError.one(f"{text} is no size", suggestion="write 50GB, 500MB or 1GiB")
    return int(float(match[1]) * _SIZES[match[2].upper()])


def megabytes(size: int) -> str:
    """A size for people, in megabytes or gigabytes."""
    return f"{size / 1e9:,.2f} GB" if abs(size) >= 10**9 else f"{size / 1e6:,.1f} MB"


def _tag(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise ConfigError.one(f"{text!r} is no tag", suggestion="write --tag team=search, or --tag team for any value")
    return name, value if equals else None


def _print_imported(done: Imported) -> None:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("run", "name", "started (UTC)", "host", "user", "rows", "", "what, or why not"):
        table.add_column(name, justify="right" if name == "rows" else "left", overflow="fold")
    for run in done.runs:
        table.add_row(
            escape(run.run_id),
            _text(run.name),
            "–" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M:%S}",
            _text(run.host),
            _text(run.user),
            "–" if run.rows is None else f"{run.rows:,}",
            f"[{_COLORS[run.outcome]}]{run.outcome}[/]",
            _text(run.reason) if run.reason else "",
        )
    console = stdout_console()
    console.print(table if done.runs else "no runs there")
    words = [
        f"{count} {outcome}"
        for outcome in ("imported", "merged", "here already", "refused", "skipped")
        if (count := sum(run.outcome == outcome for run in done.runs))
    ]
    console.print(", ".join(words), style="bold")


def _print_plan(plan: PrunePlan, done: Pruned | None, *, yes: bool) -> None:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("run", "name", "status", "started (UTC)", "size", "", "because"):
        table.add_column(name, justify="right" if name == "size" else "left", overflow="fold")
    for fate in plan.fates:
        table.add_row(
            escape(fate.run_id),
            _text(fate.name),
            escape(fate.status),
            "–" if fate.started_at is None else f"{fate.started_at:%Y-%m-%d %H:%M:%S}",
            megabytes(fate.bytes),
            _verdict(fate, done, yes=yes),
            escape(visible(_reason(fate, done))),
        )
    console = stdout_console()
    console.print(table if plan.fates else "no runs yet")
    if done is not None:
        said = f"{len(done.run_ids)} runs are gone, {megabytes(done.bytes)} came free"
    elif plan.going:
        said = f"{len(plan.going)} runs of {megabytes(plan.bytes)} would go; nothing was done: add --yes"
    else:
        said = "no run goes"
    console.print(said, style="bold", markup=False)


def _verdict(fate: Fate, done: Pruned | None, *, yes: bool) -> str:
    if not fate.goes or (done is not None and fate.run_id in done.stayed):
        return "stays"
    return "[red]gone[/]" if yes else "[yellow]would go[/]"


def _reason(fate: Fate, done: Pruned | None) -> str:
    return fate.reason if done is None else done.stayed.get(fate.run_id, fate.reason)


def _pruned_object(plan: PrunePlan, done: Pruned | None, *, yes: bool) -> dict[str, Any]:
    gone = () if done is None else done.run_ids
    return {
        "dry_run": not yes,
        "runs": [asdict(fate) | {"reason": _reason(fate, done), "gone": fate.run_id in gone} for fate in plan.fates],
        "bytes": plan.bytes if done is None else done.bytes,
    }


def _text(value: str | None) -> str:
    return "–" if value is None else escape(visible(value))


def _note(text: str) -> None:
    Console(stderr=True, highlight=False).print(f"! {text}", markup=False, soft_wrap=True)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line that tells what goes on, on stderr, where somebody looks at it."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True, highlight=False).status("") as status:
        yield lambda text: status.update(escape(text))
