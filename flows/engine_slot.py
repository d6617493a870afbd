"""One engine on a GPU at a time: a global concurrency limit of the Prefect server, held by a lease.

The lease is renewed while the flow lives; when the flow is killed it runs out and the slot is free again."""

import contextlib
import os
from collections.abc import Iterator

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.client.schemas.objects import GlobalConcurrencyLimit
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound

from flows.console import RunConsole
from flows.servers import named_here

LEASE_S = 60.0
"""The shortest that the server grants: how long a dead holder keeps the slot at most."""

_held = False


def slot_name() -> str:
    """The limit that engines started here share: one for this host, or for the GPUs that this process may see."""
    return named_here("gpu")


def ensure_slot(client: SyncPrefectClient) -> GlobalConcurrencyLimit | None:
    """The limit, made if it was not there. An engine takes every GPU that it sees, so there is one slot."""
    name = slot_name()
    try:
        return client.read_global_concurrency_limit_by_name(name)
    except ObjectNotFound:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1, active=True))
        return None


@contextlib.contextmanager
def engine_slot(console: RunConsole) -> Iterator[None]:
    """Waits for the slot and holds it; a sweep's cells are inside its own. A run's own temporary server knows of no
    other run: it limits nothing."""
    global _held  # noqa: PLW0603 - of this process, as engines are
    if _held:
        yield
        return
    if not os.environ.get("ASSAY_PREFECT_API_URL"):
        yield
        return
    with get_client(sync_client=True) as client:
        limit = ensure_slot(client)
    if limit is not None and limit.active_slots >= limit.limit:
        console.note(f"waits for {limit.name}: another run's engine holds it")
    with concurrency(slot_name(), occupy=1, lease_duration=LEASE_S, raise_on_lease_renewal_failure=False):
        _held = True
        try:
            yield
        finally:
            _held = False
