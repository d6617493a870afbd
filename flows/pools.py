"""The work pools that experiments, maintenance and clients of loads wait in."""

from typing import NamedTuple


class Pool(NamedTuple):
    """at_once: runs that the server lets begin at a time, over all workers (None: any number). each_worker: runs that
    one worker starts at a time. here: whether `assay up` starts a worker for it."""

    description: str
    at_once: int | None
    each_worker: int
    here: bool = True


POOLS = {
    "gpu": Pool("Experiments: one at a time, since each takes the whole engine.", at_once=1, each_worker=1),
    "cpu": Pool("What needs no engine: maintenance, comparing.", at_once=None, each_worker=2),
    "clients": Pool(
        "Machines that send a part of a load: a worker on each of them.", at_once=None, each_worker=1, here=False
    ),
}
HERE = tuple(name for name, pool in POOLS.items() if pool.here)
"""Those that `assay up` starts a worker for."""
