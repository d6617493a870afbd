"""Which of a run's numbers and settings MLflow gets, and under which names. docs/mlflow.md lists them."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.arm import arm_words, stored_arms
from schemas.metric import is_score

MAX_METRICS = 49
"""MLflow's compare page freezes with many more."""
VALUE_CHARACTERS = 500
"""Longer values of params and tags are cut, with a mark; the whole config is an artifact."""

_DIGITS = 6
"""MLflow prints every digit that it has; the warehouse keeps them all."""
GIB = float(1 << 30)
_TIMES = tuple(f"timing.{name}_ms.p{p}" for name in ("ttft", "tpot", "e2e") for p in (50, 95))
_WHOLE = ("timing.output_tokens_per_s", "timing.energy_counter", "timing.energy_integral")
_ENGINE = tuple(
    f"engine.{name}"
    for name in (
        *("tokens_per_step", "kv_usage.max", "preemptions", "prefix_hit_rate", "prompts_split"),
        *("graph_share.tokens", "padding_waste", "spec.acceptance", "spec.mean_length", "restarts", "rungs"),
    )
)
"""Of what the engine did, what two runs are compared by; the others stay in the warehouse."""
_FORM = (".form.empirical_coverage", ".form.parse_failures")
_GUIDE = ("guide.mask_us_per_token", "guide.tokens_per_s_ratio", "guide.throughput_ratio")
_GUIDE_OF_DATASETS = (".guide.parse_failures_reduction", ".repair.repaired_share", ".repair.output_tokens_ratio")
"""Of what guiding and repairing do; the rest stays in the warehouse."""
_PERF = tuple(
    f"perf.{name}"
    for name in (
        *("ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "output_tokens_per_s", "goodput_share", "knee_requests_per_s"),
        *("joules_per_output_token", "cost_per_million_output_tokens"),
    )
)
_PARTS = ("perf.bucket.", "perf.dataset.", "perf.adapter.", "perf.client.")
_FAILED_OF = "timing.ttft_ms.p50"
_NOT_COMPARED = ("block_size", "core", "cores", "cudagraph_capture_sizes", "grammar_whitespace")
"""Options that follow from others or from the machine: in the plan, not among the params."""
_UNSAFE = re.compile(r"[^\w.\- /:]")

Row = Mapping[str, Any]


def parent_metrics(metrics: Iterable[Row], *, engine: Row | None) -> dict[str, float]:
    """What the experiment's run shows: the numbers of the arms with the arm behind (`arithmetic.exact_match.free`),
    the engine's without. At most MAX_METRICS: quality first, groups before datasets, then form, failures, speed."""
    found = _ranked(metrics)
    for rank, row in _engine_rows(engine):
        found.append((rank, row["name"], row["value"]))
    return _first(found)


def child_metrics(metrics: Iterable[Row], *, arm: str | None, cell_id: str | None) -> dict[str, float]:
    """What one cell's run shows: its arm's numbers, without the arm in the name, so that children compare line by line.

    cell_id: of a measured cell, whose numbers carry it; None for an arm's quality phase, whose numbers do not."""
    own = [{**row, "arm": None} for row in metrics if row["arm"] == arm and row["cell_id"] == cell_id]
    return _first(_ranked(own, of_arm=True))


def parent_params(
    *, config: Mapping[str, Any], datasets: Sequence[Row], engine: Row | None, plans: Sequence[Row]
) -> dict[str, str]:
    """The settings that people compare runs by. A dataset's number of rows is one of them: a limit changes scores.

    MLflow lists them by name: the few that say what was asked stand before the engine's many, which begin with vllm."""
    listed = config.get("datasets") or []
    # Of answers that were made elsewhere only the other program can say how they were drawn.
    elsewhere = config.keys() & {"predictions", "imported"}
    sampling = [config.get("sampling") or {}] if elsewhere else [dataset["sampling"] for dataset in listed]
    params: dict[str, Any] = {
        "model": model_of(config),
        "datasets": rows_of(datasets) or ", ".join(dataset["name"] for dataset in listed),
        "arms": ", ".join(arm_words(arm) for arm in stored_arms(config["arms"])),
    }
    for name in ("temperature", "top_p", "top_k", "seed", "max_tokens"):
        values = list(dict.fromkeys(str(each.get(name)) for each in sampling if each.get(name) is not None))
        if values:
            params[f"sampling.{name}"] = ", ".join(values)
    if engine is not None:
        params |= {
            "model_fingerprint": engine["model_fingerprint"][:16],
            "vllm": engine["engine_version"],
            "torch": engine["torch_version"],
            "device": _device(engine),
        }
    params |= {f"vllm.{row['option']}": row["value"] for row in plans if row["option"] not in _NOT_COMPARED}
    return {safe_key(name): short(value) for name, value in params.items() if value is not None}


def model_of(config: Mapping[str, Any]) -> str | None:
    """The model's name; None where nobody said which one answered."""
    model = config.get("model")
    return None if model is None else str(model["name"])


def rows_of(datasets: Sequence[Row]) -> str:
    """`arithmetic (60), extract (60)`: the datasets with the rows that were used."""
    return ", ".join(f"{row['dataset']} ({row['rows_used']})" for row in datasets)


def safe_key(name: str) -> str:
    """A name that MLflow takes: letters, digits, `_ . - / :` and blanks, at most 250 characters."""
    cleaned = _UNSAFE.sub("_", name).strip().strip("/.")[:250]
    return cleaned.replace("//", "/").replace("..", "._") or "_"


def short(value: Any) -> str:
    """A value as text, cut with a mark where it is long."""
    text = str(value)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"


def _device(engine: Row) -> str:
    count = engine["device_count"]
    return f"{count} x {engine['device']}" if count and count > 1 else str(engine["device"])


def _ranked(metrics: Iterable[Row], *, of_arm: bool = False) -> list[tuple[int, str, float]]:
    found = []
    for row in metrics:
        suffix = "" if row["arm"] is None else f".{row['arm']}"
        if row["name"] == _FAILED_OF and row["cell_id"] is None:
            found.append((2, f"failed_requests{suffix}", float(row["n_failed"])))
        rank = _rank(row, of_arm=of_arm)
        if row["name"].startswith("perf.") and not of_arm:
            suffix = f".{row['cell_id']}"
        if rank is not None and row["value"] is not None:
            found.append((rank, row["name"] + suffix, row["value"]))
        if row["name"] == "timing.engine_rss_peak" and row["value"] is not None:
            found.append((3, "timing.engine_rss_peak_gib", row["value"] / GIB))
    return found


def _is_point(row: Row) -> bool:
    """Whether a number is one over a point's repeats, and not of one of its cells."""
    return str(row["cell_id"]).startswith(f"{row['arm']}-") and "-probe-" not in str(row["cell_id"])


def _rank(row: Row, *, of_arm: bool) -> int | None:  # noqa: PLR0911 - one for each kind of metric
    """What goes first when not everything fits; None for what stays in the warehouse."""
    name = row["name"]
    if name.startswith("engine."):
        return 4 if name in _ENGINE and not of_arm else None
    if name.startswith("grammar."):
        return 5 if not of_arm else None
    if name.startswith("timing."):
        return 3 if name in _TIMES or name in _WHOLE else None
    if name.startswith("perf."):
        if of_arm and row["cell_id"] is not None:
            return None if name.startswith(_PARTS) else 2 if name in _PERF else 3
        # On the run itself a few, each with its point: `perf.tpot_ms.p50.free-closed-8`.
        return 3 if name in _PERF and row["cell_id"] is not None and _is_point(row) else None
    if not is_score(name) or name.startswith("guide."):
        kept = name in _GUIDE or name.endswith(_GUIDE_OF_DATASETS)
        return 1 if name.endswith(_FORM) else 2 if kept else None
    return -1 if row.get("scope") == "group" else 0


def _engine_rows(engine: Row | None) -> list[tuple[int, Row]]:
    if engine is None or engine["start_s"] is None:
        return []
    return [(3, {"name": "engine.start_s", "value": engine["start_s"]})]


def _first(found: Sequence[tuple[int, str, float]]) -> dict[str, float]:
    chosen: dict[str, float] = {}
    for _, name, value in sorted(found):
        if math.isfinite(value):
            chosen.setdefault(safe_key(name), float(f"{value:.{_DIGITS}g}"))
    return dict(list(chosen.items())[:MAX_METRICS])
