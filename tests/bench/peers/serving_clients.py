"""The three clients, each run as its own command against the same server."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.bench.peers.serving_figures import Said, assay, guidellm, vllm_bench
from tests.bench.peers.serving_load import OUTPUT_TOKENS, PROMPT_TOKENS, Closed, Load
from tests.bench.peers.serving_server import MODEL_NAME, Cores, Server
from tests.e2e.command import ROOT, command, environment, rows
from tests.stores import with_model

ASSAY, VLLM_BENCH, GUIDELLM = "assay", "vllm bench", "guidellm"
Client = Callable[[Load, int], Said]
"""Puts a load on the server, with prompts drawn by a seed, and gives what it said."""


class Clients:
    """folder: for inputs and outputs. python: of the environment that has guidellm and vLLM's command."""

    def __init__(self, folder: Path, *, server: Server, model: Path, python: Path, cores: Cores) -> None:
        self._folder, self._server, self._model, self._python, self._cores = folder, server, model, python, cores
        self._home = folder / "home"
        if not self._home.exists():
            with_model(self._home, model)
        base = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        offline = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}
        # It takes ten processes where it may; on a few cores these would take the server's.
        self._environment = base | offline | quiet | {"GUIDELLM__MAX_WORKER_PROCESSES": "1"}
        self._runs = 0

    @property
    def by_name(self) -> dict[str, Client]:
        return {ASSAY: self.assay, VLLM_BENCH: self.vllm_bench, GUIDELLM: self.guidellm}

    def vllm_bench(self, load: Load, seed: int) -> Said:
        """`vllm bench serve`; an open load is a timed trace."""
        out = self._fresh("vllm-bench")
        arguments = [str(self._python), "-P", "-m", "vllm.entrypoints.cli.main", "bench", "serve"]
        arguments += ["--backend", "openai", "--base-url", self._server.url, "--model", MODEL_NAME]
        arguments += ["--tokenizer", str(self._model), "--temperature", "0", "--seed", str(seed)]
        arguments += ["--num-prompts", str(load.requests), "--percentile-metrics", "ttft,tpot,itl,e2el"]
        arguments += ["--disable-tqdm", "--save-result", "--result-dir", str(out), "--result-filename", "result.json"]
        if isinstance(load, Closed):
            arguments += ["--dataset-name", "random", "--max-concurrency", str(load.concurrency)]
            arguments += ["--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(OUTPUT_TOKENS)]
        else:
            arguments += ["--dataset-name", "timed_trace", "--dataset-path", str(load.trace)]
            arguments += ["--timed-trace-sec-multiplier", "0.001", "--timed-trace-chunk-hash-size", "512"]
        self._run(arguments, self._environment, out)
        return vllm_bench(_json(out / "result.json"))

    def guidellm(self, load: Load, seed: int) -> Said:
        """`guidellm run`; an open load is a replayed trace, whose requests come at its times whatever became of those
        before."""
        out = self._fresh("guidellm")
        backend = f"kind=openai_http,target={self._server.url},model={MODEL_NAME},request_format=/v1/completions"
        arguments = [str(self._python.with_name("guidellm")), "run", "--backend", backend, "--disable-progress"]
        arguments += [
            "--tokenizer",
            f"kind=huggingface_auto,model={self._model}",
            "--seed",
            f"kind=static,value={seed}",
        ]
        arguments += ["--output", f"kind=json,path={out / 'report.json'}"]
        if isinstance(load, Closed):
            arguments += ["--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={OUTPUT_TOKENS}"]
            arguments += ["--profile", f"kind=concurrent,streams={load.concurrency}"]
            arguments += ["--constraint", f"kind=max_requests,count={load.requests}"]
        else:
            source = {"kind": "json_file", "path": str(load.trace)}
            arguments += ["--data", json.dumps({"kind": "mooncake", "source": source, "time_scale": 0.001})]
            arguments += ["--profile", "kind=replay,schedule_turn=timestamp"]
        self._run(arguments, self._environment, out)
        return guidellm(_json(out / "report.json"))

    def assay(self, load: Load, seed: int) -> Said:
        """`assay bench`; an open load is a trace."""
        out = self._fresh("assay")
        benchmark: dict[str, Any] = {"warmup": 0, "seed": seed}
        if isinstance(load, Closed):
            benchmark["load"] = {"kind": "closed", "concurrency": load.concurrency, "requests": load.requests}
            benchmark["prompts"] = {"kind": "random", "prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS}
        else:
            benchmark["load"] = {"kind": "trace", "path": str(load.trace), "format": "mooncake"}
        experiment = {
            "name": "peers-serving",
            "model": {"source": {"kind": "path", "path": str(self._model)}},
            "engine": {"kind": "endpoint", "url": self._server.url, "model": MODEL_NAME},
            "datasets": [],
            "sampling": {"temperature": 0},
            "benchmark": benchmark,
        }
        file = out / "experiment.yaml"
        file.write_text(yaml.safe_dump(experiment, sort_keys=False))
        self._run(command("bench", str(file), "--json"), environment(self._home), out)
        run_id = json.loads((out / "stdout").read_text().splitlines()[-1])["run_id"]
        asked = "SELECT epoch(sent_at) AS sent, ttft_ms, tpot_ms, e2e_ms, prompt_tokens, output_tokens FROM requests"
        where = f"WHERE run_id = '{run_id}'"
        answered = rows(self._home, f"{asked} {where} AND phase = 'measure' AND status IN ('ok', 'truncated')")
        found = rows(self._home, f"SELECT m.name, m.value FROM metrics AS m JOIN cells USING (run_id, cell_id) {where}")
        return assay(answered, {row["name"]: row["value"] for row in found})

    def _fresh(self, name: str) -> Path:
        self._runs += 1
        folder = self._folder / "out" / f"{self._runs:02d}-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _run(self, arguments: list[str], chosen: dict[str, str], out: Path) -> None:
        """Raises SystemExit with the end of what it printed where it fails."""
        with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
            done = subprocess.run(
                arguments,
                env=chosen,
                cwd=ROOT if chosen.get("PYTHONPATH") else out,
                stdout=stdout,
                stderr=stderr,
                check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, self._cores.clients),
            )
        if done.returncode:
            tail = [line for name in ("stdout", "stderr") for line in _lines(out / name)[-15:]]
            raise SystemExit("\n".join([f"{' '.join(arguments)} ended with {done.returncode}:", *tail]))


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()
