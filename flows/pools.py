"""The work pools that experiments and maintenance wait in."""

from typing import NamedTuple


class Pool(NamedTuple):
    """at_once: runs that the server lets begin at a time, over all workers (None: any number). each_worker: runs that
    one worker starts at a time."""

    description: str
    at_once: int | None
    each_worker: int


POOLS = {
    "gpu": Pool("Experiments: one at a time, since each takes the whole engine.", at_once=1, each_worker=1),
    "cpu": Pool("What needs no engine: maintenance, comparing.", at_once=None, each_worker=2),
}
