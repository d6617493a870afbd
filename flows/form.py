"""The form that Prefect's pages show for an experiment: a few flat fields, and what they mean for its config.

A field's choices are read when the deployment is registered. They are part of the schema that the server holds values
against; a run from the command line, where a config may be any path, is not bound by them.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from schemas.engine import CudagraphMode
from schemas.errors import ConfigError
from tasks.config.locate import Kind, known_config_files

AS_CONFIGURED = "as configured"
"""What a field says that changes nothing of the experiment's file."""
ARMS = {
    "free": ["free"],
    "guided": ["guided"],
    "free and guided": ["free", "guided"],
    "free, guided and free_matched": ["free", "guided", "free_matched"],
    "free, guided and repair": ["free", "guided", "repair"],
}
PREFILL = ("rule", "auto", "off")
"""The policies that need no number; `fixed` does, and is set by overrides."""


class Shown:
    """Adds keys to a field's JSON Schema, and nothing to what is accepted in Python."""

    def __init__(self, extra: Callable[[], dict[str, Any]]) -> None:
        self._extra = extra

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **self._extra()}


def _one_of(*choices: str) -> Shown:
    return Shown(lambda: {"enum": [AS_CONFIGURED, *choices]})


def _names(*kinds: Kind, first: Sequence[str] = ()) -> Shown:
    return Shown(lambda: {"enum": [*first, *(file.stem for kind in kinds for file in known_config_files(kind))]})


Config = Annotated[str, _names("experiment")]
Sweeps = Annotated[str, _names("sweep")]
Corpora = Annotated[str, _names("corpus")]
Tunings = Annotated[str, _names("tuning")]
Model = Annotated[str, _names("model", first=[AS_CONFIGURED])]
Datasets = Annotated[list[Annotated[str, _names("dataset", "suite")]], Shown(lambda: {"uniqueItems": True})]
Arms = Annotated[str, _one_of(*ARMS)]
Limit = Annotated[int, Field(ge=0)]
Graphs = Annotated[str, _one_of(*get_args(CudagraphMode))]
Prefill = Annotated[str, _one_of(*PREFILL)]
Overrides = Annotated[
    list[
        Annotated[str, Shown(lambda: {"pattern": r"^[A-Za-z0-9_.\[\]-]+=.*$", "examples": ["engine.max_num_seqs=64"]})]
    ],
    Shown(dict),
]
MaxTime = Annotated[str, Shown(lambda: {"pattern": r"^(\s*[0-9]+(\.[0-9]+)?\s*[smh]?\s*)?$", "examples": ["15m"]})]
Resume = Annotated[str, Shown(lambda: {"pattern": "^(last|[0-9]{8}T[0-9]{6}-[0-9a-f]{6})?$"})]


def form_overrides(
    *, model: str, datasets: Sequence[str], arms: str, graphs: str, prefill: str, overrides: Sequence[str]
) -> list[str]:
    """The overrides that the form's fields stand for, then the user's own. Raises ConfigError that names the field."""
    if arms not in {AS_CONFIGURED, *ARMS}:
        raise ConfigError.one(f"there is no choice {arms!r}", key="arms", suggestion=", ".join([AS_CONFIGURED, *ARMS]))
    fields = {
        "model": model,
        "datasets": f"[{', '.join(datasets)}]" if datasets else AS_CONFIGURED,
        "arms": f"[{', '.join(ARMS[arms])}]" if arms in ARMS else AS_CONFIGURED,
        "engine.cudagraph": graphs,
        "engine.prefill.policy": prefill,
    }
    return [f"{key}={value}" for key, value in fields.items() if value != AS_CONFIGURED] + list(overrides)
