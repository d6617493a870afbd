"""The engine that a tuning found, as a file that `assay run X --set engine=FILE` takes."""

from pathlib import Path
from typing import Any

from schemas.engine import VllmEngine
from schemas.errors import RunError
from schemas.tune import Tuned
from tasks.config.document import yaml_text
from tasks.config.layers import Layer, Layers
from tasks.config.resolve import load_engine

_EXTENDED = "vllm"


def engine_yaml(found: Tuned, *, engine: VllmEngine, experiment: str) -> str:
    """The text of the file. engine: the experiment's engine with the winner's settings in it, or as it is where the
    plan is to be kept; experiment: the name of what was tuned. Only what differs from the engine `vllm` is written
    out."""
    plain = load_engine(_EXTENDED, Layers([Layer({}, None)]))
    if plain is None:
        raise RunError(f"the engine `{_EXTENDED}` cannot be read")
    changed = _changes(_dumped(engine), _dumped(plain))
    return (
        "\n".join(["# " + line for line in _comments(found, experiment)])
        + "\n"
        + yaml_text({"extends": _EXTENDED, **changed})
    )


def write_engine_yaml(path: Path, text: str) -> None:
    """Writes it in one go."""
    temporary = path.with_suffix(".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


def _comments(found: Tuned, experiment: str) -> list[str]:
    lines = [
        f"Tuned for {experiment}: study {found.run_id}, {len(found.trials)} trials, {found.objective}.",
        found.answer,
    ]
    winner = next((trial for trial in found.trials if trial.number == found.winner), None)
    if winner is not None and winner.value is not None:
        plan = next((trial for trial in found.trials if trial.reference == "plan"), None)
        beside = "" if plan is None or plan.value is None else f"; the plan {plan.value:.4g}"
        lines.append(f"In the search: trial {winner.number} {winner.value:.4g}{beside}.")
    if found.confirmation is not None:
        for each in found.confirmation.against:
            if each.ratio is not None:
                interval = "" if each.lo is None or each.hi is None else f" [{each.lo:.3f}, {each.hi:.3f}]"
                other = {"plan": "the plan", "vllm": "vLLM's own defaults"}[each.name]
                lines.append(
                    f"Confirmed against {other}: {each.ratio:.3f}{interval} times as good, over {each.rounds} rounds."
                )
    return [" ".join(line.split()) for line in lines]


def _dumped(engine: VllmEngine) -> dict[str, Any]:
    return engine.model_dump(mode="json", by_alias=True)


def _changes(value: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """The keys whose values differ, blocks by their keys."""
    changes = {}
    for key, each in value.items():
        other = plain.get(key)
        if isinstance(each, dict) and isinstance(other, dict):
            if inner := _changes(each, other):
                changes[key] = inner
        elif each != other:
            changes[key] = each
    return changes
