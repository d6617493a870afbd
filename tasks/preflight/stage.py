"""The steps of a run that wait for what was found out about its grammars, and act on it."""

from schemas.built import BuiltEngine
from tasks.engine.failure import EngineDied
from tasks.engine.keeper import EngineKeeper
from tasks.engine.stage import build_engine
from tasks.preflight.beside import Preflight
from tasks.preflight.quarantine import quarantined
from tasks.preflight.warm import warmed
from tasks.preflight.words import compile_metrics, warm_metrics
from tasks.record.rows import metric_rows
from tasks.session import Session


def examine_grammars(session: Session, preflight: Preflight) -> None:
    """Waits for the preflight, keeps from the engine what would hang or kill it, and writes metrics.

    What was found is `session.preflight`, and stays None where no grammar was looked at. The rows of `grammars` are
    written once the engine had its say, too."""
    found = preflight.found()
    if found is None:
        return
    session.preflight = found
    session.requests = quarantined(session.requests, found.examined)
    session.retries = quarantined(session.retries, found.examined)
    session.store.write("metrics", metric_rows(compile_metrics(found)))


def warm_grammars(session: Session, keeper: EngineKeeper, *, built: BuiltEngine) -> BuiltEngine:
    """Has the engine compile what was found good, before the first request waits for it; gives the engine that stands
    then: one that dies of it is started again, and meets the grammars as they come. Raises EngineError where it died
    too often."""
    found, options = session.preflight, session.run.experiment.vllm.grammar.preflight
    if found is None or not options.warm:
        return built
    requests = [*session.requests, *session.retries]
    try:
        session.preflight = warmed(found, requests, keeper.client, limit_s=options.warm_limit_s)
    except EngineDied as died:
        left = len(session.requests)
        after = keeper.after(died, plan=built.plan, model=built.model, while_="answering", in_flight=0, left=left)
        return build_engine(session, keeper, plan=after.plan, model=built.model, device=built.device)
    session.store.write("metrics", metric_rows(warm_metrics(session.preflight)))
    return built
