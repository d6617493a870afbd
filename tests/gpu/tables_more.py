"""The tables of speculation, of two cards, and of whole runs."""

import statistics
from collections.abc import Sequence

from tests.gpu.tables_parts import Row, j_per_token, median, ratio, shown, table, values, without_empty


def speculation(rows: Sequence[Row]) -> str:
    """Each dtype and load: plain beside ngram, what was accepted, and how many answers differ.

    `plain again`: answers of plain's later passes that differ from its first pass's, to the same prompts."""
    lines = []
    for load in values(rows, "load"):
        for arm in values(rows, "arm"):
            if arm.startswith("plain"):
                continue
            dtype = arm.rpartition(", ")[2]
            plain = f"plain, {dtype}"
            slow, fast = (median(rows, "output_tokens_per_s", arm=each, load=load) for each in (plain, arm))
            own = [row for row in rows if row["arm"] == arm and row["load"] == load and "draft_tokens" in row]
            lines.append(
                (
                    load,
                    dtype,
                    arm.rpartition(", ")[0],
                    *(shown(median(rows, "ms_per_token", arm=each, load=load)) for each in (plain, arm)),
                    shown(slow),
                    shown(fast),
                    ratio(fast, slow),
                    shown(_share(own, "accepted_tokens", "draft_tokens")),
                    _by_position(own),
                    shown(median(rows, "mean_length", arm=arm, load=load)),
                    ratio(_sum(own, "graph_steps"), _sum(own, "steps")),
                    _different(rows, load=load, one=plain, other=arm, first=False),
                    _different(rows, load=load, one=plain, other=plain, first=True),
                    shown(median(rows, "copied_share", arm=plain, load=load)),
                    *(shown(j_per_token(rows, arm=each, load=load)) for each in (plain, arm)),
                )
            )
    head = ("load", "dtype", "arm", "plain, ms a token", "ngram", "plain, tokens/s", "ngram", "ngram / plain")
    more = ("accepted", "by position", "mean length", "steps from graphs", "answers that differ", "plain again")
    return without_empty((*head, *more, "copied, plain", "plain, J a token", "ngram, J a token"), lines)


def _sum(rows: Sequence[Row], name: str) -> float | None:
    found = [row[name] for row in rows if row.get(name) is not None]
    return sum(found) if found else None


def _share(rows: Sequence[Row], part: str, whole: str) -> float | None:
    one, other = _sum(rows, part), _sum(rows, whole)
    return None if one is None or not other else one / other


def _by_position(rows: Sequence[Row]) -> str:
    """Accepted of the drafted tokens, the first drafted one first; of the drafts where the engine counts only those."""
    accepted = [row["accepted_by_position"] for row in rows]
    drafted = [row["drafted_by_position"] or [row["drafts"]] * len(row["accepted_by_position"]) for row in rows]
    places = min(map(len, (*accepted, *drafted)), default=0)
    sums = [(sum(each[n] for each in accepted), sum(each[n] for each in drafted)) for n in range(places)]
    return " ".join(f"{taken / made:.2f}" for taken, made in sums if made)


def _different(rows: Sequence[Row], *, load: str, one: str, other: str, first: bool) -> str:
    """Answers that differ, by pass, of all. first: each later pass against the first of them."""
    kept = {(row["arm"], row["pass_"]): row["answers"] for row in rows if row["load"] == load and row.get("answers")}
    counts, total = [], 0
    for (arm, turn), answers in sorted(kept.items()):
        beside = kept.get((one, 0 if first else turn))
        if arm != other or beside is None or (first and turn == 0):
            continue
        total = len(answers)
        counts.append(sum(a != b for a, b in zip(answers, beside, strict=True)))
    if not counts:
        return ""
    told = str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
    return f"{told} of {total}"


