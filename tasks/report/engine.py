"""The engine: what was asked of it, what it made of that, and what its start took."""

from typing import Any

from tasks.report.data import ReportData, Row
from tasks.report.numbers import is_number

_PHASES = (
    ("process_start_s", "process start"),
    ("import_s", "imports"),
    ("device_s", "device"),
    ("load_s", "weights"),
    ("compile_s", "compile"),
    ("capture_s", "graph capture"),
    ("kv_cache_s", "KV cache"),
    ("warmup_s", "first token"),
)
_REST = "not timed apart"
PHASE_NAMES = (*(name for _, name in _PHASES), _REST)


def start_phases(engine: Row) -> list[tuple[str, float]]:
    """(phase, seconds) of one engine's start, in order; only what was measured.

    A phase is a column of the engine or an entry of `phases` in its resolved settings. `start_s` is the whole start;
    what its measured parts leave of it comes last.
    """
    resolved = engine.get("resolved")
    more = resolved.get("phases") if isinstance(resolved, dict) else None
    seconds = {**(more if isinstance(more, dict) else {}), **{k: v for k, v in engine.items() if v is not None}}
    parts = [(name, float(seconds[column])) for column, name in _PHASES if is_number(seconds.get(column))]
    total = engine.get("start_s")
    rest = total - sum(length for _, length in parts) if is_number(total) else 0.0
    return [*parts, (_REST, rest)] if rest > 0.0005 else parts


def lookup(settings: Any, option: str) -> tuple[bool, Any]:
    """(found, value) of an option in a settings object, by its whole dotted name, its path, or its last part."""
    if not isinstance(settings, dict):
        return False, None
    if option in settings:
        return True, settings[option]
    inner: Any = settings
    for part in option.split("."):
        if not isinstance(inner, dict) or part not in inner:
            break
        inner = inner[part]
    else:
        return True, inner
    last = option.rpartition(".")[2]
    return (True, settings[last]) if last in settings else (False, None)


def same(requested: Any, resolved: Any) -> bool:
    """Whether the engine did as asked: equal, or nothing definite was asked (`auto`, null)."""
    if requested in (None, "auto") or requested == resolved:
        return True
    if isinstance(requested, str) and isinstance(resolved, str):
        one, other = requested.lower(), resolved.lower()
        # A server's address may be given with or without the `/v1` at its end.
        return one == other or (one.startswith("http") and one.removesuffix("/v1") == other.removesuffix("/v1"))
    off: tuple[Any, ...] = (None, "none", [], 0)
    return requested in off and resolved in off


def differences(engine: Row) -> list[tuple[str, Any, Any]]:
    """(option, requested, resolved) wherever the engine was given one value and runs with another."""
    requested = engine.get("requested")
    if not isinstance(requested, dict):
        return []
    found = []
    for option, wanted in requested.items():
        known, got = lookup(engine.get("resolved"), option)
        if known and not same(wanted, got):
            found.append((option, wanted, got))
    return found


def plan_rows(data: ReportData) -> list[dict[str, Any]]:
    """The plan's options, each with what the engine resolved it to; changed ones (not the default) first."""
    engines = {engine["engine_id"]: engine for engine in data.engines}
    rows = []
    for row in data.plans:
        engine = engines.get(row.get("engine_id")) or (data.engines[-1] if data.engines else {})
        known, resolved = lookup(engine.get("resolved"), row["option"])
        rows.append(
            {
                "would_change": None,
                **row,
                "known": known,
                "resolved": resolved,
                "differs": known and not same(row.get("value"), resolved),
                "changed": row.get("value") != row.get("default_value"),
            }
        )
    return rows


ENDS = {
    "done": "was no longer needed",
    "stopped": "stopped with the run",
    "died": "died",
    "hung": "hung",
    "out_of_memory": "ran out of memory",
    "failed": "failed",
}
"""In words, how a start of an engine ended (`engine_starts.ended_why`)."""


def starts(data: ReportData) -> list[Row]:
    """Every start of an engine, in order, where there was more than the one that a run needs; else none."""
    ordered = sorted(data.engine_starts, key=lambda row: (row["started_at"], row["order_index"]))
    return ordered if any(row.get("ended_why") not in ("done", "stopped", None) for row in ordered) else []


def start_line(row: Row) -> Row:
    """What the report shows of one start: the seconds that it took to be ready, and how it ended."""
    ready, started = row.get("ready_at"), row.get("started_at")
    end = ENDS.get(str(row.get("ended_why")))
    return {
        **row,
        "ready_s": None if ready is None or started is None else (ready - started).total_seconds(),
        "end": None if end is None else f"{end} while {row['ended_while']}" if row.get("ended_while") else end,
    }


def engine_facts(engine: Row) -> list[tuple[str, Any, str]]:
    """(name, value, kind of number) of what an engine says of itself."""
    return [
        ("Kind", engine.get("kind"), "text"),
        ("Version", engine.get("engine_version"), "text"),
        ("torch", engine.get("torch_version"), "text"),
        ("Device", engine.get("device"), "text"),
        ("Devices", engine.get("device_count"), "count"),
        ("Driver", engine.get("driver"), "text"),
        ("dtype", engine.get("dtype"), "text"),
        ("Quantization", engine.get("quantization"), "text"),
        ("Weights", engine.get("weights_bytes"), "bytes"),
        ("KV cache", engine.get("kv_bytes"), "bytes"),
        ("KV cache, tokens", engine.get("kv_tokens"), "count"),
        ("CUDA graphs, memory", engine.get("graph_bytes"), "bytes"),
        ("Activations, peak", engine.get("activation_bytes"), "bytes"),
        ("CUDA graph mode", engine.get("cudagraph_mode"), "text"),
        ("Capture sizes", engine.get("capture_sizes"), "list"),
        ("max_model_len, tokens", engine.get("max_model_len"), "count"),
        ("Token budget per step", engine.get("max_num_batched_tokens"), "count"),
        ("Sequences at once", engine.get("max_num_seqs"), "count"),
        ("Prefill threshold, tokens", engine.get("long_prefill_token_threshold"), "count"),
        ("Prefill policy", engine.get("prefill_policy"), "text"),
        ("Long prompts yield", {True: "yes", False: "no"}.get(engine.get("prefill_yields")), "text"),
        ("Attention backend", engine.get("attention_backend"), "text"),
        ("Grammar backend", engine.get("grammar_backend"), "text"),
        ("Masks made", engine.get("grammar_masks"), "text"),
        ("Model fingerprint", engine.get("model_fingerprint"), "text"),
    ]
