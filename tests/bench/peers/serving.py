"""assay beside `vllm bench serve` and guidellm 0.8.1: the same load on the same server, and what each says of it.

    python -m tests.bench.peers.serving [--rounds 3] [--requests 48] [--tools assay,guidellm] [--keep DIR]

One `vllm serve` of SmolLM2-135M-Instruct (bfloat16, eager, 512 MiB for keys and values, no prefix cache) on this
machine. The clients take turns (A B C, C B A, …), each as its own command. Prompts have 128 tokens, answers exactly 64.

* closed: 4 requests in flight.
* open: the times of one Poisson process, not rescaled, at 0.6 of the rate at which the server answers all requests
  at once. They are drawn once and all three replay the same file in every round: as a timed trace (vllm bench), as a
  replay (guidellm, `schedule_turn=timestamp`), as a trace (assay). Drawn by each tool itself, the rate of 48
  requests would lie 14 % beside the one asked for (one standard deviation), and vllm bench rescales its gaps.

The engine's threads have one half of the cores, the server's front and the client the other: on two cores one each.
guidellm gets one worker process, as its ten would be on the server's own cores. No tool warms up by itself: all
caches are filled by one small run of each.

The tables: each tool's mean over the rounds with their least, largest and standard deviation; assay's mean over the
peer's, and whether it lies between the peer's least and largest. Then each tool's means against those that the server's
own /metrics tell of the very same answers, which is what the tools should agree with: a client that takes the server's
cores makes the server slower, and that is in the first table, not in the second.

Exit code 1 where the server counted other requests than were to be asked, so that it was not the same load."""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flows.runtime import assay_home
from tasks.model.resolve import model_folder
from tests.bench.peers.serving_clients import ASSAY, GUIDELLM, VLLM_BENCH, Client, Clients
from tests.bench.peers.serving_environment import serving_environment
from tests.bench.peers.serving_figures import Said
from tests.bench.peers.serving_load import OUTPUT_TOKENS, PROMPT_TOKENS, Closed, Load, Open, arrivals, write_trace
from tests.bench.peers.serving_server import Served, Server, Watch, serve, served, split_cores
from tests.bench.peers.serving_table import against_server, agreement, explained, markdown
from tests.conftest import SMALL_MODEL
from tests.stores import SHARED_CACHE

CONCURRENCY = 4
SHARE = 0.6
_AT_ONCE = 32
PROMPTS_OFF = 0.01
"""Of the tokens of all prompts: where a tool sends text, the server may count a few more or fewer."""


