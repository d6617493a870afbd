"""Python's search for garbage, kept out of the way of processes that live for seconds or minutes.

By default it begins after every 700 new objects, which is a third of the time that importing Prefect takes; and once
more while the interpreter ends, which takes a second after a run and frees what the system frees anyway.
"""

import gc


def seldom() -> None:
    """Searches after every 100,000 new objects instead."""
    gc.set_threshold(100_000, 50, 100)


def not_at_the_end() -> None:
    """Leaves all that is there now to the system."""
    gc.freeze()
    gc.disable()
