"""What single options of the engine are worth on this machine, through the whole of assay. Not a test: it prints.

    python -m tests.bench.engine_options [compile] [ngram] [lora] [prefill] [--rounds 2]

Each case is a sweep that `assay sweep` runs in a home of its own: the planned engine as the control, and beside it
other values of one option, in turns (A B C, C B A). Figures are those of the runs' own tables; in brackets candidate /
control, the geometric mean of the rounds' ratios.

compile: torch.compile against eager, one round more: the first compiles, the last starts with what it compiled.
ngram: a dataset whose answers are copies of their prompts, in float32, where texts must be the same, and in bfloat16.
lora: an adapter that is loaded and not used (texts must be the same), and one that answers.
prefill: a few long prompts with short ones behind them, by policy, and with another budget.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.cells.answers import answers_changed
from tasks.cells.figures import figures_of
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.record.answers import last_attempts
from tests.conftest import SMALL_MODEL
from tests.e2e.adapters import write_adapter
from tests.e2e.command import ROOT, assay
from tests.stores import SHARED_CACHE, with_model

Runs = Mapping[str, Sequence[str]]
"""By the cell's label, its run of each round. The first one is the control."""
Settings = dict[str, Any]

EXACT = ("model.dtype=float32",)
LONG_TOKENS = 500
FIGURES = (
    ("generate_s", "generate s", 1),
    ("throughput.output_tokens_per_s", "tokens/s", 1),
    ("tpot_ms.p50", "tpot p50 ms", 1),
    ("short.p50", "short ttft p50 ms", 0),
    ("short.p99", "p99 ms", 0),
    ("long.p50", "long ttft p50 ms", 0),
    ("engine.spec.acceptance", "acceptance", 2),
    ("engine.tokens_per_step", "tokens/step", 1),
    ("peak_mib", "peak MiB", 0),
)
"""Figure, head of its column, decimals."""
COPY = """\
source: {kind: jsonl, path: copy.jsonl}
id_field: id
prompt: {text: "Original: {{ example }}\\nCopy: {{ example }}\\n\\nOriginal: {{ text }}\\nCopy:"}
target: "{{ text }}"
metrics: [contains]
stop: ["\\n"]
max_tokens: 120
"""


class Bench:
    """A home, and the folder around it that has the files."""

    def __init__(self, folder: Path, *, rounds: int) -> None:
        self.folder, self.home, self.rounds = folder, folder / "home", rounds
        with_model(self.home, model_folder(SMALL_MODEL, cache=SHARED_CACHE))

    def sweep(
        self,
        name: str,
        *,
        datasets: list[Settings],
        cells: Mapping[str, Settings],
        overrides: Sequence[str] = (),
        more_rounds: int = 0,
    ) -> Runs:
        """Runs the cells in turns; one that comes twice in a row keeps its engine. Exits where one did not finish."""
        experiment = {"name": name, "model": SMALL_MODEL.name, "datasets": datasets, "sampling": {"temperature": 0}}
        sweep = {
            "base": f"./{name}.yaml",
            "include": list(cells.values()),
            "order": "interleaved",
            "repeats": self.rounds + more_rounds,
        }
        self._write(f"{name}.yaml", experiment)
        self._write(f"{name}-sweep.yaml", sweep)
        given = [word for each in overrides for word in ("--set", each)]
        command = ("sweep", f"{name}-sweep.yaml", *given, "--json")
        done = assay(*command, home=self.home, cwd=self.folder, timeout_s=3600)
        if done.code != 0:
            sys.exit(f"assay {' '.join(command)} ended with {done.code}:\n{done.stderr[-4000:]}")
        found: dict[str, list[str]] = {label: [] for label in cells}
        for each in sorted(done.json["cells"], key=lambda each: int(each["repeat"])):
            found[list(cells)[each["cell"]["index"]]].append(each["run_id"])
        return found

    def _write(self, name: str, content: Settings) -> None:
        (self.folder / name).write_text(json.dumps(content), "utf-8")  # JSON is YAML

    def table(self, title: str, runs: Runs) -> None:
        """Prints a line for each cell."""
        control = next(iter(runs))
        lines = [{"cell": label, **self._line(own, runs[control])} for label, own in runs.items()]
        heads = list(dict.fromkeys(head for line in lines for head in line))
        table = [{head: head for head in heads}, *lines]
        widths = {head: max(len(line.get(head, "–")) for line in table) for head in heads}
        print(f"\n{title}")
        for line in table:
            print("  ".join(line.get(head, "–").ljust(widths[head]) for head in heads).rstrip(), flush=True)

    def _line(self, own: Sequence[str], control: Sequence[str]) -> dict[str, str]:
        """By head. own is control for the control itself."""
        figures, beside = ([self._figures(run_id) for run_id in runs] for runs in (own, control))
        line = {}
        for name, head, decimals in FIGURES:
            values = [each[name] for each in figures if name in each]
            if not values:
                continue
            line[head] = f"{statistics.fmean(values):,.{decimals}f}"
            pairs = [(one.get(name), two.get(name)) for one, two in zip(figures, beside, strict=True)]
            ratios = [one / two for one, two in pairs if one and two]
            if own is not control and len(ratios) == len(pairs):
                line[head] += f" ({statistics.geometric_mean(ratios):.2f}x)"
        starts = [each for each in figures if "start_s" in each]
        if starts:
            told = (f"{each['start_s']:.0f}{' cold' if each.get('start.cold') else ''}" for each in starts)
            line["start s"] = ", ".join(told)
        changed = None if own is control else answers_changed(self.home, control=control, candidate=own)
        if changed is not None:
            line["other texts"] = f"{changed.changed} of {changed.samples}"
            if changed.control_samples is not None:
                line["other texts"] += f" (control itself {changed.control_changed} of {changed.control_samples})"
        return line

    def _figures(self, run_id: str) -> dict[str, float]:
        found = {name: figure.value for name, figure in figures_of(self.home, run_id).items()}
        if "memory.peak_bytes" in found:
            found["peak_mib"] = found["memory.peak_bytes"] / 2**20
        first: dict[str, list[float]] = {"long": [], "short": []}
        for row in last_attempts(self.home, run_id, columns=["prompt_tokens", "ttft_ms"]):
            if row["ttft_ms"] is not None:
                first["long" if row["prompt_tokens"] >= LONG_TOKENS else "short"].append(row["ttft_ms"])
        if all(len(values) > 1 for values in first.values()):
            for kind, values in first.items():
                cuts = statistics.quantiles(values, n=100, method="inclusive")
                found |= {f"{kind}.p50": cuts[49], f"{kind}.p99": cuts[98]}
        return found


