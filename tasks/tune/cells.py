"""Between a tuning's settings and the cells that run them: which engine a setting comes to, and what a cell's run says.

A trial runs on a part of the samples, on the engine that all of them would get: what the plan makes of the data is set
for it as a number. So both parts of a trial share an engine, and what is confirmed in the end is what was tried.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from schemas.cell_figures import Slo
from schemas.engine import VllmEngine
from schemas.plan import EnginePlan
from schemas.sweep import CellResult, CellSpec
from schemas.tune import SideName, Trial, Why
from tasks.cells.expand import override, said, short_keys
from tasks.cells.figures import figures_of
from tasks.tune.outcome import Infeasible, Measured, Outcome
from tasks.tune.space import FIXED, POLICY, THRESHOLD, YIELDS
from warehouse.parquet import read_rows

CONFIRM = 1_000_000
"""Cells of the confirmation count from here, those of the trials are the trials' numbers."""
SIDES: tuple[SideName, ...] = ("winner", "plan", "vllm")
AS_IT_IS = {"engine.failures.rungs": 0, "engine.failures.restarts": 0}
"""An engine that is built smaller after it ran out of memory is another setting, and one that was restarted lost
time."""
_FROM_DATA = {
    "max_model_len": "engine.max_model_len",
    "max_num_seqs": "engine.max_num_seqs",
    "max_num_batched_tokens": "engine.max_num_batched_tokens",
    "kv_cache_memory_bytes": "engine.memory.kv_cache_bytes",
    "cudagraph_capture_sizes": "engine.cudagraph.sizes",
}
"""Options that the plan makes of the data, and their keys."""
_OPTIONS = {
    **{key: option for option, key in _FROM_DATA.items()},
    THRESHOLD: "long_prefill_token_threshold",
    "engine.cudagraph.mode": "cudagraph_mode",
    "engine.compile": "compile",
    "engine.core": "core",
    "engine.memory.block_size": "block_size",
    "engine.memory.gpu_share": "gpu_memory_utilization",
}
"""The plan's name for what may be `auto`."""


def pinned(plan: EnginePlan, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan made of the data, as settings. Keys that are set already are left out."""
    found: dict[str, Any] = {}
    for each in plan.options:
        key = _FROM_DATA.get(each.option)
        if key is not None and key not in settings and each.source == "plan" and each.value not in (None, []):
            found[key] = each.value
    threshold = next(each for each in plan.options if each.option == _OPTIONS[THRESHOLD])
    if THRESHOLD not in settings and threshold.source == "plan" and threshold.value is not None:
        found |= {POLICY: FIXED, THRESHOLD: threshold.value} if threshold.value else {POLICY: "off", THRESHOLD: None}
        if plan.value("prefill_yields") and YIELDS not in settings:
            found[YIELDS] = True
    return found


def engine_key(plan: EnginePlan) -> str:
    """What tells two engines apart: every option, but for how a number came about, and for the memory that was free at
    the moment."""
    told = {
        each.option: each.value
        for each in plan.options
        if each.option != "prefill_policy" and not (each.option == "kv_cache_memory_bytes" and each.source == "plan")
    }
    return json.dumps(told, sort_keys=True, default=str)


def values_of(
    keys: Iterable[str], *, engine: VllmEngine, plan: EnginePlan, reference: Literal["plan", "vllm"]
) -> dict[str, Any]:
    """The values that the keys of a space have in one of the references, as far as they are known: as they are written,
    or where that is `auto`, as the plan has them; for vLLM's defaults, what the plan says that these are."""
    options = {each.option: each for each in plan.options}
    found = {}
    for key in keys:
        value = _written(engine, key)
        option = options.get(_OPTIONS.get(key, ""))
        if value in (None, "auto", []) and option is not None:
            left = reference == "vllm" and option.value is None
            value = option.default_value if left else option.value
        if value not in (None, "auto") or (key == POLICY and value is not None):  # there `auto` is a policy
            found[key] = value
    return found


def _written(engine: VllmEngine, key: str) -> Any:
    value: Any = engine.model_dump(mode="json", by_alias=True)
    for part in key.split(".")[1:]:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def trial_cell(trial: Trial, set_too: Mapping[str, Any]) -> CellSpec:
    """The cell of a trial. set_too: what is set for it that the search did not choose."""
    name = {"plan": "the plan", "vllm": "vLLM's defaults", None: _name(trial.settings)}[trial.reference]
    return _cell(trial.number, f"trial {trial.number}: {name}", trial.settings, set_too, role="trial")


def side_cell(winner: Trial, side: SideName, settings: Mapping[str, Any]) -> CellSpec:
    """The cell of one side of the confirmation."""
    index = CONFIRM + len(SIDES) * winner.number + SIDES.index(side)
    name = {"winner": f"trial {winner.number}", "plan": "the plan", "vllm": "vLLM's defaults"}[side]
    return _cell(index, f"confirm {name}", settings, {}, role="confirm")


def _cell(
    index: int, name: str, settings: Mapping[str, Any], set_too: Mapping[str, Any], *, role: Literal["trial", "confirm"]
) -> CellSpec:
    written = {**settings, **set_too, **AS_IT_IS}
    overrides = [override(key, value) for key, value in written.items()]
    return CellSpec(index=index, name=name, settings=dict(settings), overrides=overrides, role=role)


def _name(settings: Mapping[str, Any]) -> str:
    short = short_keys(list(settings))
    return ", ".join(f"{short[key]}={said(value)}" for key, value in settings.items())


def outcome_of(home: Path, result: CellResult, *, slo: Slo | None) -> Outcome:
    """What a cell's run says of its setting. Raises AssayError for tables that cannot be read."""
    if result.state == "finished" and result.run_id is not None:
        figures = {name: figure.value for name, figure in figures_of(home, result.run_id, slo=slo).items()}
        return Measured(figures=figures, run_id=result.run_id, seconds=result.seconds)
    starts = [] if result.run_id is None else read_rows(home, "engine_starts", result.run_id)
    short = next((row["message"] for row in starts if row["ended_why"] == "out_of_memory"), None)
    # What is said of the rungs that were not taken is about AS_IT_IS.
    told = (short or "").partition("; engine.failures")[0] or result.error or f"its run is {result.state}"
    return Infeasible(
        why=_why(result, starts), message=told.splitlines()[0], run_id=result.run_id, seconds=result.seconds
    )


def _why(result: CellResult, starts: Sequence[Mapping[str, Any]]) -> Why:
    """An engine that did not come to stand was refused, by vLLM itself."""
    if result.state == "timeout":
        return "timeout"
    if any(row["ended_why"] == "out_of_memory" for row in starts):
        return "out_of_memory"
    refused = any(row["ended_why"] == "failed" and row["ended_while"] == "building" for row in starts)
    return "refused" if refused else "failed"
