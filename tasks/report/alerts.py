"""What a reader must know before trusting a number: downgrades, cuts, failures, what could not be measured."""

from collections import Counter
from typing import NamedTuple

from tasks.gate.words import because, claim
from tasks.report.benchmark import cached, counts, load_words, points
from tasks.report.data import ReportData
from tasks.report.engine import differences, starts
from tasks.report.gates import verdicts
from tasks.report.latency import values
from tasks.report.numbers import is_number
from tasks.report.quality import quality_rows

_SAID_BY_MACHINE = "no GPU power or energy was measured"
"""A warning of the run that `_machine` tells in its own words, from the rows."""
_OF_LOAD = ("measured cells", "the benchmark")
"""How warnings of the measuring step begin that name no point."""

_ENDS = {
    "died": "The engine died",
    "hung": "The engine hung",
    "out_of_memory": "The engine ran out of memory",
}
"""By what `engine_starts` says of an end; what else ended early is the run's own end."""


class Alert(NamedTuple):
    """`level`: bad (a number may be wrong), warn (know this), note (nothing to do)."""

    level: str
    title: str
    text: str
    section: str


def _plural(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _engine(data: ReportData) -> list[Alert]:
    found = []
    for engine in data.engines:
        said = [str(text) for text in engine.get("downgrades") or []]
        found += [Alert("warn", "The engine changed a setting", text, "engine") for text in said]
        found += [
            Alert("warn", "The engine changed a setting", f"{option}: requested {wanted}, runs with {got}", "engine")
            for option, wanted, got in differences(engine)
            if not any(option in text for text in said)
        ]
        for rung in engine.get("ladder") or []:
            found.append(Alert("warn", "The engine was built again with less", str(rung), "engine"))
    for row in starts(data):
        title = _ENDS.get(str(row.get("ended_why")))
        if title is not None:
            found.append(Alert("warn", title, str(row.get("message") or row.get("error")), "engine"))
    return found


def _prompts(data: ReportData) -> list[Alert]:
    found = []
    for name in data.dataset_names:
        own = [row for row in data.samples if row["dataset"] == name]
        cut = [row["cut_tokens"] for row in own if row.get("cut_tokens")]
        if cut:
            found.append(
                Alert("warn", f"{name}: prompts were cut",
                      f"{_plural(len(cut), 'prompt')} of {len(own):,} lost {_plural(sum(cut), 'token')}, "
                      f"the most at once {max(cut):,}", "samples")
            )  # fmt: skip
        dropped = [row["shots_dropped"] for row in own if row.get("shots_dropped")]
        if dropped:
            found.append(
                Alert("warn", f"{name}: examples were dropped",
                      f"{_plural(len(dropped), 'prompt')} of {len(own):,} lost {_plural(sum(dropped), 'example')}",
                      "samples")
            )  # fmt: skip
        replaced = [row["replaced_characters"] for row in own if row.get("replaced_characters")]
        if replaced:
            found.append(
                Alert("warn", f"{name}: characters were replaced",
                      f"{_plural(sum(replaced), 'character')} in {_plural(len(replaced), 'sample')} were no valid "
                      "Unicode and went to the model as U+FFFD; the raw bytes are kept", "samples")
            )  # fmt: skip
    for row in data.datasets:
        found += [Alert("warn", f"{row['dataset']}", str(text), "datasets") for text in row.get("warnings") or []]
    for row in data.profiles:
        if row.get("duplicates") and row.get("arm") in ("free", None):
            found.append(
                Alert("note", f"{row['dataset']}: equal prompts",
                      f"{_plural(row['duplicates'], 'prompt')} of {row['n']:,} equals an earlier one", "datasets")
            )  # fmt: skip
    return found


def _requests(data: ReportData) -> list[Alert]:
    found = []
    counts = Counter((row["status"], row["dataset"], row["arm"]) for row in data.requests)
    words = {
        "error": ("bad", "failed"),
        "cancelled": ("bad", "were cancelled"),
        "refused": ("warn", "were refused"),
    }
    for (status, dataset, arm), n in sorted(counts.items(), key=str):
        if status in words:
            level, verb = words[status]
            found.append(Alert(level, f"{dataset}, {arm}: requests {verb}", _plural(n, "request"), "failures"))
    finished = Counter((row["dataset"], row["arm"]) for row in data.generated)
    length = Counter((row["dataset"], row["arm"]) for row in data.generated if row.get("finish_reason") == "length")
    many = [
        f"{dataset} {arm} {n:,} of {finished[dataset, arm]:,}"
        for (dataset, arm), n in length.items()
        if n >= 0.2 * finished[dataset, arm]
    ]
    if many:
        found.append(
            Alert("note", "Many answers end at max_tokens",
                  f"{', '.join(many)}: what they would have said further on is not scored", "arms")
        )  # fmt: skip
    reused = sum(bool(row.get("reused")) for row in data.requests)
    if reused:
        found.append(
            Alert(
                "note",
                "Answers were taken over",
                f"{_plural(reused, 'request')} of an earlier run, without times",
                "latency",
            )
        )
    refused = [row for row in data.grammars if row.get("status") not in (None, "accepted")]
    for row in refused[:8]:
        found.append(
            Alert("warn", f"A grammar was {row['status']}", f"{row['grammar_id']} ({row.get('backend')}): "
                  f"{row.get('message') or 'the backend gives no reason'}", "failures")
        )  # fmt: skip
    if len(refused) > 8:
        found.append(Alert("warn", "More grammars were not accepted", f"{len(refused) - 8:,} more", "failures"))
    return found


def _load(data: ReportData) -> list[Alert]:
    """What failed under load, and what the measuring step itself does not warn of."""
    found = []
    counted = [(f"{load_words(point)}, {point.arm}", counts(data, point)["failed"]) for point in points(data)]
    failed = [(name, n) for name, n in counted if n]
    if failed:
        total, named = sum(n for _, n in failed), "; ".join(f"{name}: {n:,}" for name, n in failed)
        found.append(Alert("bad", "Measured requests failed", f"{_plural(total, 'request')}: {named}", "load"))
    found += [Alert(level, what, words, "load") for level, what, words in cached(data)]
    return found


def _scores(data: ReportData) -> list[Alert]:
    zero = [row for row in quality_rows(data) if row.get("value") == 0 and (row.get("n") or 0) >= 10]
    found = [
        Alert("warn", f"{row['dataset']} {row['metric']} is exactly 0 ({row['arm']})",
              f"of {row['n']:,} answers none scored: look at some before believing it", "samples")
        for row in zero
        if row.get("direction") == "higher"
    ]  # fmt: skip
    if any(row.get("prompts_differ") for row in data.comparisons):
        found.append(Alert("warn", "Compared prompts differ", "two arms or runs were not asked the same text", "arms"))
    return found


def _machine(data: ReportData) -> list[Alert]:
    found = []
    if not any(is_number(row.get("energy_j")) for row in data.telemetry):
        found.append(
            Alert("note", "No energy was measured", "no GPU whose counter could be read; power and energy are missing, "
                  "not 0", "telemetry")
        )  # fmt: skip
    throttled = max(values(data.telemetry, "cpu_throttled_s"), default=0)
    if throttled > 0.5:
        found.append(
            Alert(
                "warn",
                "The processor was throttled",
                f"{throttled:.1f} s under a CPU quota: times are too long",
                "telemetry",
            )
        )
    reasons = sorted({str(reason) for row in data.telemetry for reason in row.get("throttle") or []})
    if reasons:
        found.append(Alert("warn", "The GPU was throttled", ", ".join(reasons), "telemetry"))
    for cell in data.cells:
        if cell.get("disturbed") and cell.get("kind") in ("quality", None):  # the section on load tells the others
            found.append(
                Alert(
                    "warn",
                    f"The cell {cell['cell_id']} was disturbed",
                    "; ".join(map(str, cell["disturbed"])),
                    "latency",
                )
            )
    return found


def alerts(data: ReportData) -> list[Alert]:
    """All of them, the worst first."""
    run = data.run
    found = []
    if run.get("error"):
        found.append(Alert("bad", "The run failed", str(run["error"]), "failures"))
    if run.get("status") in ("failed", "cancelled", "crashed"):
        found.append(Alert("bad", f"The run is marked {run['status']}",
                           "what is shown is what was stored until then", "failures"))  # fmt: skip
    if run.get("git_dirty"):
        found.append(Alert("note", "The checkout had changes", "the commit alone does not give this code", "top"))
    for each in verdicts(data):
        if each.fails or each.verdict == "refused":
            title = "A gate failed" if each.fails else "A gate cannot be judged"
            found.append(Alert("bad", title, f"{claim(each)}: {because(each)}", "gates"))
    found += [*_requests(data), *_engine(data), *_prompts(data), *_load(data), *_scores(data), *_machine(data)]
    said = {alert.text for alert in found}
    points = tuple(str(cell["point_id"]) for cell in data.load_cells)
    for warning in run.get("warnings") or []:
        if warning not in said and not warning.startswith(_SAID_BY_MACHINE):
            of_load = warning.startswith((*_OF_LOAD, *points))
            found.append(Alert("warn", "A step of the run warned", warning, "load" if of_load else "plan"))
    return sorted(found, key=lambda alert: ("bad", "warn", "note").index(alert.level))
