"""A dataset's rows as samples for one model: rendered, encoded, and made to fit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError
from schemas.sample import Sample
from tasks.dataset.bos import bos_words, lack_words, lacks_bos
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.compose import Composer
from tasks.dataset.continuation import ChoiceJob, encode_choices, encode_contexts
from tasks.dataset.document import encode_documents, window_length
from tasks.dataset.draft import Draft, sample_of
from tasks.dataset.guide import dataset_grammar
from tasks.dataset.load import LoadedDataset
from tasks.dataset.notes import Notes
from tasks.dataset.overflow import cut_choices, cut_middle, too_long
from tasks.dataset.rows import Row
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
        self._notes = Notes()
        self._lacks_bos = False

    def samples(self, rows: Sequence[Row]) -> list[Sample]:
        """The samples of these rows; those that `on_overflow: skip` leaves out are missing."""
        work = self._work
        drafts = [work.draft(row, pool=self._loaded.shot_pool) for row in rows]
        work.encode(drafts)
        kept, skipped = (drafts, []) if self._keep_too_long else work.fit(drafts)
        self._skipped += skipped
        self._notes.add(kept)
        self._lacks_bos = self._lacks_bos or lacks_bos(
            (draft.token_ids for draft in kept), tokenizer=work.tokenizer, is_chat=work.composer.is_chat
        )
        return [
            sample_of(draft, dataset=self._dataset, composer=work.composer, shared=self._shared, window=work.window)
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
        work, name, is_chat = self._work, self._dataset.name, self._work.composer.is_chat
        return Prepared(
            samples=samples,
            skipped=self._skipped,
            tokenize_s=work.tokenize_s,
            template_hash=work.composer.template_hash(),
            bos_policy=bos_words(work.tokenizer, is_chat=is_chat, document=work.window is not None),
            warnings=[
                *self._loaded.warnings,
                *self._notes.warnings(name, skipped=len(self._skipped)),
                *([lack_words(name, is_chat=is_chat)] if self._lacks_bos else []),
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
