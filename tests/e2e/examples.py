"""What the checks say of each example in tests/configs/invalid whose data or model is at fault: one JSON object, and
what was imported to say it. Run by `python -m tests.e2e.examples`, so that no other test's imports count.
"""

import json
import os
import sys
from pathlib import Path

from flows.commands.checks import checked_experiment
from schemas.errors import ConfigError

INVALID = Path(__file__).resolve().parents[1] / "configs" / "invalid"
HEAVY = ("vllm", "torch", "transformers", "prefect", "mlflow", "pandas")


def main() -> None:
    """Prints {"said": {example: message}, "imported": [...]}."""
    said: dict[str, str | None] = {}
    for experiment in sorted(INVALID.glob("*/experiment.yaml")):
        os.chdir(experiment.parent)
        try:
            checked_experiment("experiment.yaml")
            said[experiment.parent.name] = None
        except ConfigError as error:
            said[experiment.parent.name] = f"{error}\n"
    print(json.dumps({"said": said, "imported": [name for name in HEAVY if name in sys.modules]}))


if __name__ == "__main__":
    main()
