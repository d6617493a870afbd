"""assay beside lm-evaluation-harness 0.4.13: the same numbers, and what a whole run of each takes.

    python -m tests.bench.peers.lm_eval [--pairs 3] [--samples 60] [--gsm8k DIR] [--keep DIR]

Both run 60 samples of GSM8K (5 shots, greedy) and the log-likelihoods of 60 samples of `choice` with four options each,
on the same model folder, the same vLLM, in float32, on all cores.

What is measured is whole commands, from before the process is there until after it is gone. Start-up is until the
engine is given the first request, teardown is from its last answer on. assay's times are those of its own rows
(`sent_at`, `e2e_ms`); lm-evaluation-harness is run by lm_eval_timed.py, which is its command and notes when its model
is asked. Not measured for either: the conversion of the model, the making of the other's environment, and one small
run of each before (it fills the caches of both: compiled Python, datasets, MLflow's and Prefect's databases).

The controls get what makes them quick and what they do not do by themselves: `--batch_size auto` (one at a time is
their default), `enforce_eager` (vLLM would compile for more than a minute), as much memory for keys and values as assay
plans, and a thread on each core (vLLM leaves one idle). `as shipped` has vLLM's core in a process of its own, as vLLM
and lm-evaluation-harness have it; `in-process` has it in lm-evaluation-harness's own.

Bounds: start-up and teardown at most 0.5 of it as shipped; whole at most 0.8 of it as shipped and 1.0 of in-process.
Medians of ratios over interleaved passes (A B C, C B A, …). Exit code 1 where a bound or an equality is missed."""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.runtime import assay_home
from tasks.engine.settings import engine_environment
from tasks.model.resolve import model_folder
from tests.bench.peers.agree import Answers, assay_answers, lm_eval_answers, show
from tests.bench.peers.environment import peer_environment
from tests.bench.peers.inputs import Inputs, write_for_assay, write_for_lm_eval
from tests.conftest import SMALL_MODEL
from tests.e2e.command import ROOT, command, environment, rows
from tests.stores import SHARED_CACHE, with_model

REQUIREMENT = "lm_eval[vllm]==0.4.13"
START_STOP, WHOLE_SHIPPED, WHOLE_INPROCESS = 0.5, 0.8, 1.0
ASSAY, SHIPPED, INPROCESS = "assay run", "lm_eval, as shipped", "lm_eval, in-process"
_KV_LEAST = 512 << 20
"""Bytes; vLLM refuses to start with less than one prompt of the model's full length takes."""
TIMED = Path(__file__).with_name("lm_eval_timed.py")


@dataclass(frozen=True, kw_only=True)
class Took:
    """One whole command, in seconds."""

    start: float
    requests: float
    stop: float
    answers: Answers

    @property
    def whole(self) -> float:
        return self.start + self.requests + self.stop