@dataclass(kw_only=True)
class Rounds:
    """By tool, what it said of one load in each round, and what the server said of the same answers."""

    load: Load
    said: dict[str, list[Said]] = field(default_factory=dict)
    served: dict[str, list[Served]] = field(default_factory=dict)

    def ask(self, name: str, client: Client, *, server: Server, seed: int) -> None:
        """One round of one tool, and a line about it."""
        began, load = time.monotonic(), os.getloadavg()[0]
        with Watch(server) as watch:
            said = client(self.load, seed)
        counted = served(watch.before(said.began_at), server.counters())
        self.said.setdefault(name, []).append(said)
        self.served.setdefault(name, []).append(counted)
        ttft, tpot = (
            f"{said.values[f'{one}.mean']:.1f} ({counted.means_ms[f'{one}.mean']:.1f})"
            for one in ("ttft_ms", "tpot_ms")
        )
        print(
            f"  {self.load.name:<32}{name:<12}ttft {ttft:<16} tpot {tpot:<14} mean ms (the server's own)"
            f"  {said.values['output_tokens_per_s']:6.1f} tokens/s  {time.monotonic() - began:4.0f} s, load {load:.1f}",
            flush=True,
        )

    def show(self) -> bool:
        """Prints its tables. Gives whether every tool asked for what was to be asked."""
        values = {name: [one.values for one in said] for name, said in self.said.items()}
        own = {name: [one.means_ms for one in counted] for name, counted in self.served.items()}
        count = len(next(iter(values.values())))
        print(f"\n{self.load.name}: {self.load.requests} requests, {count} rounds\n")
        print(markdown(agreement(values, ours=ASSAY, is_open=isinstance(self.load, Open))))
        print()
        print(markdown(against_server(values, own)))
        print()
        wrong = [text for name in self.said for text in self._wrong(name)]
        for text in (*wrong, *self._told()):
            print(text)
        return not wrong

    def _wrong(self, name: str) -> Iterator[str]:
        """Where the server's own counts are not what this tool was to ask for: it was another load then."""
        asked = (self.load.requests, self.load.requests * PROMPT_TOKENS, self.load.requests * OUTPUT_TOKENS)
        for number, one in enumerate(self.served[name], 1):
            found = (one.answers, one.prompt_tokens, one.output_tokens)
            if found[::2] != asked[::2] or abs(found[1] / asked[1] - 1) > PROMPTS_OFF:
                yield f"{name}, round {number}: the server counted {_counts(found)}; to be asked were {_counts(asked)}"

    def _told(self) -> Iterator[str]:
        """What a tool counts otherwise than the server, and how late it sent."""
        for name, said in self.said.items():
            for number, (one, counted) in enumerate(zip(said, self.served[name], strict=True), 1):
                theirs = (one.answered, one.prompt_tokens, one.output_tokens)
                real = (counted.answers, counted.prompt_tokens, counted.output_tokens)
                if theirs != real:
                    yield f"{name}, round {number}: it tells of {_counts(theirs)}; the server counted {_counts(real)}"
            late = [one.late_ms for one in said if one.late_ms is not None]
            if late and isinstance(self.load, Open):
                what = "99 % of its requests" if name == ASSAY else "its latest request"
                yield f"{name}: {what} at most {max(late):.1f} ms after they were due"


def _counts(counts: tuple[int, int, int]) -> str:
    answers, prompts, outputs = counts
    return f"{answers} answers, {prompts:,} tokens of prompts and {outputs:,} of answers"


@contextlib.contextmanager
def _work(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="assay-serving-") as name:
        yield Path(name)


def _loads(folder: Path, clients: Mapping[str, Client], bench: Client, *, requests: int) -> list[Load]:
    """Fills the caches of all clients, finds out what the server can do at most, and draws the open load's times."""
    for name, client in clients.items():
        if name != VLLM_BENCH:
            client(Closed(requests=CONCURRENCY, concurrency=CONCURRENCY), 0)
    most = bench(Closed(requests=_AT_ONCE, concurrency=_AT_ONCE), 0).values["requests_per_s"]
    rate = SHARE * most
    times = arrivals(rate=rate, requests=requests)
    print(f"{most:.2f} requests/s with {_AT_ONCE} at once; the open load's come in {times[-1]:.1f} s", flush=True)
    trace = write_trace(folder / "trace.jsonl", times)
    return [Closed(requests=requests, concurrency=CONCURRENCY), Open(requests=requests, rate=rate, trace=trace)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="passes over the tools")
    parser.add_argument("--requests", type=int, default=48, help="of each load in each round")
    parser.add_argument("--tools", default=f"{ASSAY},{VLLM_BENCH},{GUIDELLM}", help="which, by commas")
    parser.add_argument("--keep", type=Path, help="a folder for files and outputs, kept")
    given = parser.parse_args()
    model = model_folder(SMALL_MODEL, cache=SHARED_CACHE)
    python = serving_environment(assay_home() / "cache" / "peers" / "guidellm-0.8.1")
    cores = split_cores(os.sched_getaffinity(0))
    with _work(given.keep) as folder, serve(model, python=python, cores=cores, log=folder / "server.log") as server:
        both = Clients(folder, server=server, model=model, python=python, cores=cores)
        clients = {name: client for name, client in both.by_name.items() if name in given.tools.split(",")}
        loads = _loads(folder, clients, both.vllm_bench, requests=given.requests)
        rounds = [Rounds(load=load) for load in loads]
        for number in range(given.rounds):
            for name in clients if number % 2 == 0 else reversed(clients):
                for one in rounds:
                    one.ask(name, clients[name], server=server, seed=number + 1)
    right = [one.show() for one in rounds]
    print(f"\n{explained()}")
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
