"""guidellm beside assay's own packages, and vLLM's command, which asks for a distribution named `vllm`."""

import subprocess
import sys
from pathlib import Path

from tests.bench.peers.environment import peer_environment

GUIDELLM = "guidellm==0.8.1"
_ITS_OWN = {"click"}
"""Packages of which guidellm needs another version than ours; it gets its own, and ours stay as they are."""


def serving_environment(folder: Path) -> Path:
    """The Python of an environment with guidellm, which sees the vLLM and torch of the one that runs this: pip adds
    what guidellm lacks and is held to all other versions, so that it brings no torch of its own.

    Raises CalledProcessError where pip fails, with its output printed."""
    python = peer_environment(folder, requirement="pip")
    mark = folder / "assay-guidellm"
    if mark.is_file() and mark.read_text() == GUIDELLM:
        return python
    lines = (folder / "held.txt").read_text().splitlines(keepends=True)
    held = folder / "held-for-guidellm.txt"
    held.write_text("".join(line for line in lines if line.partition("==")[0] not in _ITS_OWN))
    command = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(held), GUIDELLM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        done.check_returncode()
    mark.write_text(GUIDELLM)
    return python
