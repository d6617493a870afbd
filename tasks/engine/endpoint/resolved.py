"""What an endpoint's engine became, as its `Built` tells it."""

from typing import Any

from yarl import URL

from schemas.endpoint import EndpointEngine
from tasks.engine.endpoint.dialects import Server
from tasks.engine.endpoint.http import Http

_NOT_TOLD = (
    *("dtype", "kv_cache_dtype", "quantization", "attention_backend", "compile", "cudagraph_mode"),
    *("cudagraph_capture_sizes", "max_num_batched_tokens", "long_prefill_token_threshold", "enable_prefix_caching"),
    *("block_size", "grammar_whitespace", "grammar_masks", "core", "device", "cores"),
)
"""What an engine of our own tells of itself, and a server does not."""


def resolved(config: EndpointEngine, server: Server, http: Http) -> dict[str, Any]:
    """By the names of the configuration where it has them. What the server does not tell is None."""
    proxy = None if http.proxy is None else URL(http.proxy)
    return {
        **dict.fromkeys(_NOT_TOLD),
        "kind": "endpoint",
        "url": http.base,
        "model": server.model,
        "api_key_env": config.api_key_env,
        "api": server.api,
        "dialect": server.dialect.name,
        "server_version": server.version,
        "prompts": server.prompts,
        "token_counts": server.counts,
        "exact_lengths": server.dialect.exact,
        "loglikelihood": server.loglikelihood,
        "guides": list(server.guides),
        "guides_after_free_text": server.dialect.name == "vllm" and bool(server.guides),
        "grammar_backend": server.grammar_backend if server.dialect.name == "vllm" else None,
        "top_k": server.dialect.top_k,
        "adapters": [name for name in server.models if name != server.model],
        "resets_prefix_cache": server.resets,
        "engine_metrics": server.metrics,
        "max_model_len": server.max_model_len,
        "max_num_seqs": config.concurrency,
        "body": dict(config.body),
        "proxy": None if proxy is None else f"{proxy.host}:{proxy.port}",
        "unsupported": list(server.unsupported),
    }
