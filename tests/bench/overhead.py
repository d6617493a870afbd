"""What assay adds to vLLM: ratios against bare controls, measured in one run. Not a test: `make bench` prints it.

1. Generating: `tasks.generate` with validation, rows and durable parts, over bare `LLM.generate` with the same engine
   settings, 256 prompts of `arithmetic`, interleaved pairs in the same two living engines (A B B A A B). At most 1.05.
2. From nothing to the last answer: assay's engine start and generating over the same of bare vLLM on its own defaults.
   At most 0.3. The control alone takes minutes: it compiles.
3. The flow process's peak memory, the start of the command, the engine's start.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flows.runtime import assay_home
from schemas.engine import Sampling
from schemas.plan import PlannedLoad
from tasks.config.resolve import load_experiment
from tasks.dataset.stage import render_datasets
from tasks.engine.client import EngineClient
from tasks.engine.settings import build_options, engine_environment
from tasks.generate import generate
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.plan.engine import plan_engine
from tasks.requests import plan_requests
from tasks.responses import RowContext
from warehouse.parquet import write_rows

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = 256
PAIRS = 3

BARE = """
import json, sys, time
started = time.monotonic()
def main():
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt
    given = json.loads(open(sys.argv[1]).read())
    llm = LLM(model=given["model"], **given["settings"])
    prompts = [TokensPrompt(prompt_token_ids=ids) for ids in given["prompts"]]
    parameters = SamplingParams(temperature=0.0, max_tokens=given["max_tokens"])
    print(json.dumps({"ready_s": time.monotonic() - started}), flush=True)
    for line in sys.stdin:
        llm.reset_prefix_cache()
        began = time.monotonic()
        outputs = llm.generate(prompts, parameters, use_tqdm=False)
        taken = time.monotonic() - began
        tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
        print(json.dumps({"seconds": taken, "tokens": tokens}), flush=True)
if __name__ == "__main__":
    main()
"""


class Bare:
    """vLLM's own LLM class in a process of its own, told over stdin when to generate."""

    def __init__(self, given: dict[str, Any], folder: Path, *, cores: list[int] | None) -> None:
        script, source = folder / "bare.py", folder / "bare.json"
        script.write_text(BARE)
        source.write_text(json.dumps(given))
        environment = dict(os.environ) if cores is None else engine_environment(cores=cores)
        environment |= {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        if cores is not None:
            environment["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        self.started = time.monotonic()
        with (folder / "bare.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(source)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        self._read("ready_s")

    def generate(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._read("seconds")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _read(self, key: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{") and key in line:
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError("bare vLLM ended early; see bare.log")


def main() -> None:
    home = assay_home()
    cache = home / "cache"
    experiment = load_experiment("quickstart", overrides=["datasets=[arithmetic]", "arms=[free]"], limit=PROMPTS)
    folder = model_folder(experiment.model, cache=cache)
    model, device = read_model_facts(folder, cache=cache), read_device_facts()
    samples, _ = render_datasets(experiment, model=model, folder=folder)
    requests = plan_requests(dataset=experiment.datasets[0], samples=samples, arms=["free"], needs=["generate"])
    load = PlannedLoad(
        prompt_tokens=[len(r.prompt_token_ids) for r in requests], output_tokens=[r.max_tokens for r in requests]
    )
    plan = plan_engine(load=load, model=model, device=device, engine=experiment.engine, dtype="auto", earlier=None)
    options = build_options(plan)
    sampling = Sampling(temperature=0.0, max_tokens=requests[0].max_tokens)
    context = RowContext(
        engine_id="bench",
        sampling={"arithmetic": sampling},
        keys={r.request_id: r.request_id for r in requests},
        attempts={},
    )
    given = {
        "model": str(folder),
        "prompts": [r.prompt_token_ids for r in requests],
        "max_tokens": sampling.max_tokens,
    }
    same = {
        "dtype": options["dtype"],
        "enforce_eager": True,
        "max_model_len": options["max_model_len"],
        "max_num_seqs": options["max_num_seqs"],
        "max_num_batched_tokens": options["max_num_batched_tokens"],
        "long_prefill_token_threshold": options["long_prefill_token_threshold"],
        "block_size": options["block_size"],
        "kv_cache_memory_bytes": options["kv_cache_memory_bytes"],
    }
    print(f"{len(requests)} prompts of arithmetic, {len(samples)} samples, {device.name}, {len(device.cores)} cores")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        engine = EngineClient(log_path=work / "engine.log", cores=device.cores)
        engine.build(model=folder, options=options)
        ready_s = time.monotonic() - engine.started_at
        print(f"assay's engine is ready after {ready_s:.1f} s")

        parts = iter(range(10_000))

        def through_assay() -> dict[str, Any]:
            engine.reset_prefix_cache()
            began = time.monotonic()
            done = generate(
                engine=engine,
                requests=requests,
                context=context,
                window=2 * options["max_num_seqs"],
                write=lambda rows: (
                    write_rows(home=work, table="requests", run_id="bench", rows=rows, part=f"{next(parts):05d}"),
                    None,
                )[1],
            )
            assert done.statuses.total() == len(requests) and done.failed == 0
            return {"seconds": time.monotonic() - began, "tokens": done.output_tokens}

        bare = Bare(given | {"settings": same}, work, cores=device.cores)
        ours: list[float] = []
        theirs: list[float] = []
        through_assay()
        bare.generate()
        for pair in range(PAIRS):
            order = [(ours, through_assay), (theirs, bare.generate)]
            for seconds, run in order if pair % 2 == 0 else reversed(order):
                result = run()
                seconds.append(result["seconds"])
                name_ = "assay" if seconds is ours else "bare "
                print(f"  {name_} {result['seconds']:6.2f} s  {result['tokens']} tokens")
        bare.close()
        engine.close()
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        print(f"generating, assay / bare LLM.generate with the same settings: {ratio:.3f} (wanted: at most 1.05)")

        defaults = Bare(given | {"settings": {}}, work, cores=None)
        defaults.generate()
        control_s = time.monotonic() - defaults.started
        defaults.close()
        whole = (ready_s + statistics.median(ours)) / control_s
        print(
            f"start and generating, assay {ready_s + statistics.median(ours):.1f} s / bare vLLM on its defaults "
            f"{control_s:.1f} s: {whole:.3f} (wanted: at most 0.3)"
        )
    help_s = min(_help_s() for _ in range(5))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"assay --help: {help_s:.2f} s (wanted: at most 0.5)")
    print(f"peak memory of this process, which did a flow's work but for Prefect and MLflow: {peak / 1e6:.0f} MB")
    if ratio > 1.05 or whole > 0.3 or help_s > 0.5:
        sys.exit("a ratio is out of its bound")


def _help_s() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "flows.cli", "--help"], cwd=ROOT, capture_output=True, check=True)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