class Sides:
    """The three ways to run the same tasks. folder: where their files and outputs go."""

    def __init__(self, folder: Path, inputs: Inputs, *, python: Path) -> None:
        self._folder, self._inputs, self._python = folder, inputs, python
        self._home = folder / "home"
        if not self._home.exists():
            with_model(self._home, inputs.model)
        self._experiment = write_for_assay(folder / "assay", inputs)
        write_for_lm_eval(folder / "lm_eval", inputs)
        self._kv_bytes = _KV_LEAST
        self._runs = 0

    def assay(self, *, limit: int | None = None) -> Took:
        more = [] if limit is None else ["--limit", str(limit)]
        out = self._fresh("assay")
        began, ended = _run([*command("run", str(self._experiment), "--json"), *more], environment(self._home), out)
        run_id = json.loads((out / "stdout").read_text().splitlines()[-1])["run_id"]
        asked = "SELECT epoch(min(sent_at)) AS first, max(epoch(sent_at) + e2e_ms / 1000) AS last FROM requests"
        [row] = rows(self._home, f"{asked} WHERE run_id = '{run_id}'")
        [engine] = rows(self._home, f"SELECT kv_bytes FROM engines WHERE run_id = '{run_id}'")
        self._kv_bytes = max(_KV_LEAST, engine["kv_bytes"])
        return _took(began, row["first"], row["last"], ended, assay_answers(self._home, run_id))

    def lm_eval(self, *, inprocess: bool, limit: int | None = None) -> Took:
        out = self._fresh("lm_eval")
        times = out / "times"
        model = f"pretrained={self._inputs.model},dtype=float32,enforce_eager=True"
        model += f",kv_cache_memory_bytes={self._kv_bytes}"
        arguments = ["run", "--model", "vllm", "--model_args", model, "--batch_size", "auto"]
        arguments += ["--tasks", ",".join(self._inputs.tasks), "--include_path", str(self._folder / "lm_eval")]
        arguments += ["--limit", str(limit or self._inputs.samples), "--log_samples", "--output_path", str(out)]
        base = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        chosen = engine_environment(cores=os.sched_getaffinity(0), base=base)
        chosen |= {"HF_HOME": str(self._folder / "hf"), "HF_DATASETS_OFFLINE": "1"}
        chosen["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0" if inprocess else "1"
        began, ended = _run([str(self._python), "-P", str(TIMED), str(times), *arguments], chosen, out)
        marks = [float(mark) for mark in times.read_text().split()]
        return _took(began, marks[0], marks[-1], ended, lm_eval_answers(out))

    def _fresh(self, name: str) -> Path:
        self._runs += 1
        folder = self._folder / "out" / f"{self._runs:02d}-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def _run(arguments: list[str], chosen: dict[str, str], out: Path) -> tuple[float, float]:
    """Wall clock before and after. Raises SystemExit with the end of stderr where it fails."""
    with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
        began = time.time()
        code = subprocess.run(arguments, env=chosen, cwd=ROOT, stdout=stdout, stderr=stderr, check=False).returncode
        ended = time.time()
    if code:
        tail = (out / "stderr").read_text(errors="replace").splitlines()[-15:]
        raise SystemExit("\n".join([f"{' '.join(arguments)} ended with {code}:", *tail]))
    return began, ended


def _took(began: float, first: float, last: float, ended: float, answers: Answers) -> Took:
    return Took(start=first - began, requests=last - first, stop=ended - last, answers=answers)


def _gsm8k(named: Path | None) -> Path | None:
    """The folder with GSM8K: the one that is named, else the one that may lie beside the checkout."""
    folder = named or ROOT.parent / "shared" / "data" / "gsm8k"
    if all((folder / name).is_file() for name in ("train.jsonl", "test.jsonl")):
        return folder.absolute()
    if named is not None:
        raise SystemExit(f"{named} has no train.jsonl and test.jsonl of GSM8K")
    print("GSM8K is left out: name its folder, with train.jsonl and test.jsonl, by --gsm8k")
    return None


@contextlib.contextmanager
def _work(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="assay-peers-") as name:
        yield Path(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3, help="passes over the three")
    parser.add_argument("--samples", type=int, default=60, help="of each task")
    parser.add_argument("--gsm8k", type=Path, help="the folder with train.jsonl and test.jsonl")
    parser.add_argument("--keep", type=Path, help="a folder for files and outputs, kept and used again")
    given = parser.parse_args()
    model = model_folder(SMALL_MODEL, cache=SHARED_CACHE)
    inputs = Inputs(model=model, gsm8k=_gsm8k(given.gsm8k), samples=given.samples)
    python = peer_environment(assay_home() / "cache" / "peers" / "lm_eval-0.4.13", requirement=REQUIREMENT)
    with _work(given.keep) as folder:
        sides = Sides(folder, inputs, python=python)
        print(f"{', '.join(inputs.tasks)}: {given.samples} samples each; load {os.getloadavg()[0]:.1f}", flush=True)
        sides.assay(limit=2)
        sides.lm_eval(inprocess=True, limit=2)
        took: dict[str, list[Took]] = {ASSAY: [], SHIPPED: [], INPROCESS: []}
        for number in range(given.pairs):
            for name in took if number % 2 == 0 else reversed(took):
                one = sides.assay() if name == ASSAY else sides.lm_eval(inprocess=name == INPROCESS)
                took[name].append(one)
                print(_line(name, one), flush=True)
    differing = sum(show(took[ASSAY][0].answers, took[name][0].answers, whose=name) for name in (SHIPPED, INPROCESS))
    missed = _bounds(took)
    if differing:
        print(f"{differing} differences")
    sys.exit(1 if missed or differing else 0)


def _line(name: str, one: Took) -> str:
    return (
        f"  {name:<22}start {one.start:6.1f} s  requests {one.requests:6.1f} s  teardown {one.stop:5.1f} s"
        f"  whole {one.whole:6.1f} s"
    )


def _bounds(took: dict[str, list[Took]]) -> bool:
    """Prints every ratio beside its bound. Gives whether one is missed."""

    def ratio(control: str, seconds: Any) -> float:
        pairs = zip(took[ASSAY], took[control], strict=True)
        return statistics.median(seconds(ours) / seconds(theirs) for ours, theirs in pairs)

    figures = [
        ("start-up and teardown, of it as shipped", ratio(SHIPPED, lambda one: one.start + one.stop), START_STOP),
        ("whole, of it as shipped", ratio(SHIPPED, lambda one: one.whole), WHOLE_SHIPPED),
        ("whole, of it in-process", ratio(INPROCESS, lambda one: one.whole), WHOLE_INPROCESS),
    ]
    for text, value, bound in figures:
        print(f"{text:<42}{value:6.3f}  (at most {bound:g})  {'pass' if value <= bound else 'MISSED'}")
    return any(value > bound for _, value, bound in figures)


if __name__ == "__main__":
    main()
