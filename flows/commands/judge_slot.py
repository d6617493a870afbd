"""The slot of engines for a judge that no flow drives: of `assay score` and of `assay rescore`."""

import contextlib
import os
from collections.abc import Iterator

from flows.runtime import PrefectApi, assay_home, prepare_environment
from flows.servers import running_up


@contextlib.contextmanager
def judge_slot() -> Iterator[None]:
    """Waits for the slot of the Prefect server that ASSAY_PREFECT_API_URL names, else of a running `assay up`, and
    holds it. Without either, no other engine is known of and it waits for nothing. Raises RunError for a server that
    does not answer."""
    home = assay_home()
    prepare_environment(home)
    up = running_up(home)
    if up is not None:
        for name, value in up.environment().items():
            os.environ.setdefault(name, value)
    url = os.environ.get("ASSAY_PREFECT_API_URL")
    if not url:
        yield
        return
    os.environ["PREFECT_API_URL"] = url
    PrefectApi(url, None).wait()
    from flows.console import RunConsole  # noqa: PLC0415 - only a judge's engine needs it
    from flows.engine_slot import engine_slot  # noqa: PLC0415 - Prefect, after the environment that it reads

    with engine_slot(RunConsole()):
        yield