def compiled(bench: Bench) -> None:
    if shutil.which("g++") is None and read_device_facts().kind == "cpu":
        print("\ncompile: left out, since a CPU needs a C++ compiler for it and there is no g++")
        return
    cells = {"eager (planned)": {"engine.compile": "none"}, "compiled": {"engine.compile": "full"}}
    datasets: list[Settings] = [{"use": "arithmetic", "limit": 100, "max_tokens": 48}]
    runs = bench.sweep("compile", datasets=datasets, cells=cells, more_rounds=1)
    bench.table("compile: 100 requests of arithmetic, bfloat16", runs)


def ngram(bench: Bench) -> None:
    rows = [json.loads(line) for line in (ROOT / "configs/datasets/data/extract.jsonl").open(encoding="utf-8")]
    example, *others = (row["text"].replace("\n", " ") for row in rows[:17])
    lines = [json.dumps({"id": f"c{n}", "example": example, "text": text}) for n, text in enumerate(others)]
    (bench.folder / "copy.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (bench.folder / "copy.yaml").write_text(COPY, "utf-8")
    for dtype, at_once in (("float32", 1), ("float32", 8), ("bfloat16", 8)):
        cells: dict[str, Settings] = {
            "plain (planned)": {"engine": {"extends": "vllm", "max_num_seqs": at_once}},
            "ngram": {"engine": {"extends": "speculative-ngram", "max_num_seqs": at_once}},
        }
        name, overrides = f"ngram-{dtype}-{at_once}", [f"model.dtype={dtype}"]
        runs = bench.sweep(name, datasets=[{"use": "copy"}], cells=cells, overrides=overrides)
        bench.table(f"ngram: {len(lines)} copies of mails, {at_once} at once, {dtype}", runs)


def lora(bench: Bench) -> None:
    adapters = [{"name": "red", "path": str(write_adapter(bench.folder / "red", seed=1))}]
    data = {"use": "arithmetic", "limit": 24, "max_tokens": 32}
    cells: dict[str, Settings] = {
        "no adapter (planned)": {"engine.adapters": []},
        "loaded, not used": {"engine.adapters": adapters},
        "it answers": {"engine.adapters": adapters, "datasets": [{**data, "adapter": "red"}]},
    }
    runs = bench.sweep("lora", datasets=[data], cells=cells, overrides=EXACT)
    bench.table("lora: 24 requests of arithmetic, an adapter of rank 4 in three layers of each block, float32", runs)


def prefill(bench: Bench) -> None:
    long = {"use": "needle", "limit": 6, "max_tokens": 16}
    short = {"use": "arithmetic", "limit": 30, "max_tokens": 16}
    policies: dict[str, Settings] = {
        "off (vLLM's own)": {"engine.prefill": {"policy": "off"}},
        "rule (planned)": {"engine.prefill": {"policy": "rule"}},
        "fixed, 128": {"engine.prefill": {"policy": "fixed", "threshold": 128}},
        "auto": {"engine.prefill": {"policy": "auto"}},
        "off, budget 1,024": {"engine.prefill": {"policy": "off"}, "engine.max_num_batched_tokens": 1024},
    }
    runs = bench.sweep("prefill", datasets=[long, short], cells=policies)
    bench.table("prefill: 6 pages of 900 to 6,000 tokens, then 30 short prompts, bfloat16", runs)


CASES = {"compile": compiled, "ngram": ngram, "lora": lora, "prefill": prefill}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"{', '.join(CASES)}; without one all of them")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    if unknown := [case for case in given.cases if case not in CASES]:
        parser.error(f"there is no case {', '.join(unknown)} (known: {', '.join(CASES)})")
    device = read_device_facts()
    print(f"{device.name}, {len(device.cores)} cores, {given.rounds} rounds; in brackets: of the first line")
    for case in given.cases or CASES:
        with tempfile.TemporaryDirectory() as name:
            CASES[case](Bench(Path(name), rounds=given.rounds))


if __name__ == "__main__":
    main()
