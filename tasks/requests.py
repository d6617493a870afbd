"""From samples to the requests that a run makes of the engine, and the key by which an answer is known again."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.dataset import NamedDataset
from schemas.engine import Sampling
from schemas.plan import PlannedLoad
from schemas.sample import Request, Sample
from tasks.score.reasoning import begun_in


def plan_requests(
    *, dataset: NamedDataset, samples: Sequence[Sample], arms: Sequence[str], needs: Iterable[str]
) -> list[Request]:
    """Every request for one dataset, a sample's arms and repeats back to back so that all but the first find its prefix
    cached.

    needs: what the dataset's metrics read: "generate", "loglikelihood", "rolling". A dataset without a guide has no
    guided arm. Log-likelihood requests belong to the arm `free`, since no grammar takes part in them, and are made
    once: they draw nothing, so that a repeat would be a copy.
    """
    wanted = set(needs)
    requests: list[Request] = []
    for sample in samples:
        if "generate" in wanted:
            requests.extend(_answers(dataset, sample, arms))
        if "loglikelihood" in wanted:
            requests.extend(_choices(sample))
        if "rolling" in wanted:
            requests.extend(_windows(sample))
    return requests


def _answers(dataset: NamedDataset, sample: Sample, arms: Sequence[str]) -> Iterable[Request]:
    begun = dataset.reasoning_parser is not None and begun_in(sample.prompt, dataset.reasoning_parser)
    asked = [arm for arm in arms if arm != "guided" or dataset.config.guide is not None]
    for repeat, arm in itertools.product(range(dataset.sampling.repeats), asked):
        guided = arm == "guided"
        yield Request(
            request_id=request_id(sample.sample_id, arm, "generate", repeat=repeat),
            dataset=sample.dataset,
            sample_id=sample.sample_id,
            arm=arm,
            kind="generate",
            prompt_token_ids=sample.prompt_token_ids,
            max_tokens=sample.max_tokens,
            stop=dataset.sampling.stop,
            repeat=repeat,
            grammar=sample.grammar if guided else None,
            check=sample.grammar,
            refused=sample.grammar_error if guided else None,
            reasoning_parser=dataset.reasoning_parser,
            reasoning_begun=begun,
        )


def _choices(sample: Sample) -> Iterable[Request]:
    for index, choice in enumerate(sample.choices):
        yield Request(
            request_id=request_id(sample.sample_id, "free", "loglikelihood", index),
            dataset=sample.dataset,
            sample_id=sample.sample_id,
            arm="free",
            kind="loglikelihood",
            choice_index=index,
            prompt_token_ids=choice.token_ids,
            max_tokens=1,
            stop=[],
            continuation_start=choice.start,
            encoded_apart=choice.encoded_apart,
        )


def _windows(sample: Sample) -> Iterable[Request]:
    for index, window in enumerate(sample.windows):
        yield Request(
            request_id=request_id(sample.sample_id, "free", "loglikelihood", index),
            dataset=sample.dataset,
            sample_id=sample.sample_id,
            arm="free",
            kind="loglikelihood",
            choice_index=index,
            prompt_token_ids=sample.prompt_token_ids[window.begin : window.end],
            max_tokens=1,
            stop=[],
            continuation_start=window.start - window.begin,
        )


def request_id(sample_id: str, arm: str, kind: str, choice: int | None = None, repeat: int = 0) -> str:
    """The same for the same question in every run: 20 hex digits."""
    text = json.dumps([sample_id, arm, kind, choice, repeat])
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:20]


def planned_load(requests: Iterable[Request]) -> PlannedLoad:
    """What the engine will get, as the plan looks at it."""
    sent = [request for request in requests if request.refused is None]
    return PlannedLoad(
        prompt_tokens=[len(request.prompt_token_ids) for request in sent],
        output_tokens=[request.max_tokens for request in sent],
    )


def engine_identity(
    *, model_fingerprint: str, versions: Mapping[str, str], device_name: str, resolved: Mapping[str, Any]
) -> dict[str, Any]:
    """What of an engine can change an answer. Sizes of the scheduler are left out on purpose: a step down the memory
    ladder must not void what was answered before it."""
    return {
        "model": model_fingerprint,
        "vllm": versions.get("vllm"),
        "torch": versions.get("torch"),
        "device": device_name,
        "grammar_version": versions.get(str(resolved["grammar_backend"])),
        **{
            name: resolved.get(name)
            for name in (
                "dtype",
                "kv_cache_dtype",
                "quantization",
                "attention_backend",
                "compile",
                "cudagraph_mode",
                "grammar_backend",
                "grammar_whitespace",
            )
        },
    }


def request_key(request: Request, *, identity: Mapping[str, Any], sampling: Sampling) -> str:
    """sha256 over everything that decides the answer. Equal keys: the same question to the same engine."""
    grammar = None if request.grammar is None else [request.grammar.kind, request.grammar.content]
    parts = [
        dict(identity),
        request.prompt_token_ids,
        [sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed, request.max_tokens, request.stop],
        grammar,
        request.kind,
        request.continuation_start,
        request.repeat,
        *([] if request.reasoning_parser is None else [request.reasoning_parser]),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
