"""What a server is and can do, found out by asking it: its list of models, a first token, a guided answer, the
log-probabilities of a prompt."""

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from schemas.endpoint import Api, EndpointEngine
from tasks.config.nearest import did_you_mean_or_list
from tasks.engine.endpoint.again import Circuit, again, asked_wait_s, backoff_s
from tasks.engine.endpoint.ask import Asker, Flight
from tasks.engine.endpoint.dialects import DIALECTS, Server
from tasks.engine.endpoint.http import Http, in_words, json_of
from tasks.engine.endpoint.key import NoKey
from tasks.engine.protocol import WireGrammar, WireRequest, WireResult, WireSampling

_WORD = "zqxj"
"""What no model says by itself."""
_SCHEMA = {"type": "object", "properties": {_WORD: {"type": "integer"}}, "required": [_WORD]}
_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "me": "llama_cpp_python",
    "organization_owner": "lmstudio",
    **dict.fromkeys(("openai", "system", "openai-internal"), "openai"),
}
"""Whose server lists its models as owned by whom."""
_LISTED = 30
_MOST_TRIES = 8


class Unusable(Exception):
    """The server cannot be used; the message says why, and what to do."""


UNUSABLE = (Unusable, NoKey)


@dataclass(frozen=True, kw_only=True)
class Models:
    """What the server lists. owned_by: of the model that is asked for."""

    names: tuple[str, ...]
    owned_by: str
    max_model_len: int | None


# ---------------------------------------------------------------- where it is


async def find_base(config: EndpointEngine, *, key: str | None) -> tuple[Http, Models]:
    """The way to the API, with or without a /v1 that the address lacks, and what it serves. Raises Unusable."""
    last = config.url.rpartition("/")[2]
    bases = [config.url] if last[:1] == "v" and last[1:].isdigit() else [f"{config.url}/v1", config.url]
    for base in bases:
        http = Http(base, key=key, connect_s=config.timeouts.connect_s)
        try:
            models = await _models(config, http)
        except BaseException:
            await http.close()
            raise
        if models is not None:
            return http, models
        await http.close()
    asked = " and ".join(f"{base}/models" for base in bases)
    raise Unusable(
        f"there is no API at {config.url}: {asked} is not found (HTTP 404); the address ends where /chat/completions "
        "would follow, often with /v1"
    )


async def _models(config: EndpointEngine, http: Http) -> Models | None:
    """None where nothing is there. Raises Unusable."""
    url = f"{http.base}/models"
    for number in range(1, config.retries.tries + 1):
        try:
            status, content, headers = await http.call("GET", url, timeout_s=max(10.0, config.timeouts.connect_s))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unusable(
                f"the server {config.url} cannot be reached: {http.scrub.words(in_words(error))}; start it first, or "
                "mend `url`"
            ) from error
        if not again(status) or number == config.retries.tries:
            break
        wait_s = asked_wait_s(headers)
        wait_s = backoff_s(config.retries, number) if wait_s is None else wait_s
        if wait_s > config.retries.longest_wait_s:
            break
        await asyncio.sleep(wait_s)
    if status in (404, 405):
        return None
    if status in (401, 403):
        given = f"the key in {config.api_key_env}" if config.api_key_env else "a call without a key (`api_key_env`)"
        raise Unusable(f"the server {config.url} does not take {given} (HTTP {status})")
    if 300 <= status < 400:
        raise Unusable(
            f"{url} redirects to {headers.get('Location', 'nowhere')}, which is not followed, since the key would go "
            "with it: write that address in `url`"
        )
    listed = json_of(content)
    data = listed.get("data") if isinstance(listed, dict) else None
    if status != 200 or not isinstance(data, list):
        said = http.scrub.words(content.decode("utf-8", errors="replace"))
        raise Unusable(f"{url} gives no list of models (HTTP {status}): {said}")
    return _listed(config, [each for each in data if isinstance(each, dict)])


def _listed(config: EndpointEngine, data: list[dict[str, Any]]) -> Models:
    names = tuple(str(each.get("id")) for each in data)
    if config.model not in names:
        hint = did_you_mean_or_list(config.model, names[:_LISTED]) or "it lists none"
        raise Unusable(f"the server {config.url} has no model `{config.model}`; {hint}")
    own = data[names.index(config.model)]
    length = own.get("max_model_len") or own.get("max_context_length")
    meta = own.get("meta")
    if length is None and isinstance(meta, dict):
        length = meta.get("n_ctx")
    return Models(
        names=names,
        owned_by=str(own.get("owned_by", "")),
        max_model_len=length if isinstance(length, int) else None,
    )


# ---------------------------------------------------------------- what it is


