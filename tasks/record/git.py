"""Which commit of the user's own code a run came from."""

import subprocess
from pathlib import Path


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, dirty) of the repository that `folder` lies in; (None, None) where there is none, or no git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit, None if status is None else bool(status)


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
