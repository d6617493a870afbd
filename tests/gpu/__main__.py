"""What assay says of GPUs, measured on this machine's card.

    python -m tests.gpu [--cases graphs,speculation,parallel,flow,load,mixed2,grid,best,memory,guided] [--out DIR]
        [--passes 4] [--minutes M] [--builds N] [--earlier FILE] [--gguf FILE] [--shard 0/4]

Each row is kept in DIR/results.jsonl as it is measured; a run that was cut short goes on where it stopped. Controls
and candidates stand on the card at the same time and are asked in turn. What fails is told, kept in DIR/failed.txt, and
does not keep the rest from running. On a host with several cards, one process for each (CUDA_VISIBLE_DEVICES, a DIR of
its own, `--shard 0/4` to `3/4`) share a case's engines. `python -m tests.gpu.tables DIR` writes the tables of
docs/benchmarks.md."""

import argparse
import functools
import sys
import time
from pathlib import Path

from tasks.plan.device import read_device_facts
from tests.gpu import cases
from tests.gpu.bench import Bench
from tests.gpu.models import ROOT, models
from tests.gpu.record import Record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(cases.CASES), help="which, in this order")
    parser.add_argument("--out", type=Path, default=Path(".cache/gpu"))
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--minutes", type=float, help="start no engine after so many, to end before a time limit")
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="results of other visits, which count too")
    parser.add_argument("--home", type=Path, help="ASSAY_HOME of the case `flow`; without it DIR/flow/home")
    parser.add_argument("--builds", type=int, help="engines of the grid to build at most in this visit")
    parser.add_argument("--shard", default="0/1", help="I/N: only every Nth engine of a case, from the Ith on")
    parser.add_argument("--gguf", type=Path, help="SmolLM2's GGUF file, where its package is not installed")
    parser.add_argument("--cache", type=Path, default=ROOT / "warehouse" / "data" / "cache")
    parser.add_argument("--small", action="store_true", help="the small model for both: tries the script, no figures")
    given = parser.parse_args()
    wanted = given.cases.split(",")
    part, _, parts = given.shard.partition("/")
    if not (part.isdigit() and parts.isdigit() and int(part) < int(parts)):
        sys.exit(f"--shard {given.shard}: as 0/4, 1/4, 2/4 and 3/4")
    if unknown := sorted(set(wanted) - set(cases.CASES)):
        sys.exit(f"no case {', '.join(unknown)}; there are {', '.join(cases.CASES)}")
    device = read_device_facts()
    if device.kind != "cuda" and not given.small:
        sys.exit("no GPU here that vLLM can use; `--small` tries the script on a CPU")
    print(f"{device.name}, {device.memory_bytes / 2**30:.1f} GiB, {device.count} of them, driver {device.driver}")
    began = time.monotonic()
    bench = Bench(
        models=models(gguf=given.gguf, cache=given.cache),
        record=Record(given.out / "results.jsonl", card=device.name, earlier=given.earlier),
        out=given.out,
        home=given.home or given.out / "flow" / "home",
        passes=given.passes,
        small_only=given.small,
        shard=(int(part), int(parts)),
        until=None if given.minutes is None else began + given.minutes * 60,
    )
    for name in wanted:
        run = cases.CASES[name]
        if name == "grid":
            run = functools.partial(cases.grid, builds=given.builds)
        print(f"\n== {name}", flush=True)
        with bench.attempt(name):
            run(bench)
        print(f"== {name}: {time.monotonic() - began:.0f} s since the start", flush=True)
    if bench.left:
        print(f"\nleft for another visit: {'; '.join(bench.left)}")
    if bench.failed:
        sys.exit("\nfailed: " + "; ".join(bench.failed))


if __name__ == "__main__":
    main()
