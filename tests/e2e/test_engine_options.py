"""Options that change answers or steps, in one real engine: adapters, ngram speculation, vLLM's arguments, a trace."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.engine import Sampling, VllmEngine
from schemas.plan import PlannedLoad
from schemas.sample import Request
from tasks.engine.client import EngineClient
from tasks.engine.settings import build_options, downgrades, process_settings
from tasks.generate import generate
from tasks.model.facts import read_model_facts
from tasks.plan.device import read_device_facts
from tasks.plan.engine import plan_engine
from tasks.plan.on_disk import read_on_disk
from tasks.requests import engine_identity, request_key
from tasks.responses import RowContext
from tests.e2e.adapters import write_adapter
from tests.e2e.command import ROOT
from tests.stores import SHARED_CACHE

PROMPTS = [
    # <|im_start|>user Repeat: one two three four five six seven eight <|im_end|> <|im_start|>assistant
    [1, 4093, 198, 48010, 42, 582, 827, 1296, 1876, 2531, 2976, 4962, 4475, 2, 198, 1, 520, 9531, 198],
    # Once upon a time there was a little girl who lived in
    [6403, 1980, 253, 655, 665, 436, 253, 1838, 8180, 617, 4161, 281],
]
TOKENS = 20


def request(number: int, adapter: str | None) -> Request:
    return Request(
        request_id=f"{number}-{adapter}",
        dataset="d",
        sample_id=str(number),
        arm="free",
        kind="generate",
        prompt_token_ids=PROMPTS[number],
        max_tokens=TOKENS,
        stop=[],
        adapter=adapter,
    )


ALL = [request(number, adapter) for number in range(len(PROMPTS)) for adapter in (None, "red", "blue")]


class Engine:
    """One built engine, what was asked of it, and how it answers."""

    def __init__(self, client: EngineClient, options: dict[str, Any], resolved: dict[str, Any]) -> None:
        self.client, self.options, self.resolved = client, options, resolved

    def answer(self, requests: list[Request]) -> dict[str, dict[str, Any]]:
        """The rows, by request_id; all requests are at the engine at once."""
        rows: list[dict[str, Any]] = []
        context = RowContext(
            engine_id="e", sampling={"d": Sampling()}, keys={each.request_id: "" for each in requests}, attempts={}
        )
        self.client.reset_prefix_cache()
        generate(engine=self.client, requests=requests, context=context, window=64, write=rows.extend)
        return {row["request_id"]: row for row in rows}


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("adapters")
    return {name: write_adapter(base / name, seed=seed) for seed, name in enumerate(("red", "blue"), start=1)}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, model_dir: Path, adapters: dict[str, Path]) -> Iterator[Engine]:
    work = tmp_path_factory.mktemp("options")
    asked = VllmEngine(
        max_model_len=256,
        max_num_seqs=16,
        adapters=[{"name": name, "path": str(folder)} for name, folder in adapters.items()],
        speculative={"method": "ngram", "tokens": 3, "lookup": [2, 3]},
        hf_overrides={"max_position_embeddings": 4096},
        extra={"max_logprobs": 7},
        trace_steps=2,
        prefix_caching=False,
    )
    model, device = read_model_facts(model_dir, cache=work), read_device_facts()
    plan = plan_engine(
        load=PlannedLoad(prompt_tokens=[64] * 16, output_tokens=[TOKENS] * 16),
        model=model,
        device=device,
        engine=asked,
        dtype="float32",
        earlier=None,
        on_disk=read_on_disk(asked, model=model, cache=SHARED_CACHE),
    )
    options = build_options(plan)
    known = process_settings(asked, device=device, cache=SHARED_CACHE)
    with EngineClient(log_path=work / "engine.log", settings=known) as client:
        yield Engine(client, options, client.build(model=model_dir, options=options).resolved)


@pytest.fixture(scope="module")
def merged(engine: Engine, model_dir: Path, adapters: dict[str, Path]) -> dict[str, list[list[int]]]:
    work = engine.client.log_path.parent
    given = {
        "prompts": PROMPTS,
        "max_tokens": TOKENS,
        "adapters": {name: str(folder) for name, folder in adapters.items()},
    }
    (work / "in.json").write_text(json.dumps(given))
    command = [
        sys.executable,
        "-m",
        "tests.e2e.adapters",
        str(model_dir),
        str(work / "in.json"),
        str(work / "out.json"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[list[int]]] = json.loads((work / "out.json").read_text())
    return found


@pytest.fixture(scope="module")
def together(engine: Engine) -> dict[str, dict[str, Any]]:
    return engine.answer(ALL)


def test_adapters_in_one_batch_answer_as_merged_weights_do(
    together: dict[str, dict[str, Any]], merged: dict[str, list[list[int]]]
) -> None:
    rows = together
    got = {row_id: list(row["output_token_ids"]) for row_id, row in rows.items()}
    expected = {each.request_id: merged[each.adapter or "none"][int(each.sample_id)] for each in ALL}
    assert got == expected
    assert len({tuple(tokens) for tokens in got.values()}) == len(ALL)
    assert {row["adapter"] for row in rows.values()} == {None, "red", "blue"}
    assert sum(row["draft_tokens"] or 0 for row in rows.values()) > 0  # they were speculated, and are still the same


def test_an_adapter_alone_answers_as_it_does_beside_others(engine: Engine, together: dict[str, dict[str, Any]]) -> None:
    for each in ALL[:3]:
        alone = engine.answer([each])[each.request_id]
        assert alone["output_token_ids"] == together[each.request_id]["output_token_ids"]


def test_what_was_asked_is_read_back(engine: Engine) -> None:
    resolved = engine.resolved
    assert resolved["speculative"] == {"method": "ngram", "tokens": 3, "lookup": [2, 3]}
    assert resolved["extra"] == {"max_logprobs": 7}
    assert resolved["hf_overrides"] == {"max_position_embeddings": 4096}
    assert (resolved["max_loras"], resolved["max_lora_rank"]) == (3, 8)
    assert downgrades(engine.options, resolved) == []


def test_the_first_steps_leave_a_trace(engine: Engine) -> None:
    engine.answer(ALL[:2])
    assert list((engine.client.log_path.parent / "trace").glob("*.json*"))


def test_an_adapters_content_is_in_the_key_of_its_answers_only(engine: Engine) -> None:
    def keys(options: dict[str, Any]) -> list[str]:
        identity = engine_identity(
            model_fingerprint="m", versions={}, device_name="cpu", resolved=engine.resolved, options=options
        )
        return [request_key(each, identity=identity, sampling=Sampling()) for each in ALL[:3]]

    red, blue = engine.options["adapters"]
    before, after = keys(engine.options), keys(engine.options | {"adapters": [red | {"fingerprint": "other"}, blue]})
    assert [one == two for one, two in zip(before, after, strict=True)] == [True, False, True]
    assert len(set(before)) == 3
    assert keys(engine.options | {"extra": {}}) != before
    assert replace(ALL[0], adapter="red") == replace(ALL[1], request_id=ALL[0].request_id)


@pytest.mark.slow
def test_two_copies_answer_as_one_engine_does(
    tmp_path: Path, model_dir: Path, merged: dict[str, list[list[int]]]
) -> None:
    model, device = read_model_facts(model_dir, cache=tmp_path), read_device_facts()
    if len(device.cores) < 2:
        pytest.skip("two copies need a core each")
    asked = VllmEngine(max_model_len=256, parallel={"data": 2})
    plan = plan_engine(
        load=PlannedLoad(prompt_tokens=[64] * 16, output_tokens=[TOKENS] * 16),
        model=model,
        device=device,
        engine=asked,
        dtype="float32",
        earlier=None,
    )
    options = build_options(plan)
    known = process_settings(asked, device=device, cache=tmp_path)
    with EngineClient(log_path=tmp_path / "engine.log", settings=known) as client:
        resolved = client.build(model=model_dir, options=options).resolved
        assert downgrades(options, resolved) == []
        assert resolved["data_parallel_size"] == 2
        each = [replace(request(number, None), request_id=f"{copy}-{number}") for copy in range(4) for number in (0, 1)]
        rows = Engine(client, options, resolved).answer(each)
    assert len(rows) == len(each)
    for row_id, row in rows.items():
        assert row["output_token_ids"] == merged["none"][int(row_id[-1])]
