"""An experiment as text: the resolved YAML, its hash, and the JSON Schema that editors use."""

import hashlib
import io
import json
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import LiteralScalarString

from schemas.endpoint import EndpointEngine
from schemas.engine import VllmEngine
from schemas.experiment import Experiment, ExperimentFile

_NEVER_FOLDED = 1 << 30
"""ruamel.yaml breaks long lines in places where reading them gives another text: beside a backslash, between blanks."""


class _Representer(RoundTripRepresenter):
    """Writes None as the word `null`: an empty place reads like something forgotten."""

    def represent_none(self, data: None) -> Any:
        """The node of a None."""
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _Representer.represent_none)


def plain(experiment: Experiment) -> dict[str, Any]:
    """The resolved experiment as plain data, with the keys as a user writes them."""
    return experiment.model_dump(mode="json", by_alias=True)


def to_yaml(experiment: Experiment) -> str:
    """The resolved experiment as YAML 1.2: every name replaced by what it stands for, every default written out."""
    return yaml_text(plain(experiment))


def yaml_text(value: dict[str, Any]) -> str:
    """Plain data as YAML 1.2 for people: a key a line, texts of several lines as blocks, no value as the word null."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = _NEVER_FOLDED
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_readable(value), out)
    return out.getvalue()


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, str) and "\n" in value and _fits_a_literal_block(value):
        return LiteralScalarString(value)
    return value


def _fits_a_literal_block(text: str) -> bool:
    """Whether a `|` block gives the text back unchanged: only printable characters, no odd space at the edges."""
    lines = text.split("\n")
    return all(line.isprintable() and line == line.rstrip() for line in lines) and not text.startswith((" ", "\n"))


def config_hash(experiment: Experiment) -> str:
    """sha256, in hex, of the resolved experiment's canonical JSON (sorted keys, no white space, ASCII)."""
    text = json.dumps(plain(experiment), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def experiment_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an experiment file, with every key of the engine, for editors."""
    schema = ExperimentFile.model_json_schema(by_alias=True)
    engine = VllmEngine.model_json_schema(by_alias=True)
    definitions = {**schema.get("$defs", {}), **engine.pop("$defs", {})}
    engine["title"] = "Engine"
    engine["properties"] = {
        "extends": {
            "type": "string",
            "description": "The engine that this block starts from: a name in configs/engines, or a path.",
        },
        **engine["properties"],
    }
    cudagraph = engine["properties"]["cudagraph"]
    mode = definitions["Cudagraph"]["properties"]["mode"]
    engine["properties"]["cudagraph"] = {
        "anyOf": [{"enum": mode["enum"], "type": "string"}, {"$ref": cudagraph.pop("$ref")}],
        **cudagraph,
    }
    definitions["Engine"] = engine
    endpoint = EndpointEngine.model_json_schema(by_alias=True)
    definitions |= endpoint.pop("$defs", {})
    definitions["Endpoint"] = endpoint
    written = schema["properties"]["engine"]
    schema["properties"]["engine"] = {
        "anyOf": [{"type": "string"}, {"$ref": "#/$defs/Engine"}, {"$ref": "#/$defs/Endpoint"}],
        "default": written["default"],
        "description": written["description"],
    }
    schema["$defs"] = definitions
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
