"""The tables of docs/benchmarks.md, from what was measured: `python -m tests.gpu.tables DIR [FILE...]`.

FILE: rows of other visits, which count too."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tasks.cells.spread import geometric
from tests.gpu.record import read_rows
from tests.gpu.tables_load import load_of_a_service
from tests.gpu.tables_more import flow, guided, parallel, speculation
from tests.gpu.tables_parts import (
    Row,
    j_per_token,
    median,
    of_the_newest_plan,
    ratio,
    shown,
    table,
    values,
    without_empty,
)


def starts(rows: Sequence[Row]) -> str:
    """What every engine's start took."""
    phases = ("import_s", "load_s", "compile_s", "capture_s", "profile_s", "kv_cache_s", "warmup_s")
    return table(
        ("case", "model", "engine", "start s", *(name.removesuffix("_s") for name in phases)),
        [
            [
                *(row["case"], row["model"], row["arm"], shown(row["total_s"])),
                *(shown(row["phases"].get(name)) for name in phases),
            ]
            for row in rows
            if row["load"] == "start"
        ],
    )


def graphs(rows: Sequence[Row]) -> str:
    """Milliseconds a token, eager and with the planned graphs."""
    lines = []
    for model in values(rows, "model"):
        for load in values(rows, "load"):
            eager, auto = (median(rows, "ms_per_token", arm=arm, model=model, load=load) for arm in ("eager", "auto"))
            joules = [shown(j_per_token(rows, arm=arm, model=model, load=load)) for arm in ("eager", "auto")]
            lines.append((model, load, shown(eager), shown(auto), ratio(eager, auto), *joules))
    head = ("model", "load", "eager, ms a token", "auto, ms a token", "eager / auto")
    return without_empty((*head, "eager, J a token", "auto, J a token"), lines)


def mixed(rows: Sequence[Row]) -> str:
    """Times to the first token of short and long prompts, and the total, by policy."""
    rows = of_the_newest_plan(rows)
    lines = []
    for load in values(rows, "load"):
        base = median(rows, "total_s", load=load, arm="off")
        wait = median(rows, "short_ttft_p99_s", load=load, arm="off")
        for arm in values(rows, "arm"):
            own = [row for row in rows if row["load"] == load and row["arm"] == arm]
            schedule = {(row.get("threshold"), row.get("budget")) for row in own}
            threshold, budget = next(iter(schedule)) if len(schedule) == 1 else (None, None)
            yields = ", yields" if any(row.get("yields") for row in own) else ""
            p99, total = (median(rows, figure, load=load, arm=arm) for figure in ("short_ttft_p99_s", "total_s"))
            lines.append(
                (
                    load,
                    arm,
                    "" if threshold is None else f"{threshold:,}{yields}",
                    "" if budget is None else f"{budget:,}",
                    shown(median(rows, "short_ttft_p50_s", load=load, arm=arm)),
                    shown(p99),
                    ratio(wait, p99),
                    shown(median(rows, "long_ttft_p50_s", load=load, arm=arm)),
                    shown(total),
                    ratio(total, base),
                    shown(j_per_token(rows, load=load, arm=arm)),
                )
            )
    head = ("load", "policy", "threshold", "budget", "short ttft p50 s", "p99 s", "off / p99", "long ttft p50 s")
    return without_empty((*head, "total s", "of off", "J a token"), lines)


def grid(rows: Sequence[Row]) -> str:
    """Every cell's median, each load by its objective."""
    loads = values(rows, "load")
    figures = {load: "e2e_mean_s" if " and " in load else "total_s" for load in loads}
    lines = [
        (arm, *(shown(median(rows, figures[load], arm=arm, load=load)) for load in loads))
        for arm in values(rows, "arm")
    ]
    return table(("cell", *(f"{load}: {figures[load]}" for load in loads)), lines)


def best(rows: Sequence[Row]) -> str:
    """What `auto` plans beside the best cell of the grid, measured afresh: the passes' geometric mean ratio, with
    its 95 % t interval."""
    rows = of_the_newest_plan(rows)
    lines = []
    for load in values(rows, "load"):
        figure = "e2e_mean_s" if " and " in load else "total_s"
        auto = median(rows, figure, load=load, arm="auto")
        for arm in values([row for row in rows if row["load"] == load and row["arm"] != "auto"], "arm"):
            other = median(rows, figure, load=load, arm=arm)
            joules = [shown(j_per_token(rows, load=load, arm=each)) for each in (arm, "auto")]
            name = arm.removeprefix("best: ")
            told = _interval(rows, figure, load=load, arm=arm)
            lines.append((load, figure, name, shown(other), shown(auto), *told, *joules))
    head = ("load", "figure", "best cell", "best", "auto", "passes", "auto / best")
    return without_empty((*head, "best, J a token", "auto, J a token"), lines)


def _interval(rows: Sequence[Row], figure: str, *, load: str, arm: str) -> tuple[str, str]:
    """Passes that both have, and their ratio with its interval."""
    by_pass = [
        {row["pass_"]: row[figure] for row in rows if row["load"] == load and row["arm"] == name}
        for name in ("auto", arm)
    ]
    both = sorted(by_pass[0].keys() & by_pass[1].keys())
    if not both:
        return "0", ""
    found = geometric([by_pass[0][each] / by_pass[1][each] for each in both])
    ends = "" if found.lo is None or found.hi is None else f" [{found.lo:.3f}, {found.hi:.3f}]"
    return str(len(both)), f"{found.value:.3f}{ends}"


def memory(rows: Sequence[Row]) -> str:
    """Bytes that the engine found or took, with and without a threshold."""
    lines = [
        (
            row["arm"],
            row["load"],
            *(
                "" if row.get(name) is None else f"{row[name] / 2**30:.2f}"
                for name in ("activation_bytes", "peak_bytes", "kv_bytes")
            ),
            "" if row.get("kv_tokens") is None else f"{row['kv_tokens']:,}",
            shown(row["total_s"]),
        )
        for row in rows
        if row["load"] != "start"
    ]
    head = ("engine", "load", "activations at the start GiB", "real peak of all GiB", "KV GiB", "KV tokens", "total s")
    return table(head, lines)


TABLES: dict[str, Callable[[Sequence[Row]], str]] = {
    "graphs": graphs,
    "speculation": speculation,
    "parallel": parallel,
    "flow": flow,
    "load": load_of_a_service,
    "mixed": mixed,
    "mixed2": mixed,
    "grid": grid,
    "best": best,
    "memory": memory,
    "guided": guided,
}


def main() -> None:
    folder, *earlier = map(Path, sys.argv[1:])
    rows = [row for path in (*earlier, folder / "results.jsonl") for row in read_rows(path)]
    for card in dict.fromkeys(row["card"] for row in rows):
        print(f"# {card}")
        for case, write in TABLES.items():
            own = [row for row in rows if row["case"] == case and row["card"] == card]
            if any(row["load"] != "start" for row in own):
                print(f"\n## {case}\n\n{write(own)}")
        print(f"\n## starts\n\n{starts([row for row in rows if row['card'] == card])}")


if __name__ == "__main__":
    main()
