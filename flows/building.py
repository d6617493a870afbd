"""A run's engine is built, and beside it the grammars that it will get are examined."""

from flows.console import RunConsole
from schemas.built import BuiltEngine
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts
from schemas.summary import DatasetsSummary
from tasks.engine.keeper import EngineKeeper
from tasks.engine.step import build_engine
from tasks.preflight.beside import Preflight
from tasks.preflight.step import examine_grammars, warm_grammars
from tasks.preflight.words import in_a_line, warnings_of
from tasks.session import Session


def begin_preflight(
    session: Session, preflight: Preflight, *, plan: EnginePlan, model: ModelFacts, loaded: DatasetsSummary
) -> None:
    """Begins it in a thread. The compiler's process imports vLLM, which takes seconds: it does so while the engine
    starts."""
    fingerprints = {dataset.tokenizer_fingerprint for dataset in loaded.datasets}
    preflight.begin(
        session.run.experiment,
        requests=[*session.requests, *session.retries],
        plan=plan,
        model=model,
        tokenizer_fingerprint=", ".join(sorted(fingerprints)),
    )


def build(
    session: Session,
    engine: EngineKeeper,
    preflight: Preflight,
    *,
    plan: EnginePlan,
    model: ModelFacts,
    device: DeviceFacts,
    console: RunConsole,
    warnings: list[str],
) -> BuiltEngine:
    """Builds the engine, and waits for what was found out about the grammars meanwhile."""
    with console.step("build engine") as said:
        built = build_engine(session, engine, plan=plan, model=model, device=device)
        console.built(said, built)
    warnings += built.downgrades
    if preflight.begun:
        with console.step("grammars") as said:
            examine_grammars(session, preflight)
            built = warm_grammars(session, engine, built=built)
            if session.preflight is not None:
                said.append(in_a_line(session.preflight))
                warnings += warnings_of(session.preflight, session.requests)
    return built
