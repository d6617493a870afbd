"""A converted task as a dataset's YAML, with what it lacks as a comment above it, and a look whether it loads."""

import tempfile
from pathlib import Path

from pydantic import ValidationError

from schemas.dataset import Dataset
from schemas.errors import ConfigError
from tasks.config.document import yaml_text
from tasks.config.yaml_file import printable
from tasks.lm_eval_task.convert import Converted
from tasks.lm_eval_task.read import NotTaken
from tasks.predictions.dataset import load_dataset


def dataset_yaml(made: Converted) -> str:
    """The file's text."""
    lines = [f"The task {made.name} of lm-evaluation-harness, made of {made.file.name}."]
    if made.not_taken:
        lines += ["What it does not have of it:", *(f"  {note}" for note in made.not_taken)]
    comment = "".join(f"# {printable(line)}\n" for line in lines)
    return f"{comment}{yaml_text(made.config)}"


def check(made: Converted) -> list[NotTaken]:
    """Reads what would be written as `assay datasets show` does; gives what is wrong with it here (no sandbox
    for programs, say). Raises ConfigError where it is no dataset at all."""
    try:
        Dataset.model_validate(made.config)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ConfigError.one(f"no valid dataset comes of it: {faults}", file=made.file) from error
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.yaml"
        file.write_text(dataset_yaml(made), encoding="utf-8")
        try:
            load_dataset(str(file))
        except ConfigError as error:
            return [NotTaken(key=each.key or "", why=f"as it is here: {each.message}") for each in error.problems]
    return []
