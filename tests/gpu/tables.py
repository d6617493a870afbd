"""The tables of docs/benchmarks.md, from what was measured: `python -m tests.gpu.tables DIR`."""

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def median(rows: Sequence[Row], figure: str, **key: Any) -> float | None:
    """The median over the passes of the rows with these values; None without any."""
    found = [
        row[figure]
        for row in rows
        if row.get(figure) is not None and row["load"] != "start" and all(row.get(k) == v for k, v in key.items())
    ]
    return statistics.median(found) if found else None


def values(rows: Sequence[Row], name: str) -> list[Any]:
    """Every value of a column, in the order in which it came."""
    return list(dict.fromkeys(row[name] for row in rows if row["load"] != "start"))


def shown(value: float | None, digits: int = 3) -> str:
    """A number with so many digits that count."""
    return "" if value is None else f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def ratio(one: float | None, other: float | None) -> str:
    """How many times the other the first one is."""
    return "" if one is None or not other else f"{one / other:.2f}"


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
            lines.append((model, load, shown(eager), shown(auto), ratio(eager, auto)))
    return table(("model", "load", "eager, ms a token", "auto, ms a token", "eager / auto"), lines)


def mixed(rows: Sequence[Row]) -> str:
    """Times to the first token of short and long prompts, and the total, by policy."""
    lines = []
    for load in values(rows, "load"):
        base = median(rows, "total_s", load=load, arm="off")
        wait = median(rows, "short_ttft_p99_s", load=load, arm="off")
        for arm in values(rows, "arm"):
            own = [row for row in rows if row["load"] == load and row["arm"] == arm]
            schedule = {(row.get("threshold"), row.get("budget")) for row in own}
            threshold, budget = next(iter(schedule)) if len(schedule) == 1 else (None, None)
            p99, total = (median(rows, figure, load=load, arm=arm) for figure in ("short_ttft_p99_s", "total_s"))
            lines.append(
                (
                    load,
                    arm,
                    "" if threshold is None else f"{threshold:,}",
                    "" if budget is None else f"{budget:,}",
                    shown(median(rows, "short_ttft_p50_s", load=load, arm=arm)),
                    shown(p99),
                    ratio(wait, p99),
                    shown(median(rows, "long_ttft_p50_s", load=load, arm=arm)),
                    shown(total),
                    ratio(total, base),
                )
            )
    head = ("load", "policy", "threshold", "budget", "short ttft p50 s", "p99 s", "off / p99", "long ttft p50 s")
    return table((*head, "total s", "of off"), lines)


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
    """What `auto` plans beside the best cell of the grid, measured afresh."""
    lines = []
    for load in values(rows, "load"):
        figure = "e2e_mean_s" if " and " in load else "total_s"
        arms = values([row for row in rows if row["load"] == load], "arm")
        auto = median(rows, figure, load=load, arm="auto")
        for arm in arms:
            if arm != "auto":
                other = median(rows, figure, load=load, arm=arm)
                lines.append((load, figure, arm.removeprefix("best: "), shown(other), shown(auto), ratio(auto, other)))
    return table(("load", "figure", "best cell", "best", "auto", "auto / best"), lines)


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
    "mixed": mixed,
    "grid": grid,
    "best": best,
    "memory": memory,
}


def main() -> None:
    rows = [json.loads(line) for line in (Path(sys.argv[1]) / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    for card in dict.fromkeys(row["card"] for row in rows):
        print(f"# {card}")
        for case, write in TABLES.items():
            own = [row for row in rows if row["case"] == case and row["card"] == card]
            if own:
                print(f"\n## {case}\n\n{write(own)}")
        print(f"\n## starts\n\n{starts([row for row in rows if row['card'] == card])}")


if __name__ == "__main__":
    main()