async def _recognize(http: Http, models: Models) -> tuple[str, str | None, str]:
    """Its dialect, its version where it tells one, and by what it was recognized."""
    by = f"its models are owned by `{models.owned_by}`"
    name, version = _OWNERS.get(models.owned_by, "openai"), None
    match name:
        case "vllm":
            version = await _told(http, "version", "version")
        case "sglang":
            version = await _told(http, "get_server_info", "version") or await _told(http, "server_info", "version")
        case "llamacpp":
            version = await _told(http, "props", "build_info")
        case "llama_cpp_python":
            info = await _told(http, "openapi.json", "info")
            if not isinstance(info, dict) or "llama.cpp" not in str(info.get("title")):
                return "openai", None, f"{by}, and it does not call itself llama.cpp"
            version, by = str(info.get("version")), f"its API is called `{info.get('title')}`"
    if models.owned_by not in _OWNERS:
        by = f"{by}, who is not known here: nothing is sent that OpenAI's API has not"
    return name, version if isinstance(version, str) else None, by


async def _told(http: Http, path: str, name: str) -> Any:
    """One value of a JSON object below the server's root; None where it is not there."""
    try:
        status, content, _ = await http.call("GET", f"{http.root}/{path}")
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
    found = json_of(content) if status == 200 else None
    return found.get(name) if isinstance(found, dict) else None


def _before(version: str | None, than: tuple[int, int]) -> bool:
    """Whether a version that is told is an earlier one."""
    try:
        major, minor = (int(part) for part in (version or "").split(".")[:2])
    except ValueError:
        return False
    return (major, minor) < than


# ---------------------------------------------------------------- what it can


async def look(
    config: EndpointEngine, http: Http, models: Models, *, say: Callable[[str], None], phases: dict[str, float]
) -> Server:
    """The server as it is to be asked. phases: gets the seconds of this. Raises Unusable."""
    started = time.monotonic()
    name, version, by = await _recognize(http, models)
    if config.dialect not in ("auto", name):
        say(f"dialect: {config.dialect}, as configured; the server looks like {name}: {by}")
        name, version = config.dialect, version if name == config.dialect else None
    else:
        say(f"dialect: {' '.join(filter(None, [name, version]))}: {by}")
    dialect = DIALECTS[name]
    api: Api = ("chat" if dialect.chat_first else "completions") if config.api == "auto" else config.api
    ids = config.prompts == "token_ids" or (config.prompts == "auto" and dialect.token_ids)
    server = Server(
        dialect=dialect,
        api=api,
        model=config.model,
        prompts="messages" if api == "chat" else "token_ids" if ids else "text",
        names_tokens=dialect.names_tokens,
        grammar_backend=config.grammar_backend,
        structured="guided" if name == "vllm" and _before(version, (0, 11)) else "structured_outputs",
        models=models.names,
        version=version,
        max_model_len=models.max_model_len,
        body=config.body,
    )
    prober = _Prober(config, http, say)
    phases["probe_s"] = time.monotonic() - started
    server = await prober.first_token(server)
    phases["first_token_s"] = time.monotonic() - started - phases["probe_s"]
    server = await prober.guides(server)
    server = await prober.logprobs(server)
    server = dataclasses.replace(
        server,
        resets=await prober.resets(server),
        metrics=config.metrics and dialect.name == "vllm" and await prober.has_metrics(),
    )
    return dataclasses.replace(server, unsupported=(*_lacks(server), *prober.found_missing))


