"""What all backends share inside the child process: the tokenizer, vLLM's settings and checks, compiling, matching.

vLLM's own objects are used throughout, so that a verdict here is the engine's. Only the child process imports this.
"""

import importlib
import inspect
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tasks.engine.grammar_form import vllm_arguments
from tasks.guide.backends.adapter import Adapter
from tasks.guide.backends.known import BACKENDS
from tasks.guide.backends.spaces import Spaces
from tasks.guide.backends.tokens import Encoder, load_tokenizer, stop_tokens

_REST_SHOWN = 60
MOST_KEPT = 16
"""Compiled grammars that the child holds at once."""


@dataclass
class Built:
    """A compiled grammar, and what it belongs to."""

    adapter: Adapter
    backend: Any
    grammar: Any
    spaces_after: str
    """The separators of JSON after some of which the text may need a space."""
    bitmask: Any = None


@dataclass
class Room:
    """The backends of one model's tokenizer. model: its folder; None: a tokenizer of single bytes."""

    model: Path | None
    tokenizer: Any = None
    vocab_size: int = 0
    stops: set[int] = field(default_factory=set)
    model_config: Any = None
    _backends: dict[tuple[str, bool], Any] = field(default_factory=dict)
    _built: dict[int, Built] = field(default_factory=dict)

    def open(self) -> None:
        """Loads the tokenizer. Raises what transformers raises."""
        self.tokenizer, self.vocab_size, model_type = load_tokenizer(self.model)
        self.encoder = Encoder(self.tokenizer)
        self.stops = stop_tokens(self.tokenizer, self.model)
        self.model_config = SimpleNamespace(
            is_diffusion=False, hf_config=SimpleNamespace(model_type=model_type), get_vocab_size=lambda: self.vocab_size
        )

    def settings(self, *, backend: str, whitespace: bool) -> Any:
        """What vLLM's StructuredOutputsConfig would say, by the options of assay's engine."""
        return SimpleNamespace(
            backend=backend,
            disable_any_whitespace=not whitespace,
            disable_additional_properties=False,
            enable_in_reasoning=False,
        )

    def backend(self, name: str, *, whitespace: bool) -> tuple[Adapter, Any]:
        """A backend, made when it is first asked for."""
        adapter: Adapter = importlib.import_module(f"tasks.guide.backends.{BACKENDS[name].module}").ADAPTER
        key = (name, whitespace)
        if key not in self._backends:
            config = SimpleNamespace(
                structured_outputs_config=self.settings(backend=name, whitespace=whitespace),
                model_config=self.model_config,
                speculative_config=None,
            )
            self._backends[key] = adapter.build(config=config, tokenizer=self.tokenizer, vocab_size=self.vocab_size)
        return adapter, self._backends[key]

    def compile(self, asked: dict[str, Any]) -> dict[str, Any]:
        """vLLM's checks of a request, then its backend's compiler. `handle` in `asked` is the grammar's name later."""
        from vllm.v1.structured_output.request import get_structured_output_key  # noqa: PLC0415 - costs seconds

        name, whitespace = asked["backend"], asked["whitespace"]
        answer: dict[str, Any] = {"backend": name, "check_s": None, "compile_s": None}
        started = time.perf_counter()
        try:
            params = self._checked(asked)
        except Exception as error:  # noqa: BLE001 - what a backend raises is the answer
            return answer | _refusal(error, stage="check") | {"check_s": time.perf_counter() - started}
        answer["check_s"] = time.perf_counter() - started
        answer["backend"] = used = params._backend or name
        adapter, backend = self.backend(used, whitespace=whitespace)
        before = _resident_bytes()
        started = time.perf_counter()
        try:
            kind, spec = get_structured_output_key(params)
            grammar = backend.compile_grammar(kind, spec, **_stops(backend, self.stops))
        except Exception as error:  # noqa: BLE001 - what a backend raises is the answer
            return answer | _refusal(error, stage="compile") | {"compile_s": time.perf_counter() - started}
        answer["compile_s"] = time.perf_counter() - started
        fault = adapter.fault(grammar)
        if fault is not None:
            return answer | {"status": "refused", "stage": "compile", "words": fault}
        forbidden = not whitespace and asked["kind"] in ("json_schema", "json_object")
        spaces_after = adapter.spaces_after() if forbidden else ""
        while len(self._built) >= MOST_KEPT:
            del self._built[next(iter(self._built))]
        self._built[asked["handle"]] = Built(
            adapter=adapter, backend=backend, grammar=grammar, spaces_after=spaces_after
        )
        return answer | {
            "status": "accepted",
            "grown_bytes": max(0, _resident_bytes() - before),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def _checked(self, asked: dict[str, Any]) -> Any:
        """The request's StructuredOutputsParams after vLLM's own validation, which may rewrite it."""
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams  # noqa: PLC0415 - costs seconds

        given = vllm_arguments(form=asked["kind"], content=asked["content"])
        params = SamplingParams(structured_outputs=StructuredOutputsParams(**given))
        check = params._validate_structured_outputs
        known = {
            "model_config": self.model_config,
            "structured_outputs_config": self.settings(backend=asked["backend"], whitespace=asked["whitespace"]),
            "tokenizer": self.tokenizer,
        }
        check(**{name: known[name] for name in inspect.signature(check).parameters if name in known})
        return params.structured_outputs

    def match(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Feeds a text's tokens, and says whether the answer might end after them."""
        built = self._built.get(asked["handle"])
        if built is None:
            return {"status": "unknown"}
        text, how = asked["text"], {"masks": asked["masks"], "apart": asked["apart"]}
        if not built.spaces_after:
            return self._fed(built, text, **how)
        spaces = Spaces(text, after=built.spaces_after)
        while True:
            answer = self._fed(built, spaces.text, **how)
            if answer["accepted"] or not spaces.space_before(answer["char"]):
                return answer | {"spaced": spaces.spaced}

    def _fed(self, built: Built, text: str, *, masks: bool, apart: bool) -> dict[str, Any]:
        built.adapter.reset(built.grammar)
        if built.bitmask is None:
            built.bitmask = built.backend.allocate_token_bitmask(1)
        row = built.bitmask.numpy()[0]
        tokens = self.encoder.encode(text, apart=apart)
        spent: list[float] = []
        no: str | None = None
        at = 0
        for at, token in enumerate(tokens.ids):  # noqa: B007 - the last position is used below
            if masks:
                spent.append(_fill(built))
                if not _bit(row, token):
                    no = "mask"
                    break
            if not built.adapter.advance(built.grammar, token):
                no = "token"
                break
        else:
            at = len(tokens.ids)
            spent.append(_fill(built))
            if not any(_bit(row, stop) for stop in self.stops):
                no = "end"
        answer: dict[str, Any] = {"status": "answered", "accepted": no is None, "why": no, "tokens": len(tokens.ids)}
        answer["mask_us"] = spent if masks else []
        if no is not None:
            ended = at >= len(tokens.ids)
            answer["char"] = len(text) + 1 if ended else tokens.ends[at]
            start = len(text) if ended else tokens.starts[at]
            answer["rest"] = text[start : start + _REST_SHOWN]
        return answer


def _fill(built: Built) -> float:
    """Fills the mask of the next token; microseconds."""
    started = time.perf_counter_ns()
    built.grammar.fill_bitmask(built.bitmask, 0)
    return (time.perf_counter_ns() - started) / 1000


def _bit(row: Any, token: int) -> bool:
    word = token >> 5
    return word < len(row) and bool((int(row[word]) >> (token & 31)) & 1)


def _stops(backend: Any, stops: set[int]) -> dict[str, Any]:
    """Older releases do not pass the stop tokens on."""
    known = inspect.signature(backend.compile_grammar).parameters
    return {"stop_token_ids": stops} if "stop_token_ids" in known else {}


def _refusal(error: Exception, *, stage: str) -> dict[str, Any]:
    words = str(error) or type(error).__name__
    late = "timed out" in words and "Regex compilation" in words
    return {"status": "timed out" if late else "refused", "stage": stage, "words": words}


def _resident_bytes() -> int:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize()
