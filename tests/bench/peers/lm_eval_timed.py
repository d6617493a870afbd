"""lm-evaluation-harness's own command, with the times at which its model is asked first and has answered last.

    python lm_eval_timed.py TIMES ARGUMENTS…

TIMES gets the wall clock of every call of the model's vLLM: one line `asked answered`. Run by the Python that lm_eval
is installed for; nothing of assay is imported. Importing lm_eval at the top is what its own script does too."""

import sys
import time
from pathlib import Path
from typing import Any

from lm_eval.__main__ import cli_evaluate
from lm_eval.api import registry


def _timed(times: Path) -> None:
    get_model = registry.get_model

    def get(name: str) -> Any:
        model = get_model(name)
        ask = model._model_generate

        def asked(*args: Any, **kwargs: Any) -> Any:
            began = time.time()
            answers = ask(*args, **kwargs)
            with times.open("a") as lines:
                lines.write(f"{began!r} {time.time()!r}\n")
            return answers

        model._model_generate = asked
        return model

    registry.get_model = get


if __name__ == "__main__":
    _timed(Path(sys.argv.pop(1)))
    sys.exit(cli_evaluate())
