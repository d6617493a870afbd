"""Makes the rows of the shipped datasets from their seeds.

python -m configs.datasets.make                 writes configs/datasets/data/*.jsonl and prints each one's revision
python -m configs.datasets.make --check         writes nothing and says whether the files equal what the seeds make
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from configs.datasets.recipes import arithmetic, choice, extract, needle

FOLDER = Path(__file__).parent / "data"
RECIPES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "arithmetic": arithmetic.rows,
    "extract": extract.rows,
    "choice": choice.rows,
    "needle": needle.rows,
}


def content(*, name: str) -> bytes:
    """The whole JSONL file of a shipped dataset: one row a line, UTF-8, line feeds."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in RECIPES[name]()).encode()


def write(*, folder: Path = FOLDER) -> dict[str, str]:
    """Writes every file into `folder`; gives each one's revision (`sha256:<hex>`), as its dataset's YAML names it."""
    folder.mkdir(parents=True, exist_ok=True)
    revisions = {}
    for name in RECIPES:
        data = content(name=name)
        (folder / f"{name}.jsonl").write_bytes(data)
        revisions[name] = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return revisions


def differing(*, folder: Path = FOLDER) -> list[str]:
    """Names of the datasets whose file in `folder` is missing or is not what the seed makes."""
    paths = {name: folder / f"{name}.jsonl" for name in RECIPES}
    return [name for name, path in paths.items() if not path.is_file() or path.read_bytes() != content(name=name)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code (1: `--check` found a difference)."""
    parser = argparse.ArgumentParser(prog="python -m configs.datasets.make", description="Make the shipped datasets.")
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the files equal the seed's")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER", help="where the files lie")
    given = parser.parse_args(arguments)
    if not given.check:
        for name, revision in write(folder=given.into).items():
            sys.stdout.write(f"{name}.jsonl {revision}\n")
        return 0
    wrong = differing(folder=given.into)
    for name in RECIPES:
        sys.stdout.write(f"{name}.jsonl {'differs from its seed' if name in wrong else 'ok'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