def parallel(rows: Sequence[Row]) -> str:
    """Each load on one card and on two: times, and how many times as fast as one card."""
    lines = []
    for load in values(rows, "load"):
        for arm in values(rows, "arm"):
            one, own = (median(rows, "output_tokens_per_s", arm=each, load=load) for each in ("one card", arm))
            lines.append(
                (
                    load,
                    arm,
                    shown(median(rows, "total_s", arm=arm, load=load)),
                    shown(median(rows, "ms_per_token", arm=arm, load=load)),
                    shown(own),
                    ratio(own, one),
                    shown(j_per_token(rows, arm=arm, load=load)),
                )
            )
    head = ("load", "engine", "total s", "ms a token", "tokens/s", "of one card", "J a token")
    return without_empty(head, lines)


def flow(rows: Sequence[Row]) -> str:
    """What each whole run was, what it predicted of the memory and found, and what its energy was. Of an arm that was
    run again, the newest."""
    newest = {row["arm"]: row for row in rows}
    runs, memory = [], []
    for arm, row in newest.items():
        engine, graphs, work = (row.get(name) or {} for name in ("engine", "graph_effect", "engine_work"))
        metrics = row.get("metrics") or {}
        cards = [each for each in row.get("energy") or [] if each.get("counter_j") is not None]
        tokens = row.get("output_tokens")
        joules = sum(each["counter_j"] for each in cards) / tokens if cards and tokens else None
        runs.append(
            (
                row["model"],
                arm,
                str(row["exit_code"]),
                shown(row["total_s"]),
                shown(engine.get("start_s")),
                {True: "cold", False: "warm"}.get(engine.get("cold"), ""),
                str(engine.get("cudagraph_mode") or ""),
                str(len(engine.get("capture_sizes") or [])),
                shown(graphs.get("graph_share_steps")),
                shown(graphs.get("tpot_p50_ms")),
                "" if work.get("steps") is None else f"{work['steps']:,.0f}",
                shown(metrics.get("engine.spec.acceptance")),
                shown(joules),
            )
        )
        for part, told in (row.get("memory") or {}).items():
            sizes = [None if told[name] is None else told[name] / 2**30 for name in ("predicted", "found")]
            if any(size is not None for size in sizes):
                memory.append((row["model"], arm, part.removesuffix("_bytes"), *map(shown, sizes), ratio(*sizes)))
    head = ("model", "run", "exit", "all s", "start s", "", "graphs", "sizes", "steps from graphs", "tpot p50 ms")
    text = without_empty((*head, "steps", "accepted", "J a token"), runs)
    parts = table(("model", "run", "memory", "predicted GiB", "found GiB", "predicted / found"), memory)
    return f"{text}\n\n{parts}"


def guided(rows: Sequence[Row]) -> str:
    """Tokens a second of free answers and of guided ones of the same lengths: the median, and of the passes' ratios."""
    lines = []
    for load in values(rows, "load"):
        for engine in dict.fromkeys(str(arm).partition(": ")[0] for arm in values(rows, "arm")):
            own = {row["arm"].partition(": ")[2]: [] for row in rows}
            for row in rows:
                if row["load"] == load and row["arm"].startswith(f"{engine}: "):
                    own[row["arm"].partition(": ")[2]].append(row)
            cells = [shown(median(rows, "output_tokens_per_s", load=load, arm=f"{engine}: matched"))]
            for arm in ("cold", "warm", "again", "one by one"):
                free = {row["pass_"]: row["output_tokens_per_s"] for row in own.get("matched", [])}
                paired = [row for row in own.get(arm, []) if row["pass_"] in free]
                pairs = [row["output_tokens_per_s"] / free[row["pass_"]] for row in paired]
                cells.append(f"{statistics.median(pairs):.3f}" if pairs else "")
            cells.append(shown(median(rows, "warm_s", load=load, arm=f"{engine}: warm")))
            lines.append((load, engine, *cells))
    arms = ("cold / matched", "warm / matched", "again / matched", "one by one / matched")
    head = ("load", "engine", "matched, tok/s", *arms, "warming, s")
    return without_empty(head, lines)
