"""The gates of a run, as the flow drives them."""

from collections.abc import Sequence

from flows.console import RunConsole
from schemas.errors import GateFailed
from schemas.gate import GateVerdict, gate_exit_code
from schemas.run import RunResult
from tasks.gate.step import judge_gates
from tasks.gate.words import because, claim, summary
from tasks.session import Session


class GatesNotPassed(GateFailed):
    """A gate failed or cannot be judged. The run is finished, and everything is recorded; `result` says which."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(result.error)
        self.result = result


def judged_gates(session: Session, console: RunConsole, warnings: list[str]) -> list[GateVerdict]:
    """The verdicts of the experiment's gates; empty for an experiment without any. What is not decided is added to the
    warnings."""
    if not session.run.experiment.gates:
        return []
    with console.step("gates") as said:
        gates = judge_gates(session)
        said.append(summary(gates))
    warnings += [
        f"gate {gate.number} is undecided: {claim(gate)}: {because(gate)}"
        for gate in gates
        if gate.verdict == "undecided" and not gate.fails
    ]
    return gates


def not_passed(gates: Sequence[GateVerdict]) -> str | None:
    """What a finished run's `error` says of its gates; None where they let it pass."""
    return summary(gates) if gate_exit_code(gates) else None
