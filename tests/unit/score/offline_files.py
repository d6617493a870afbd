"""Small datasets and files of answers for the tests of scoring without an engine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.stores import mlflow_store

ROOT = Path(__file__).resolve().parents[3]

CITIES = (("riga", "Latvia"), ("oslo", "Norway"), ("bern", "Switzerland"), ("zürich", "Switzerland"))


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """JSON Lines, ASCII only, so that a lone surrogate stays an escape."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def cities(folder: Path, *, extra: str = "id_field: id\n", metrics: str = "[exact_match]") -> Path:
    """A dataset of four rows."""
    write_lines(folder / "cities.jsonl", ({"id": city, "city": city, "land": land} for city, land in CITIES))
    path = folder / "cities.yaml"
    path.write_text(
        "source: {kind: jsonl, path: cities.jsonl}\n"
        'prompt: {messages: [{role: user, content: "In which country lies {{ city }}?"}]}\n'
        f'target: "{{{{ land }}}}"\nmetrics: {metrics}\n{extra}',
        encoding="utf-8",
    )
    return path


def assay(*arguments: str, home: Path, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own. path: more folders with packages."""
    if not (home / "mlflow.db").exists():
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(mlflow_store(), home / "mlflow.db")
    environment = os.environ | {
        "ASSAY_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(str(each) for each in (ROOT, *path)),
        "COLUMNS": "200",
    }
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def last_object(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What `--json` printed; its stderr if it did not get that far."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
