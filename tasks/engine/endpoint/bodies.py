"""A request as the body of a call, in the words of the server's dialect."""

import json
from typing import Any

from schemas.endpoint import Api
from tasks.engine.endpoint.dialects import Server
from tasks.engine.grammar_form import NoForm, engine_form, vllm_arguments
from tasks.engine.protocol import WireGrammar, WireRequest, WireSampling

PATHS: dict[Api, str] = {"completions": "completions", "chat": "chat/completions"}
_ANY_OBJECT = {"type": "object"}
_GUIDED = {"json": "guided_json", "regex": "guided_regex", "choice": "guided_choice", "grammar": "guided_grammar"}
"""vLLM's names before 0.11."""


class CannotSay(Exception):
    """The server cannot be asked this; the message says why."""


def body(request: WireRequest, server: Server) -> dict[str, Any]:
    """The body of a call that answers the request as a stream. Raises CannotSay."""
    found: dict[str, Any] = {"model": _model(request, server), **_prompt(request, server), "stream": True}
    if server.usage:
        found["stream_options"] = {"include_usage": True}
    if server.names_tokens:
        found["return_token_ids"] = True
    found |= _sampling(request.sampling, server)
    if request.grammar is not None:
        found |= guide(request.grammar, server)
    return found | dict(server.body)


def loglikelihood_body(request: WireRequest, server: Server) -> dict[str, Any]:
    """The body of a call for the log-probabilities of a prompt, which is no stream. Raises CannotSay."""
    if server.loglikelihood is None:
        raise CannotSay(f"a log-likelihood: the server gives no log-probabilities of a prompt ({server.dialect.name})")
    found = {
        "model": _model(request, server),
        "prompt": request.prompt_token_ids,
        server.limit: 1,
        "temperature": 0.0,
    }
    asked = {"prompt_logprobs": 0} if server.loglikelihood == "prompt_logprobs" else {"echo": True, "logprobs": 1}
    return found | asked | dict(server.body)


def _model(request: WireRequest, server: Server) -> str:
    if request.adapter is None:
        return server.model
    if request.adapter not in server.models:
        raise CannotSay(f"the adapter `{request.adapter}`: the server has no model of that name")
    return request.adapter


def _prompt(request: WireRequest, server: Server) -> dict[str, Any]:
    match server.prompts:
        case "token_ids":
            return {"prompt": request.prompt_token_ids}
        case "messages":
            if request.messages is None:
                raise CannotSay("it came without messages, and the server is asked by chat: set `api: completions`")
            return {"messages": request.messages}
    if request.text is None:
        raise CannotSay("it came without its text, and the server takes no token ids")
    return {"prompt": request.text}


def _sampling(sampling: WireSampling, server: Server) -> dict[str, Any]:
    dialect = server.dialect
    found: dict[str, Any] = {server.limit: sampling.max_tokens, **dialect.neutral}
    if server.temperature:
        found |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
    elif sampling.temperature != 1.0 or sampling.top_p != 1.0:
        raise CannotSay("the model takes no `temperature` or `top_p`: set `temperature: 1`")
    if sampling.top_k:
        if not dialect.top_k:
            raise CannotSay(f"`top_k`: {dialect.name} has no such field")
        found["top_k"] = sampling.top_k
    if sampling.seed is not None:
        found["seed"] = sampling.seed
    if sampling.stop:
        found["stop"] = sampling.stop
    if sampling.ignore_eos:
        if not dialect.exact:
            raise CannotSay(f"an answer of an exact length: {dialect.name} cannot go on past the model's end of text")
        found["ignore_eos"] = True
    return found


def guide(grammar: WireGrammar, server: Server) -> dict[str, Any]:
    """The fields that guide an answer. Raises CannotSay: a guided answer is never asked for without its guide."""
    dialect = server.dialect.name
    if grammar.kind not in server.guides:
        known = ", ".join(server.guides) or "none"
        raise CannotSay(
            f"a guide of the kind {grammar.kind}: {dialect} has no form for it by {server.api} (it has: {known})"
        )
    if dialect == "vllm":
        return _vllm(grammar, server)
    if grammar.after is not None:
        raise CannotSay(f"anything free before a guided answer: {dialect} has no form for it")
    if grammar.kind in ("json_schema", "json_object"):
        schema = _ANY_OBJECT if grammar.kind == "json_object" else json.loads(grammar.content)
        return _json(schema, kind=grammar.kind, server=server)
    if grammar.kind == "regex":
        return {"regex": grammar.content}
    return {"ebnf" if dialect == "sglang" else "grammar": _gbnf(grammar, dialect)}


def _vllm(grammar: WireGrammar, server: Server) -> dict[str, Any]:
    try:
        form, content = engine_form(
            kind=grammar.kind, content=grammar.content, after=grammar.after, backend=server.grammar_backend
        )
    except NoForm as error:
        raise CannotSay(str(error)) from error
    arguments = vllm_arguments(form=form, content=content)
    if server.structured == "structured_outputs":
        return {"structured_outputs": arguments}
    if form == "json_object":
        return {"response_format": {"type": "json_object"}}
    (name, value), *_ = arguments.items()
    if name not in _GUIDED:
        raise CannotSay(f"a guide of the kind {grammar.kind}: vLLM {server.version} has no form for it")
    return {_GUIDED[name]: value}


def _json(schema: Any, *, kind: str, server: Server) -> dict[str, Any]:
    dialect, by_chat = server.dialect.name, server.api == "chat"
    if dialect == "llama_cpp_python":
        return {"response_format": {"type": "json_object", "schema": schema}}
    if not by_chat:  # sglang takes a text, llama.cpp the schema itself
        return {"json_schema": json.dumps(schema, ensure_ascii=False) if dialect == "sglang" else schema}
    if kind == "json_object" and dialect != "lmstudio":  # which knows only schemas
        return {"response_format": {"type": "json_object"}}
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    }


def _gbnf(grammar: WireGrammar, dialect: str) -> str:
    """A grammar in the notation that llama.cpp and xgrammar share."""
    if grammar.kind == "choice":
        return "root ::= " + " | ".join(json.dumps(each, ensure_ascii=False) for each in json.loads(grammar.content))
    if grammar.kind != "ebnf":
        if "::=" not in grammar.content:
            raise CannotSay(f"a guide of the kind {grammar.kind}, written for llguidance: {dialect} takes GBNF")
        return grammar.content
    written = json.loads(grammar.content)
    taken = ("gbnf", "xgrammar") if dialect == "sglang" else ("gbnf",)
    if written["flavour"] not in taken:
        raise CannotSay(
            f"a grammar of the flavour {written['flavour']}: {dialect} takes {' and '.join(taken)}, no other"
        )
    return str(written["grammar"])
