"""The step of a run that waits for what was found out about its grammars, and acts on it."""

from tasks.preflight.beside import Preflight
from tasks.preflight.quarantine import quarantined
from tasks.preflight.words import compile_metrics
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
