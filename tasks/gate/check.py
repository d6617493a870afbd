"""What a gate is held against, looked at before anything starts."""

from collections.abc import Callable
from pathlib import Path

from schemas.errors import ConfigError, Problem
from schemas.experiment import Experiment
from schemas.gate_points import chosen, gate_points
from tasks.config.locate import Place
from tasks.gate.baselines import check_pinned

Where = Callable[[int], Place]
"""Where a user finds `against` of a gate, by the gate's place from 0."""


def check_gates(home: Path, experiment: Experiment, *, where: Where | None = None) -> None:
    """Raises ConfigError for each gate whose pinned baseline or run is not there, did not finish, or does not have the
    metric. `last_green` may have no run yet: then the gate is skipped."""
    problems: list[Problem] = []
    points = gate_points(experiment.benchmark, arms=experiment.arms)
    for index, gate in enumerate(experiment.gates):
        at = Place(key=f"gates[{index}].against") if where is None else where(index)
        named = chosen(gate.metric, gate.arm, gate.cell, among=points) if gate.is_speed else []
        point_id = named[0].point_id if named else None
        for against in gate.baselines:
            try:
                wrong = check_pinned(home, against, metric=gate.metric, arm=gate.arm, cell_id=point_id)
            except ConfigError as error:
                problems += [
                    Problem(message=each.message, file=at.file, line=at.line, key=at.key, suggestion=each.suggestion)
                    for each in error.problems
                ]
                continue
            if wrong is not None:
                hint = "`assay promote RUN --as baseline:NAME` pins another run"
                problems.append(Problem(message=wrong, file=at.file, line=at.line, key=at.key, suggestion=hint))
    if problems:
        raise ConfigError(problems)
