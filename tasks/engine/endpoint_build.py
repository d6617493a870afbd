"""A server as a run's engine: what is asked of its process, and what tells it from another one."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from schemas.endpoint import EndpointEngine
from schemas.plan import DeviceFacts, EnginePlan, Estimate, PlannedLoad, PlannedOption
from schemas.sample import Request, Sample
from tasks.dataset.tokenizer import Tokenizer
from tasks.engine.settings import ProcessSettings
from tasks.responses import Words

KIND = "endpoint"
_NOT_IDENTIFYING = ("retries", "breaker", "timeouts", "metrics", "api_key_env", "concurrency")
"""Keys of the configuration that change no answer."""


def endpoint_process() -> ProcessSettings:
    """What its process is started with: no core of its own, nothing of vLLM."""
    return ProcessSettings(cores=(), program="endpoint")


def endpoint_device(endpoint: EndpointEngine, here: DeviceFacts) -> DeviceFacts:
    """The device as a run names it: what the server runs on, it does not say. here: this machine, where the client
    runs."""
    return here.model_copy(update={"kind": "cpu", "name": f"server {urlsplit(endpoint.url).netloc}", "count": 1})


def plan_endpoint(endpoint: EndpointEngine, *, load: PlannedLoad, max_model_len: int) -> EnginePlan:
    """The plan of a run on a server: nothing of the engine is chosen here."""
    reason = "The server is set by whoever started it."
    options = [
        PlannedOption(
            option=name,
            value=value,
            default_value=None if field.is_required() else field.get_default(),
            reason=reason if name in ("url", "model") else "How the server is asked.",
            evidence="engine",
            source="user" if name in endpoint.model_fields_set else "default",
            would_change=f"engine.{name}",
        )
        for name, value in endpoint.model_dump(mode="json").items()
        for field in [EndpointEngine.model_fields[name]]
        if name in ("url", "model", "api", "dialect", "prompts", "concurrency", "metrics")
    ]
    options.append(
        PlannedOption(
            option="max_model_len",
            value=max_model_len,
            default_value=max_model_len,
            reason="The model's own limit; the server may have a lower one.",
            evidence="the model's config.json",
            source="plan",
        )
    )
    return EnginePlan(
        options=options,
        estimate=Estimate(
            requests=len(load.prompt_tokens),
            prompt_tokens=sum(load.prompt_tokens),
            output_tokens_max=sum(load.output_tokens),
            start_s=None,
            generate_s=None,
            basis="how fast the server is, is not known",
        ),
        warnings=[],
    )


def endpoint_identity(
    endpoint: EndpointEngine, *, resolved: Mapping[str, Any], model_fingerprint: str
) -> dict[str, Any]:
    """What of it can change an answer. Whether the server has other weights under the same name, nobody here knows."""
    asked = {key: value for key, value in endpoint.model_dump(mode="json").items() if key not in _NOT_IDENTIFYING}
    told = {name: resolved.get(name) for name in ("api", "dialect", "server_version", "prompts", "grammar_backend")}
    return {**asked, **told, "tokenizer_of": model_fingerprint}


def endpoint_downgrades(resolved: Mapping[str, Any]) -> list[str]:
    """What the server cannot do that assay would ask, in words."""
    return [f"the server ({resolved.get('dialect')}): {text}" for text in resolved.get("unsupported") or []]


def words_of(samples: Sequence[Sample], *, tokenizer: Tokenizer, resolved: Mapping[str, Any]) -> Words | None:
    """What a server that takes no token ids gets in their place; None for one that takes them."""
    if resolved.get("prompts") == "token_ids":
        return None
    # A server puts the token that a text begins with in front of it itself.
    [*begins] = tokenizer.inner.encode("").ids[:1]
    begin = tokenizer.bos_token if begins and begins == [tokenizer.bos_token_id] else None
    known = {(sample.dataset, sample.sample_id): sample for sample in samples}

    def say(request: Request) -> tuple[str, list[dict[str, Any]] | None]:
        sample = known.get((request.dataset, request.sample_id))
        if sample is None or request.kind != "generate":
            text = tokenizer.inner.decode(request.prompt_token_ids, skip_special_tokens=False)
            return _without(text, begin), [{"role": "user", "content": text}]
        return _without(sample.prompt, begin), sample.messages or [{"role": "user", "content": sample.prompt}]

    return say


def _without(text: str, begin: str | None) -> str:
    return text if begin is None else text.removeprefix(begin)
