"""The numbered changes of the schema, and what may be read.

A new column or table is a new change. Older Parquet is never rewritten: the columns it lacks read as NULL.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.errors import AssayError

METADATA_KEY = b"assay_schema_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the schema. added: `table.column` of what came with it."""

    version: int
    what: str
    added: tuple[str, ...] = ()


_JUDGEMENTS = (
    "run_id revision request_id metric dataset sample_id arm repeat judge_id judge_model judge judge_key answer_hash"
    " prompt defused output status verdict reason error finish_reason tries prompt_tokens output_tokens judge_ms"
    " judged_at"
)
_GATES = (
    "run_id revision gate metric arm rule margin value on_undecided against baseline_run_id verdict candidate baseline"
    " effect lo hi p_value p_adjusted n_pairs n_needed method unit direction reason decided_at cell_id"
)
_STARTS = (
    "run_id revision start_id order_index engine_id started_at ready_at ended_at ended_why ended_while error in_flight"
    " rung message requested log_path"
)
_SWEEP_CELLS = (
    "run_id revision cell_index repeat name role settings engine_group order_index state cell_run_id built started_at"
    " ended_at seconds error"
)
_TRIALS = (
    "run_id revision trial reference settings state why reason same_as value first_value violations figures parts"
    " trial_run_ids on_front winner started_at seconds"
)
_CORPUS_SCHEMAS = (
    "run_id revision case_id backend split name kind schema schema_fault keywords backend_version vllm_version"
    " tokenizer status stage message check_s compile_s grown_bytes peak_bytes tests tests_right over under"
    " reordered unjudged disputed verdict mask_tokens mask_us_mean mask_us_p50 mask_us_p95 mask_us_p99 mask_us_max"
    " seconds"
)
_CORPUS_TESTS = (
    "run_id revision case_id backend test_index split expected validated accepted status why reordered instance"
    " tokens mask_us seconds"
)
_CORPUS_ANSWERS = (
    "run_id revision case_id backend split child_run_id request_id grammar_status request_status finish_reason valid"
    " prompt_tokens output_tokens e2e_ms tpot_ms error"
)
_TELEMETRY = "power_instant_w memory_utilization memory_clock_mhz engine_processes other_processes client_cpu"
CHANGES: tuple[Change, ...] = (
    Change(version=1, what="The first tables."),
    Change(
        version=2,
        what="What a judge said of an answer; what came of a run's gates; documents in windows, ratios of sums, metrics"
        " under names of one's own; BOS; what would change a planned option, and the memory that was predicted;"
        " each start of an engine; sweeps, and engines that several runs shared; corpora of schemas; measured loads.",
        added=(
            "datasets.bos_policy",
            "plans.would_change",
            "engines.predicted",
            "engines.activation_bytes",
            "engines.built_by",
            "engines.grammar_masks",
            "engines.prefill_yields",
            "steps.stands_for",
            *(f"telemetry.{column}" for column in _TELEMETRY.split()),
            *(f"cells.{column}" for column in ("point_id", "load", "prompts", "warmup_started_at")),
            *(f"samples.{column}" for column in ("windows", "window_tokens")),
            *(f"requests.{column}" for column in ("repair_try", "tries", "client", "clock_error_ms")),
            *(f"scores.{column}" for column in ("base_metric", "numerator", "denominator")),
            *(f"judgements.{column}" for column in _JUDGEMENTS.split()),
            *(f"gates.{column}" for column in _GATES.split()),
            *(f"engine_starts.{column}" for column in _STARTS.split()),
            *(f"sweep_cells.{column}" for column in _SWEEP_CELLS.split()),
            *(f"trials.{column}" for column in _TRIALS.split()),
            *(f"corpus_schemas.{column}" for column in _CORPUS_SCHEMAS.split()),
            *(f"corpus_tests.{column}" for column in _CORPUS_TESTS.split()),
            *(f"corpus_answers.{column}" for column in _CORPUS_ANSWERS.split()),
        ),
    ),
)
CURRENT = CHANGES[-1].version


def check_version(*, metadata: Mapping[bytes, bytes] | None, source: str) -> int:
    """The schema version that a Parquet file was written with.

    Raises AssayError where the file has none (assay did not write it), or one newer than this assay knows: guessing
    at columns that it cannot know would give wrong answers.
    """
    written = (metadata or {}).get(METADATA_KEY)
    if written is None or not written.isdigit():
        raise AssayError(f"{source}: no assay schema version in it, so assay did not write it (move it elsewhere)")
    version = int(written)
    if version > CURRENT:
        raise AssayError(
            f"{source}: written with schema version {version}, and this assay knows versions up to {CURRENT}"
            " (use the newer assay to read this warehouse)"
        )
    return version
