"""Where a run's rows go: durable parts of the warehouse, numbered within the session."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.run import RunContext
from warehouse.parquet import write_rows


class Store:
    """Writes one run's rows. Every session of a run (a resumed one is another) has a revision and names of its own."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._numbers = itertools.count()

    def write(self, table: str, rows: Sequence[Mapping[str, Any]], *, later: int = 0) -> None:
        """Writes rows as one part; they are on disk when this returns. later: added to the revision, for rows that
        replace what this same session wrote before. Raises what warehouse.parquet.write_rows raises."""
        if not rows:
            return
        write_rows(
            home=self._run.home,
            table=table,
            run_id=self._run.run_id,
            rows=rows,
            part=f"{self._run.revision:04d}-{next(self._numbers):05d}",
            revision=self._run.revision + later,
        )
