"""The JSON Schema of a pydantic class, by import path. The user's module is imported in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT_S = 60.0
_MARK = "assay-schema:"
_SCRIPT = """
import importlib, json, sys
folder, module, name = sys.argv[1:]
sys.path.insert(0, folder)
found = importlib.import_module(module)
for part in name.split("."):
    found = getattr(found, part)
make = getattr(found, "model_json_schema", None)
if make is None:
    raise SystemExit(f"{module}:{name} is no pydantic class: it has no model_json_schema")
print("\\nassay-schema:" + json.dumps(make()))
"""


class NoClass(ValueError):
    """The path names no pydantic class; the message says why."""


def schema_of_class(path: str, *, folder: Path) -> dict[str, Any]:
    """The schema of `module:Class`. folder: where the module is looked for first. Raises NoClass."""
    module, _, name = path.partition(":")
    command = [sys.executable, "-c", _SCRIPT, str(folder), module, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder)
    except subprocess.TimeoutExpired as error:
        raise NoClass(f"importing {module} took more than {TIMEOUT_S:g} s") from error
    line = next((each for each in reversed(done.stdout.splitlines()) if each.startswith(_MARK)), None)
    if done.returncode != 0 or line is None:
        words = (done.stderr.strip().splitlines() or [f"the process ended with status {done.returncode}"])[-1]
        raise NoClass(words)
    schema: dict[str, Any] = json.loads(line.removeprefix(_MARK))
    return schema
