"""What each server has beyond OpenAI's API, and what a given one turned out to have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.endpoint import Api, DialectName
from schemas.guide import GuideKind

_JSON: tuple[GuideKind, ...] = ("json_schema", "json_object")
_GRAMMARS: tuple[GuideKind, ...] = ("choice", "ebnf", "python", "math", "sql")
ALL: tuple[GuideKind, ...] = (*_JSON, "regex", *_GRAMMARS, "tool_calls")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One kind of server.

    token_ids: it may take a prompt as token ids; names_tokens: it can name the answer's. exact: it knows `ignore_eos`.
    top_k: it knows that. neutral: what must be sent so that nothing of the model's own defaults is mixed in. guides:
    the kinds of grammar that it has a form for. reset: the path, below the server's root, that empties its prefix
    cache. logprobs: how it gives those of a prompt: vLLM's `prompt_logprobs`, or `echo`."""

    name: DialectName
    chat_first: bool = False
    token_ids: bool = False
    names_tokens: bool = False
    exact: bool = False
    top_k: bool = False
    neutral: Mapping[str, Any] = field(default_factory=dict)
    guides: Mapping[Api, tuple[GuideKind, ...]] = field(default_factory=dict)
    reset: str | None = None
    logprobs: str | None = None


_NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
_LLAMA = {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0}
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            name="vllm",
            token_ids=True,
            names_tokens=True,
            exact=True,
            top_k=True,
            neutral=_NEUTRAL,
            guides={"completions": ALL, "chat": ALL},
            reset="reset_prefix_cache",
            logprobs="prompt_logprobs",
        ),
        Dialect(
            name="sglang",
            token_ids=True,
            exact=True,
            top_k=True,
            neutral={**_NEUTRAL, "top_k": -1},
            guides={"completions": (*_JSON, "regex", *_GRAMMARS), "chat": (*_JSON, "regex", *_GRAMMARS)},
            reset="flush_cache",
            logprobs="echo",
        ),
        Dialect(
            name="llamacpp",
            token_ids=True,
            exact=True,
            top_k=True,
            neutral=_LLAMA,
            guides={"completions": (*_JSON, *_GRAMMARS), "chat": (*_JSON, *_GRAMMARS)},
        ),
        Dialect(
            name="llama_cpp_python",
            top_k=True,
            neutral=_LLAMA,
            guides={"completions": _GRAMMARS, "chat": (*_JSON, *_GRAMMARS)},
        ),
        Dialect(name="lmstudio", chat_first=True, top_k=True, neutral=_LLAMA, guides={"chat": _JSON}),
        Dialect(name="openai", chat_first=True, guides={"chat": _JSON}),
    )
}


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server as it was found: what is sent to it, and what it can be asked.

    prompts: token_ids, text or messages. usage: whether it takes `stream_options`. counts: how it tells an answer's
    tokens, by token_ids, usage or chunks. limit: the name of the field that bounds an answer. temperature: whether it
    takes any. structured: vLLM's field for grammars, or `guided` for its earlier ones. guides: kinds of grammar.
    loglikelihood: prompt_logprobs, echo, or None. models: what it serves. resets: whether its prefix cache can be
    emptied; metrics: whether vLLM's are there. unsupported: what it lacks, in words."""

    dialect: Dialect
    api: Api
    model: str
    prompts: str = "text"
    usage: bool = True
    names_tokens: bool = False
    limit: str = "max_tokens"
    temperature: bool = True
    grammar_backend: str = "xgrammar"
    structured: str = "structured_outputs"
    guides: tuple[GuideKind, ...] = ()
    loglikelihood: str | None = None
    models: tuple[str, ...] = ()
    version: str | None = None
    counts: str = "chunks"
    max_model_len: int | None = None
    resets: bool = False
    metrics: bool = False
    body: Mapping[str, Any] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
