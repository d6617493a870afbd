"""An engine that stands: what was asked, what it became, how long that took."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from schemas.plan import DeviceFacts, EnginePlan, ModelFacts


class BuiltEngine(BaseModel):
    """One engine of a run.

    engine_id: first 16 hex digits of sha256 over weights, versions, device and requested options. identity: what of it
    can change an answer (see tasks/requests.py). phases: seconds by name, only those that could be told apart. sizes:
    bytes by name. downgrades: settings that came out otherwise than asked, in words. ladder: what was said of
    each time that memory ran out before it stood. start_s: from the process's start to the first token; None where it
    stood already, as the run `built_by` had built it."""

    model_config = ConfigDict(frozen=True)

    engine_id: str
    model_name: str
    model: ModelFacts
    device: DeviceFacts
    plan: EnginePlan
    versions: dict[str, str]
    resolved: dict[str, Any]
    identity: dict[str, Any]
    phases: dict[str, float]
    sizes: dict[str, int]
    downgrades: list[str]
    ladder: list[str] = []
    start_s: float | None
    log_path: str
    built_by: str | None = None
