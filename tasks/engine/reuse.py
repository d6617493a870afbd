"""Whether an engine that stands serves another run: it does where the run's plan asks for the same engine.

What vLLM's scheduler lets change between two steps, the long-prompt threshold and whether it yields, is changed; its
cached prefixes are forgotten."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import EngineError
from schemas.plan import EnginePlan, ModelFacts
from tasks.engine.client import EngineClient, Standing
from tasks.engine.protocol import Built
from tasks.engine.settings import ProcessSettings, build_options

THRESHOLD = "long_prefill_token_threshold"
YIELDS = "prefill_yields"
_OURS = frozenset({"prefill_policy"})
"""What says how a number came about, and is nothing to the engine."""


def engine_group(*, plan: EnginePlan, model: ModelFacts, settings: ProcessSettings) -> str:
    """First 16 hex digits of sha256 over the weights and all that an engine is built with: runs of one group can share
    one."""
    options = build_options(plan)
    told = [model.fingerprint, repr(settings), _kept(options)]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def take_over(client: EngineClient, *, model: str | Path, options: Mapping[str, Any]) -> Standing | None:
    """Makes an engine that stands ready for these options and gives what it is now; None where it is another engine, or
    cannot be changed. Raises EngineDied where it is gone."""
    standing = client.standing
    if standing is None or standing.model != str(model) or _kept(standing.options) != _kept(options):
        return None
    resolved = dict(standing.built.resolved)
    try:
        asked = {THRESHOLD: options.get(THRESHOLD), YIELDS: bool(options.get(YIELDS))}
        if asked[THRESHOLD] is not None and any(resolved.get(name) != value for name, value in asked.items()):
            if not _schedules_here(options):
                return None
            budget = resolved["max_num_batched_tokens"]
            client.reschedule(threshold=asked[THRESHOLD], budget=budget, yields=asked[YIELDS])
            resolved |= asked
        client.reset_prefix_cache()
    except EngineError:
        if client.returncode is not None:
            raise
        return None
    client.take_steps()
    built: Built = msgspec.structs.replace(standing.built, resolved=resolved)
    client.standing = replace(standing, options=dict(options), built=built)
    return client.standing


def can_be_kept(client: EngineClient) -> bool:
    """Whether an engine can serve another run: it stands, lives, and writes no trace into its run's folder."""
    standing = client.standing
    return standing is not None and client.returncode is None and not standing.options.get("trace_steps")


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that another run must ask for too."""
    left_out = _OURS | ({THRESHOLD, YIELDS} if _schedules_here(options) else frozenset())
    return {name: value for name, value in options.items() if name not in left_out}


def _schedules_here(options: Mapping[str, Any]) -> bool:
    """Whether vLLM's scheduler is in the worker's own process."""
    parallel = options.get("data_parallel_size") or 1
    return options.get("core") == "inprocess" and parallel == 1
