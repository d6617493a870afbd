"""A dataset's rows as samples for one model: rendered, encoded, and made to fit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError
from schemas.sample import Choice, Grammar, Sample, Window
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.compose import Composed, Composer
from tasks.dataset.continuation import ChoiceJob, encode_choices, encode_contexts
from tasks.dataset.document import encode_documents, window_length
from tasks.dataset.guide import dataset_grammar, grammar_of
from tasks.dataset.load import LoadedDataset
from tasks.dataset.overflow import cut_choices, cut_middle, too_long
from tasks.dataset.rows import Row, sha256_hex
from tasks.dataset.shots import choose_shots
from tasks.dataset.template import check_templates
from tasks.dataset.tokenizer import Tokenizer
from tasks.dataset.windows import rolling_windows

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A row that is left out under `on_overflow: skip`. tokens: what it would have needed, its output included."""

    sample_id: str
    row_index: int
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """bos_policy: in words, which special tokens the prompts got; tokenize_s: seconds spent encoding."""

    samples: list[Sample]
    skipped: list[Skipped]
    tokenize_s: float
    template_hash: str
    bos_policy: str
    warnings: list[str]


@dataclass(slots=True, kw_only=True)
class Draft:
    """A sample in the making."""

    row: Row
    shots: list[Row]
    options: list[str]
    composed: Composed
    token_ids: list[int] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    cut_tokens: int = 0
    shots_dropped: int = 0


def prepare_samples(
    *,
    dataset: NamedDataset,
    loaded: LoadedDataset,
    tokenizer: Tokenizer,
    chat: ChatTemplate | None,
    max_len: int,
    loglikelihood: bool = False,
    generate: bool = True,
) -> Prepared:
    """Renders, encodes and fits every loaded row. Takes and raises what Preparation does."""
    preparation = Preparation(
        dataset=dataset,
        loaded=loaded,
        tokenizer=tokenizer,
        chat=chat,
        max_len=max_len,
        loglikelihood=loglikelihood,
        generate=generate,
    )
    return preparation.result(preparation.samples(loaded.rows))


class Preparation:
    """Renders, encodes and fits the rows of a dataset, all at once or some at a time.

    loaded: the dataset's columns, its examples, its warnings. max_len: tokens of a prompt with its answer.
    loglikelihood: the metrics read the choices' log-likelihoods, so each choice is encoded (one token is kept free for
    it, as the engine asks). generate: an answer is generated too, so each prompt needs room for `sampling.max_tokens`.
    keep_too_long: prompts that do not fit stay as they are, to be counted.

    Raises ConfigError: templates that do not fit the columns, an invalid grammar for the whole dataset, an output
    budget that leaves no room for a prompt; and on rows, prompts that begin with two BOS tokens, and, under
    `on_overflow: fail` (and `drop_shots`, where dropping was not enough), prompts that are too long, with their list.
    """

    def __init__(
        self,
        *,
        dataset: NamedDataset,
        loaded: LoadedDataset,
        tokenizer: Tokenizer,
        chat: ChatTemplate | None,
        max_len: int,
        loglikelihood: bool = False,
        generate: bool = True,
        keep_too_long: bool = False,
    ) -> None:
        self._dataset = dataset
        self._loaded = loaded
        self._keep_too_long = keep_too_long
        self._work = work = _Work(
            dataset=dataset, tokenizer=tokenizer, max_len=max_len, loglikelihood=loglikelihood, generate=generate
        )
        if not keep_too_long:
            work.check_budget()
        check_templates(dataset, loaded.columns)
        if loaded.shot_pool:
            check_templates(dataset, loaded.shot_columns, examples=True)
        self._shared = dataset_grammar(dataset)
        work.composer = Composer(dataset=dataset, chat=chat)
        if loglikelihood and dataset.config.choices is None:
            raise work.problem("a metric reads log-likelihoods, and the dataset has no `choices`", key="choices")
        self._skipped: list[Skipped] = []
        self._noted = _Noted()

    def samples(self, rows: Sequence[Row]) -> list[Sample]:
        """The samples of these rows; those that `on_overflow: skip` leaves out are missing."""
        work = self._work
        drafts = [work.draft(row, pool=self._loaded.shot_pool) for row in rows]
        work.encode(drafts)
        kept, skipped = (drafts, []) if self._keep_too_long else work.fit(drafts)
        self._skipped += skipped
        self._noted.add(kept, odd_bos=work.odd_bos(kept))
        return [
            _sample(draft, dataset=self._dataset, composer=work.composer, shared=self._shared, window=work.window)
            for draft in kept
        ]

    def nothing_left(self) -> ConfigError:
        """The error for a dataset of which `on_overflow: skip` has left out every row."""
        return self._work.problem(
            f"no prompt of {self._dataset.name} fits into {self._work.max_len:,} tokens: all rows are skipped",
            key="on_overflow",
            suggestion="lower max_tokens, write cut_middle, or take a model with a longer context",
        )

    def result(self, samples: list[Sample]) -> Prepared:
        """What was prepared so far. samples: what of it was kept."""
        work = self._work
        return Prepared(
            samples=samples,
            skipped=self._skipped,
            tokenize_s=work.tokenize_s,
            template_hash=work.composer.template_hash(),
            bos_policy=_bos_policy(work.composer, work.tokenizer, document=work.window is not None),
            warnings=[
                *self._loaded.warnings,
                *self._noted.warnings(self._dataset.name, skipped=len(self._skipped)),
                *([work.bos_warning()] if self._noted.odd_bos else []),
            ],
        )


