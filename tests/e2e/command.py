"""The `assay` command as a user runs it, in a process of its own."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The last line of stdout."""
        found: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return found


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "ASSAY_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "160", **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flows.cli", *arguments]


def assay(*arguments: str, home: Path, cwd: Path = ROOT, timeout_s: float = 400, **more: str) -> Done:
    """Runs it to its end."""
    done = subprocess.run(
        command(*arguments),
        env=environment(home, **more),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def start(*arguments: str, home: Path, cwd: Path = ROOT, **more: str) -> subprocess.Popen[str]:
    """Starts it, in a process group of its own, deaf to no signal: tests run under nohup would hand that on."""
    return subprocess.Popen(
        command(*arguments),
        env=environment(home, **more),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one thread
    )


def rows(home: Path, sql: str) -> list[dict[str, Any]]:
    """What `assay sql --format json` answers, asked by its own code without a process for it: tests ask a lot."""
    from flows.commands.answers import write_answer
    from warehouse.query import query

    answer = io.StringIO()
    write_answer(query(home=home, sql=sql), format_="json", stream=answer)
    found: list[dict[str, Any]] = json.loads(answer.getvalue())["rows"]
    return found
