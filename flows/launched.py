"""What a worker starts for a flow run: Prefect's engine, in the folder that the worker was started in.

That folder's `configs/` are found, and its commit is recorded, as with `assay run`. A worker on its own would start the
flow in an empty temporary folder.
"""

import os
import runpy

from flows import garbage

COMMAND = "python -P -m flows.launched"
"""Of a worker's pool. `assay worker` sees to it that this `python` is its own."""
FOLDER = "ASSAY_WORKER_FOLDER"

if __name__ == "__main__":
    garbage.seldom()
    os.chdir(os.environ.get(FOLDER, "."))  # a worker that was not started by `assay worker` names none
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
