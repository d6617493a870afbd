"""An engine that is a server: anything that speaks OpenAI's API, wherever it runs."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.address import checked_address
from schemas.base import Config

DialectName = Literal["vllm", "sglang", "llamacpp", "llama_cpp_python", "lmstudio", "openai"]
Api = Literal["completions", "chat"]
Auto = Literal["auto"]
_OURS = frozenset(
    {
        *("model", "prompt", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "top_k", "seed", "stop", "ignore_eos", "return_token_ids", "logprobs", "echo"),
        *("prompt_logprobs", "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice"),
        *("guided_grammar", "json_schema", "regex", "ebnf", "grammar"),
    }
)


class Retries(Config):
    """What is asked again: a request that was refused for load (408, 425, 429), failed on the server's side (5xx) or
    found no connection, as long as none of its answer had come. The waiting counts in its times, and the tries are
    recorded."""

    tries: Annotated[int, Field(ge=1, le=50)] = 5
    """How often a request is sent at most; 1: never again."""
    first_wait_s: Annotated[float, Field(gt=0, le=600)] = 0.5
    """Seconds before the second try, at most: each wait is drawn between 0 and a bound that doubles from try to try."""
    longest_wait_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Seconds: the bound of that bound. A server that names a time (Retry-After, x-ratelimit-reset) is asked again
    then; one that names a later one than this is not asked again."""


class Breaker(Config):
    """What keeps a run from asking a server that is gone: after so many failures one after the other, nothing is sent
    until the server answers a call of its list of models."""

    failures: Annotated[int, Field(ge=0, le=10_000)] = 20
    """Failures one after the other after which other requests fail at once, with the last one's reason; 0: never."""
    look_every_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    """Seconds between two looks whether the server is back."""


class Timeouts(Config):
    """Seconds after which a request counts as failed. None of them is asked again, but for `connect_s`."""

    connect_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Seconds until the connection stands."""
    first_token_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """Seconds from sending to the first part of the answer."""
    between_tokens_s: Annotated[float, Field(gt=0, le=86_400)] = 120.0
    """Seconds from one part of the answer to the next."""
    total_s: Annotated[float, Field(gt=0, le=86_400)] = 3600.0
    """Seconds for all of it, further tries and their waiting included."""


class EndpointEngine(Config):
    """configs/engines/<name>.yaml, of an engine that is a server."""

    kind: Literal["endpoint"]
    """The engine: a server that runs already."""
    url: str
    """Its address, as in `http://localhost:8000`, with or without the `/v1` at its end."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name there. The tokenizer and the template are those of the experiment's `model`."""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """The environment variable that holds the key. The key itself is never written anywhere."""
    api: Api | Auto = "auto"
    """`completions` sends the prompt as assay has rendered it, `chat` its messages, which the server renders. `auto`:
    completions, but chat for the dialects `openai` and `lmstudio`, which have no guided completions."""
    dialect: DialectName | Auto = "auto"
    """Whose additions to OpenAI's API are used: token ids, exact lengths, log-likelihoods, grammars. `auto`: what the
    server says that it is, and `openai` where it does not say."""
    prompts: Literal["auto", "token_ids", "text"] = "auto"
    """How completions get their prompt. `auto`: as token ids where the server takes them, so that both sides agree on
    every token; else as text."""
    grammar_backend: Literal["xgrammar", "guidance"] = "xgrammar"
    """The grammar backend of a vLLM server: what is more than one of vLLM's own forms is written for it."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 32
    """Requests that are there at once where no load says how many."""
    retries: Retries = Retries()
    breaker: Breaker = Breaker()
    timeouts: Timeouts = Timeouts()
    metrics: bool = True
    """Whether a vLLM server's own metrics are read twice a second while it has work. They are of the whole server: what
    others ask of it is in them."""
    body: dict[str, Any] = Field(default_factory=dict)
    """More fields of each request's body, for what a server has of its own."""

    @field_validator("url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        return checked_address(value, added=("/chat/completions", "/completions", "/models"))

    @field_validator("body")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(_OURS & value.keys()):
            raise ValueError(f"assay sets `{taken[0]}` itself")
        return value

    @model_validator(mode="after")
    def _chat_has_no_token_ids(self) -> "EndpointEngine":
        if self.api == "chat" and self.prompts != "auto":
            raise ValueError("`prompts` is of `api: completions`; chat gets messages")
        return self
