"""Options that several commands have."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, last, on stdout.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, as `assay runs` lists them, or `last`.")]