class _Work:
    """What the steps of one dataset's preparation share."""

    composer: Composer

    def __init__(
        self, *, dataset: NamedDataset, tokenizer: Tokenizer, max_len: int, loglikelihood: bool, generate: bool
    ) -> None:
        self.dataset = dataset
        self.tokenizer = self._with_bos(tokenizer)
        self.max_len = max_len
        self.loglikelihood = loglikelihood
        self.budget = dataset.sampling.max_tokens if generate else 0
        self.window = self._window()
        self.tokenize_s = 0.0

    def problem(self, message: str, *, key: str, suggestion: str | None = None) -> ConfigError:
        file = Path(self.dataset.path) if self.dataset.path else None
        return ConfigError.one(message, file=file, key=key, suggestion=suggestion)

    def _with_bos(self, tokenizer: Tokenizer) -> Tokenizer:
        return self._placed(lambda: tokenizer.with_bos(self.dataset.config.bos))

    def _window(self) -> int | None:
        """Tokens that a window of a document reads; None for a dataset of prompts."""
        document = self.dataset.config.document
        return None if document is None else self._placed(lambda: window_length(document, max_len=self.max_len))

    def _placed(self, work: Callable[[], T]) -> T:
        """What `work` gives; the problem that it raises gets the dataset's file."""
        try:
            return work()
        except ConfigError as unplaced:
            [problem] = unplaced.problems
            raise self.problem(problem.message, key=problem.key or "", suggestion=problem.suggestion) from unplaced

    def check_budget(self) -> None:
        if self.budget >= self.max_len:
            raise self.problem(
                f"{self.dataset.name} may answer with {self.budget:,} tokens, and prompt and answer share "
                f"{self.max_len:,}: nothing is left for the prompt",
                key="max_tokens",
                suggestion=f"write less than {self.max_len:,}",
            )

    def draft(self, row: Row, *, pool: Sequence[Row]) -> Draft:
        shots = choose_shots(dataset=self.dataset, pool=pool, row=row)
        return Draft(
            row=row,
            shots=shots,
            options=self.composer.choices(row),
            composed=self.composer.compose(row, shots=shots),
        )

    def encode(self, drafts: Sequence[Draft]) -> None:
        """Token ids of prompts and choices. Raises ConfigError for a prompt with two BOS, a choice without a token."""
        start = time.perf_counter()
        if self.window is not None:
            self._encode_documents(drafts, window=self.window)
            self.tokenize_s += time.perf_counter() - start
            return
        special = not self.composer.is_chat
        prompts = self.tokenizer.encode_batch([d.composed.prompt for d in drafts], add_special_tokens=special)
        for draft, token_ids in zip(drafts, prompts, strict=True):
            draft.token_ids = token_ids or self.tokenizer.empty_context()
            if self.tokenizer.has_double_bos(token_ids):
                raise self.problem(
                    f"row {draft.row.row_index}: the prompt begins with the BOS token "
                    f"{self.tokenizer.bos_token!r} twice",
                    key="prompt",
                    suggestion="take it out of the prompt, the tokenizer adds one"
                    if special
                    else "take it out of the messages, the chat template adds one",
                )
        if self.loglikelihood:
            self._encode_choices(drafts)
        self.tokenize_s += time.perf_counter() - start

    def _encode_documents(self, drafts: Sequence[Draft], *, window: int) -> None:
        texts = [draft.composed.prompt for draft in drafts]
        rows = [draft.row.row_index for draft in drafts]
        encoded = self._placed(lambda: encode_documents(texts, rows=rows, tokenizer=self.tokenizer))
        context = 1 if self.dataset.config.document is None else self.dataset.config.document.context
        for draft, token_ids in zip(drafts, encoded, strict=True):
            draft.token_ids = token_ids
            draft.windows = rolling_windows(len(token_ids) - 1, window=window, context=context)

    def _encode_choices(self, drafts: Sequence[Draft]) -> None:
        if self.dataset.config.continuation is not None:
            self._encode_contexts(drafts)
            return
        jobs = [
            ChoiceJob(
                context=draft.composed.prompt,
                context_ids=draft.token_ids if draft.composed.prompt else [],
                delimiter=self.composer.delimiter(draft.composed.prompt),
                options=draft.options,
            )
            for draft in drafts
        ]
        try:
            encoded = encode_choices(jobs, tokenizer=self.tokenizer, add_special_tokens=not self.composer.is_chat)
        except ValueError as empty:
            raise self.problem(str(empty), key="choices") from empty
        for draft, choices in zip(drafts, encoded, strict=True):
            draft.choices = choices

    def _encode_contexts(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            try:
                draft.choices = encode_contexts(
                    context=draft.composed.prompt,
                    options=draft.options,
                    continuation=self.composer.continuation(draft.row) or "",
                    tokenizer=self.tokenizer,
                    special=not self.composer.is_chat,
                )
            except ValueError as empty:
                raise self.problem(f"row {draft.row.row_index}: {empty}", key="continuation") from empty

    def needed(self, draft: Draft) -> int:
        """Tokens that the engine must have room for: prompt and output, or the longest choice (window) and one more."""
        generated = len(draft.token_ids) + self.budget if self.budget else 0
        scored = [len(choice.token_ids) + 1 for choice in draft.choices]
        return max([generated, *scored, *(window.end - window.begin + 1 for window in draft.windows)])

    def fit(self, drafts: list[Draft]) -> tuple[list[Draft], list[Skipped]]:
        """Applies on_overflow. Every draft is looked at, and every token that is cut is counted."""
        over = self._over(drafts)
        policy = self.dataset.config.on_overflow
        if policy == "drop_shots":
            while droppable := [draft for draft in over if draft.shots]:
                for draft in droppable:
                    draft.shots.pop()
                    draft.shots_dropped += 1
                    draft.composed = self.composer.compose(draft.row, shots=draft.shots)
                self.encode(droppable)
                over = self._over(over)
        elif policy == "cut_middle":
            for draft in over:
                self._cut(draft)
        elif policy == "skip":
            left_out = {draft.row.sample_id for draft in over}
            skipped = [self._skipped(draft) for draft in over]
            return [draft for draft in drafts if draft.row.sample_id not in left_out], skipped
        if policy != "cut_middle" and over:
            raise too_long(
                [(draft.row.sample_id, self.needed(draft)) for draft in over],
                dataset=self.dataset,
                max_len=self.max_len,
                budget=self.budget,
            )
        return drafts, []

    def _over(self, drafts: Sequence[Draft]) -> list[Draft]:
        return [draft for draft in drafts if self.needed(draft) > self.max_len]

    def _cut(self, draft: Draft) -> None:
        draft.token_ids, cut = cut_middle(draft.token_ids, keep=self.max_len - max(self.budget, 1))
        try:
            draft.choices, cut_of_choices = cut_choices(draft.choices, max_len=self.max_len)
        except ValueError as longer:
            raise self.problem(f"row {draft.row.row_index}: {longer}", key="choices") from longer
        draft.cut_tokens = max(cut, cut_of_choices)

    def _skipped(self, draft: Draft) -> Skipped:
        tokens = self.needed(draft)
        return Skipped(
            sample_id=draft.row.sample_id,
            row_index=draft.row.row_index,
            tokens=tokens,
            reason=f"needs {tokens:,} tokens, {self.max_len:,} are there",
        )

    def odd_bos(self, drafts: Sequence[Draft]) -> bool:
        """Whether a prompt lacks the BOS that the model's own files ask for."""
        tokenizer = self.tokenizer
        if tokenizer.bos_policy != "auto":
            return False
        asked = tokenizer.adds_bos() if self.composer.is_chat else tokenizer.asks_for_bos
        return asked and any(draft.token_ids[:1] != [tokenizer.bos_token_id] for draft in drafts)

    def bos_warning(self) -> str:
        """What is odd about the special tokens where odd_bos found it."""
        name = self.dataset.name
        if self.composer.is_chat:
            return f"{name}: the tokenizer puts BOS before plain text, the chat template does not: check the model"
        return f"{name}: tokenizer_config.json asks for BOS and tokenizer.json does not add it: prompts have none"


def _sample(
    draft: Draft, *, dataset: NamedDataset, composer: Composer, shared: Grammar | None, window: int | None
) -> Sample:
    row, config = draft.row, dataset.config
    grammar, error = grammar_of(guide=config.guide, shared=shared, fields=row.fields, choices=draft.options)
    cluster = None if config.cluster is None else row.fields.get(config.cluster)
    return Sample(
        dataset=dataset.name,
        sample_id=row.sample_id,
        row_index=row.row_index,
        raw=row.raw,
        input=row.fields,
        prompt=draft.composed.prompt,
        prompt_hash=sha256_hex(draft.composed.prompt)[:16],
        prompt_token_ids=draft.token_ids,
        messages=draft.composed.messages,
        target=composer.target(row),
        choices=draft.choices,
        grammar=grammar,
        grammar_error=error,
        replaced_characters=draft.composed.replaced_characters,
        cut_tokens=draft.cut_tokens,
        shots_dropped=draft.shots_dropped,
        cluster=None if cluster is None else str(cluster),
        # What follows a window is generated in any case, and is not looked at.
        max_tokens=dataset.sampling.max_tokens if window is None else 1,
        windows=draft.windows,
        window=window,
        counted=composer.counted(row),
    )


def _bos_policy(composer: Composer, tokenizer: Tokenizer, *, document: bool) -> str:
    if document:
        return "document: " + ("BOS" if tokenizer.bos_token_id is not None else "EOS, for want of BOS,") + " in front"
    if tokenizer.bos_policy == "always":
        return f"{'chat template' if composer.is_chat else 'text'}: exactly one BOS in front"
    if composer.is_chat:
        return "chat template: no special tokens added"
    if tokenizer.bos_policy == "never":
        return "text: no BOS"
    return "text: the tokenizer's post-processor adds " + ("BOS" if tokenizer.adds_bos() else "no BOS")


_COUNTED: tuple[tuple[Callable[[Draft], int], str], ...] = (
    (lambda draft: draft.cut_tokens, "tokens cut from the middle of {} prompts"),
    (lambda draft: draft.shots_dropped, "examples dropped from {} prompts"),
    (lambda draft: draft.composed.replaced_characters, "characters of {} prompts replaced by U+FFFD"),
    (lambda draft: sum(choice.encoded_apart for choice in draft.choices), "choices of {} samples encoded apart"),
    (lambda draft: not draft.composed.prompt, "of {} prompts empty: BOS or EOS stands for them"),
)


class _Noted:
    """Counts what a reader should know of the samples: of each kind how many, and in how many samples."""

    def __init__(self) -> None:
        self._totals = [0] * len(_COUNTED)
        self._samples = [0] * len(_COUNTED)
        self.odd_bos = False

    def add(self, drafts: Sequence[Draft], *, odd_bos: bool) -> None:
        self.odd_bos = self.odd_bos or odd_bos
        for place, (count, _) in enumerate(_COUNTED):
            values = [count(draft) for draft in drafts]
            self._totals[place] += sum(values)
            self._samples[place] += sum(value > 0 for value in values)

    def warnings(self, name: str, *, skipped: int) -> list[str]:
        found = [
            f"{name}: {total:,} {text.format(f'{samples:,}')}"
            for total, samples, (_, text) in zip(self._totals, self._samples, _COUNTED, strict=True)
            if total
        ]
        return [*found, f"{name}: {skipped:,} rows skipped: too long"] if skipped else found
