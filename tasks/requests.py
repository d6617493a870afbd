"""From samples to the requests that a run makes of the engine, and the key by which an answer is known again."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.arm import (
    REPAIR,
    Arm,
    Repair,
    arm_adapter,
    arm_kind,
    arm_name,
    likelihood_arms,
    needs_guide,
)
from schemas.dataset import NamedDataset
from schemas.engine import Sampling
from schemas.plan import PlannedLoad
from schemas.sample import Request, Sample
from tasks.score.reasoning import begun_in, closes


def plan_requests(
    *, dataset: NamedDataset, samples: Sequence[Sample], arms: Sequence[Arm], needs: Iterable[str]
) -> list[Request]:
    """Every request for one dataset, a sample's arms and repeats back to back so that all but the first find its prefix
    cached.

    needs: what the dataset's metrics read: "generate", "loglikelihood", "rolling". A dataset without a guide has only
    free arms. The arm `repair` begins with the answers of `free`; where that is no arm, with free ones of its own. Its
    retries are not here (see `plan_retries`). Log-likelihood requests belong to the arms like `free`, since no grammar
    takes part in them, and are made once: they draw nothing, so that a repeat would be a copy.
    """
    wanted = set(needs)
    requests: list[Request] = []
    for sample in samples:
        if "generate" in wanted:
            requests.extend(_answers(dataset, sample, arms))
        for arm in likelihood_arms(arms):
            if "loglikelihood" in wanted:
                requests.extend(_choices(dataset, sample, arm))
            if "rolling" in wanted:
                requests.extend(_windows(dataset, sample, arm))
    return requests


def plan_retries(
    *, dataset: NamedDataset, samples: Sequence[Sample], arms: Sequence[Arm], needs: Iterable[str], repair: Repair
) -> list[Request]:
    """Every request that the arm `repair` may come to make, should nothing that is answered before it be valid."""
    if REPAIR not in arms or "generate" not in set(needs) or dataset.config.guide is None:
        return []
    found = []
    first = "free" if "free" in arms else REPAIR
    for sample, repeat in itertools.product(samples, range(dataset.sampling.repeats)):
        before = request_id(sample.sample_id, first, "generate", repeat=repeat)
        for number in range(1, repair.retries + 1):
            request = replace(
                _guided(_asked(dataset, sample, REPAIR, repeat=repeat), dataset, sample),
                request_id=request_id(sample.sample_id, REPAIR, "generate", repeat=repeat, retry=number),
                repair_try=number,
                instead_of=before,
                temperature=repair.temperature if number > 1 else None,
                seed_shift=number - 1,
            )
            before = request.request_id
            found.append(request)
    return found


def _answers(dataset: NamedDataset, sample: Sample, arms: Sequence[Arm]) -> Iterable[Request]:
    asked = [arm for arm in arms if not needs_guide(arm) or dataset.config.guide is not None]
    for repeat, arm in itertools.product(range(dataset.sampling.repeats), asked):
        request = _asked(dataset, sample, arm, repeat=repeat)
        match arm_kind(arm):
            case "free":
                yield request
            case "guided":
                yield _guided(request, dataset, sample)
            case "free_matched":
                yield _matched(request, sample)
            case "repair":
                if "free" not in arms:
                    yield replace(request, repair_try=0)


def _asked(dataset: NamedDataset, sample: Sample, arm: Arm, *, repeat: int) -> Request:
    """The sample as it is, in an arm."""
    begun = dataset.reasoning_parser is not None and begun_in(sample.prompt, dataset.reasoning_parser)
    return Request(
        request_id=request_id(sample.sample_id, arm_name(arm), "generate", repeat=repeat),
        dataset=sample.dataset,
        sample_id=sample.sample_id,
        arm=arm_name(arm),
        kind="generate",
        prompt_token_ids=sample.prompt_token_ids,
        max_tokens=sample.max_tokens,
        stop=dataset.sampling.stop,
        repeat=repeat,
        check=sample.grammar,
        reasoning_parser=dataset.reasoning_parser,
        reasoning_begun=begun,
        adapter=arm_adapter(arm, own=dataset.config.adapter),
    )


def _guided(request: Request, dataset: NamedDataset, sample: Sample) -> Request:
    return replace(request, grammar=sample.grammar, grammar_after=_free_until(dataset), refused=sample.grammar_error)


def _matched(request: Request, sample: Sample) -> Request:
    """What it says is cut wherever its length ends: it is neither taken apart nor held against the guide."""
    guided = request_id(sample.sample_id, "guided", "generate", repeat=request.repeat)
    return replace(request, matches=guided, stop=[], check=None, reasoning_parser=None, reasoning_begun=False)


def _free_until(dataset: NamedDataset) -> str | None:
    """The text that ends what is free before a guided answer."""
    guide = dataset.config.guide
    if guide is None or guide.after is None or dataset.reasoning_parser is None:
        return None
    return closes(dataset.reasoning_parser)


def _choices(dataset: NamedDataset, sample: Sample, arm: Arm) -> Iterable[Request]:
    for index, choice in enumerate(sample.choices):
        scored = _scored(sample, index, choice.token_ids, start=choice.start)
        yield replace(_in_arm(scored, arm, dataset), encoded_apart=choice.encoded_apart)


def _windows(dataset: NamedDataset, sample: Sample, arm: Arm) -> Iterable[Request]:
    for index, window in enumerate(sample.windows):
        token_ids = sample.prompt_token_ids[window.begin : window.end]
        scored = _scored(sample, index, token_ids, start=window.start - window.begin)
        yield _in_arm(scored, arm, dataset)


def _in_arm(scored: Request, arm: Arm, dataset: NamedDataset) -> Request:
    return replace(
        scored,
        request_id=request_id(scored.sample_id, arm_name(arm), scored.kind, scored.choice_index),
        arm=arm_name(arm),
        adapter=arm_adapter(arm, own=dataset.config.adapter),
    )


def _scored(sample: Sample, index: int, token_ids: list[int], *, start: int) -> Request:
    """The request for the log-likelihood of the tokens from `start` on, whatever the arm."""
    return Request(
        request_id="",
        dataset=sample.dataset,
        sample_id=sample.sample_id,
        arm="",
        kind="loglikelihood",
        choice_index=index,
        prompt_token_ids=token_ids,
        max_tokens=1,
        stop=[],
        continuation_start=start,
    )


def request_id(
    sample_id: str, arm: str, kind: str, choice: int | None = None, repeat: int = 0, retry: int | None = None
) -> str:
    """The same for the same question in every run: 20 hex digits. retry: of the arm `repair`, from 1."""
    text = json.dumps([sample_id, arm, kind, choice, repeat, *([] if retry is None else [retry])])
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:20]


def planned_load(requests: Iterable[Request]) -> PlannedLoad:
    """What the engine will get, as the plan looks at it."""
    sent = [request for request in requests if request.refused is None]
    return PlannedLoad(
        prompt_tokens=[len(request.prompt_token_ids) for request in sent],
        output_tokens=[request.max_tokens for request in sent],
    )


def engine_identity(
    *,
    model_fingerprint: str,
    versions: Mapping[str, str],
    device_name: str,
    resolved: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What of an engine can change an answer. Sizes of the scheduler are left out on purpose: a step down the memory
    ladder must not void what was answered before it.

    options: what was asked of it, of which only what is out of the ordinary is in the identity."""
    return {
        **_out_of_the_ordinary(options or {}, resolved),
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


def _out_of_the_ordinary(options: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """What few engines have; of those that have none of it, nothing. `adapters`: the content of each, by name."""
    found: dict[str, Any] = {}
    if options.get("adapters"):
        found["adapters"] = {adapter["name"]: adapter["fingerprint"] for adapter in options["adapters"]}
    if options.get("speculative"):
        found["speculative"] = {key: value for key, value in options["speculative"].items() if key != "model"}
    for name in ("hf_overrides", "extra", "batch_invariant", "cpu_offload_gb"):
        if options.get(name):
            found[name] = options[name]
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if (resolved.get(name) or 1) > 1:
            found[name] = resolved[name]
    return found


def drawn_with(request: Request, sampling: Sampling) -> Sampling:
    """How the tokens of a request are drawn. sampling: its dataset's."""
    if request.temperature is None and not request.seed_shift:
        return sampling
    seed = None if sampling.seed is None else sampling.seed + request.seed_shift
    temperature = sampling.temperature if request.temperature is None else request.temperature
    return sampling.model_copy(update={"temperature": temperature, "seed": seed})


def request_key(request: Request, *, identity: Mapping[str, Any], sampling: Sampling) -> str:
    """sha256 over everything that decides the answer. Equal keys: the same question to the same engine. The arm is no
    part of it.

    Of the engine's adapters only the one that answers counts, by its content, and whether there are any: with them the
    model's layers are computed in another way."""
    adapters = identity.get("adapters")
    sampling = drawn_with(request, sampling)
    grammar = None if request.grammar is None else [request.grammar.kind, request.grammar.content]
    if grammar is not None and request.grammar_after is not None:
        grammar.append(request.grammar_after)
    parts = [
        {**identity, "adapters": True} if adapters else dict(identity),
        request.prompt_token_ids,
        [sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed, request.max_tokens, request.stop],
        grammar,
        request.kind,
        request.continuation_start,
        request.repeat,
        *([] if request.reasoning_parser is None else [request.reasoning_parser]),
        *([] if request.adapter is None else [{"adapter": (adapters or {}).get(request.adapter)}]),
        *([{"exactly": True}] if request.exactly else []),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