class _Prober:
    def __init__(self, config: EndpointEngine, http: Http, say: Callable[[str], None]) -> None:
        self._config = config
        self._http = http
        self._say = say
        self.found_missing: list[str] = []

    async def _ask(self, server: Server, request: WireRequest) -> tuple[WireResult, Flight]:
        got: list[WireResult] = []
        flight = Flight(request, total_s=self._config.timeouts.total_s)
        asker = Asker(
            config=self._config,
            server=server,
            http=self._http,
            circuit=Circuit(self._config.breaker.model_copy(update={"failures": 0})),
            deliver=got.append,
            say=self._say,
        )
        try:
            async with asyncio.timeout(self._config.timeouts.first_token_s):
                await asker.answer(flight)
        except TimeoutError as error:
            if not got:
                raise Unusable("nothing of a first answer came in time (timeouts.first_token_s)") from error
        return got[0], flight

    async def first_token(self, server: Server) -> Server:
        """Asks for a few tokens; what the server will not have is left out, as far as it can be."""
        for _ in range(_MOST_TRIES):
            temperature = 0.0 if server.temperature else 1.0
            result, flight = await self._ask(server, _request("first-token", server, temperature=temperature))
            if result.error is None:
                counts = flight.stream.counts
                return dataclasses.replace(server, counts=counts, names_tokens=counts == "token_ids")
            other = self._without(server, result)
            if other is None:
                break
            server = other
        raise Unusable(f"the server {self._config.url} gave no first token: {result.error}")

    def _without(self, server: Server, result: WireResult) -> Server | None:
        """The server as it would be asked without what it complains of; None where that is nothing that can go."""
        words = result.error or ""
        if words.startswith("HTTP 404") and server.api == "completions" and self._config.api == "auto":
            self._say(f"chat: {words}")
            return dataclasses.replace(server, api="chat", prompts="messages")
        if not result.refused:
            return None
        self._say(f"the server does not take it so: {words}")
        neutral = server.dialect.neutral
        other: dict[str, Any] = {}
        if server.usage and ("stream_options" in words or "include_usage" in words):
            other = {"usage": False}
        elif server.names_tokens and "return_token_ids" in words:
            other = {"names_tokens": False}
        elif server.limit == "max_tokens" and "max_completion_tokens" in words:
            other = {"limit": "max_completion_tokens"}
        elif server.temperature and ("temperature" in words or "top_p" in words):
            self.found_missing.append("`temperature` and `top_p`: the model takes none but its own")
            other = {"temperature": False}
        elif named := {name for name in neutral if name in words}:
            kept = {name: value for name, value in neutral.items() if name not in named}
            top_k = server.dialect.top_k and "top_k" not in named
            other = {"dialect": dataclasses.replace(server.dialect, neutral=kept, top_k=top_k)}
        elif server.prompts == "token_ids" and self._config.prompts == "auto":
            other = {"prompts": "text"}
        return dataclasses.replace(server, **other) if other else None

    async def guides(self, server: Server) -> Server:
        """Asks for guided answers, and looks whether they were guided."""
        kinds = server.dialect.guides.get(server.api, ())
        tests = {"json_schema": json.dumps(_SCHEMA), "choice": json.dumps([_WORD])}
        for kind, content in tests.items():
            if kind not in kinds:
                continue
            trying = dataclasses.replace(server, guides=kinds)
            request = _request(f"guided-{kind}", server, temperature=0.0 if server.temperature else 1.0)
            request.grammar = WireGrammar(kind=kind, content=content)
            request.sampling.max_tokens = max(24, request.sampling.max_tokens)
            result, _ = await self._ask(trying, request)
            why = result.error
            if why is None and not _obeys(kind, result.text) and (result.text or not result.reasoning):
                why = f"it was taken and not obeyed, the answer was {result.text[:60]!r}"
            if why is None:
                continue
            json_kinds = ("json_schema", "json_object")
            lost = tuple(each for each in kinds if (each in json_kinds) == (kind in json_kinds))
            self.found_missing.append(f"guides of the kinds {', '.join(lost)}: {why}")
            kinds = tuple(each for each in kinds if each not in lost)
        return dataclasses.replace(server, guides=kinds)

    async def logprobs(self, server: Server) -> Server:
        """Asks for the log-probabilities of a prompt, where that has a form."""
        form = server.dialect.logprobs
        if form is None:
            return server
        request = _request("logprobs", server, temperature=0.0)
        request.prompt_token_ids, request.continuation_start = [1, 2, 3], 1
        trying = dataclasses.replace(server, loglikelihood=form)
        result, _ = await self._ask(trying, request)
        if result.error is None:
            return trying
        self.found_missing.append(f"log-likelihoods: {result.error}")
        return server

    async def resets(self, server: Server) -> bool:
        """Whether the server has a call that empties its prefix cache; without calling it."""
        if server.dialect.reset is None:
            return False
        try:
            status, _, _ = await self._http.call("GET" if server.dialect.name == "vllm" else "OPTIONS",
                                                 f"{self._http.root}/{server.dialect.reset}")  # fmt: skip
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        return status == 405 if server.dialect.name == "vllm" else status != 404

    async def has_metrics(self) -> bool:
        try:
            status, content, _ = await self._http.call("GET", f"{self._http.root}/metrics")
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        return status == 200 and b"vllm:iteration_tokens_total_count" in content


def _request(name: str, server: Server, *, temperature: float) -> WireRequest:
    short = server.dialect.name != "openai"  # where a reasoning model answers nothing at all within too few tokens
    return WireRequest(
        request_id=name,
        prompt_token_ids=[1],
        text="Hello",
        messages=[{"role": "user", "content": "Hello"}],
        sampling=WireSampling(temperature=temperature, max_tokens=2 if short else 32),
    )


def _obeys(kind: str, text: str) -> bool:
    if kind == "choice":
        return text != "" and _WORD.startswith(text.strip())
    squeezed = "".join(text.split())
    begin = f'{{"{_WORD}":'
    return squeezed != "" and (squeezed.startswith(begin) or begin.startswith(squeezed))


def _lacks(server: Server) -> list[str]:
    """What the dialect has no words for, and what the server did not show."""
    found = []
    if not server.dialect.exact:
        found.append("answers of an exact length: the server cannot go on past the model's end of text")
    if not server.dialect.top_k:
        found.append("`top_k`")
    if server.dialect.logprobs is None:
        found.append("log-likelihoods: the server gives no log-probabilities of a prompt")
    if not server.resets:
        found.append("an empty prefix cache: the server has no call for it")
    if server.counts == "chunks":
        found.append("counts of tokens: the server tells none")
    if server.counts != "token_ids":
        found.append("the answer's token ids")
    if not server.metrics:
        found.append("the engine's steps: no metrics of vLLM are read")
    return found
