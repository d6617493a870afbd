"""Before the engine gets a grammar: each is compiled in a process that may die, and JSON schemas are linted.

`Preflight` does it beside the run's other steps; `quarantined` keeps from the engine what would hang or kill it.
"""

from tasks.preflight.beside import Preflight
from tasks.preflight.quarantine import quarantined

__all__ = ["Preflight", "quarantined"]
