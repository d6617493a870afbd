"""The token profile of one dataset for one model, without a run: rows are read, rendered, counted and let go."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from schemas.dataset import NamedDataset
from schemas.plan import PlannedLoad
from schemas.profile import Profile
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.load import survey_rows, used_rows
from tasks.dataset.prepare import Preparation
from tasks.dataset.tokenizer import Tokenizer
from tasks.profile import ProfileBuilder
from tasks.requests import plan_requests, planned_load

_AT_ONCE = 512
"""Rows that are held while they are rendered and encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledDataset:
    """profile: of the prompts, which are the same in every arm; load: all requests of these arms; bos_policy: in
    words; changed: prompts that were cut, lost examples or were left out; warnings: for the reader."""

    profile: Profile
    load: PlannedLoad
    rows_total: int
    fingerprint: str
    bos_policy: str
    changed: int
    warnings: list[str]


def profile_dataset(
    dataset: NamedDataset,
    *,
    tokenizer: Tokenizer,
    chat: ChatTemplate | None,
    max_len: int,
    needs: Sequence[str],
    arms: Sequence[str],
) -> ProfiledDataset:
    """Two passes over the rows: one that checks them, one that renders them, a few hundred in memory at a time.

    max_len: tokens of a prompt with its answer. needs: what the metrics read. Prompts that do not fit under
    `on_overflow: fail` are counted, not refused. Raises ConfigError for data that cannot be used, and where
    `on_overflow` leaves no row."""
    loaded = survey_rows(dataset)
    preparation = Preparation(
        dataset=dataset,
        loaded=loaded,
        tokenizer=tokenizer,
        chat=chat,
        max_len=max_len,
        loglikelihood="loglikelihood" in needs,
        generate="generate" in needs,
        keep_too_long=dataset.config.on_overflow == "fail",
    )
    builder = ProfileBuilder()
    prompt_tokens, output_tokens = array("i"), array("i")
    changed = 0
    rows = used_rows(dataset)
    while part := list(islice(rows, _AT_ONCE)):
        samples = preparation.samples(part)
        builder.add(samples)
        changed += sum(bool(sample.cut_tokens or sample.shots_dropped) for sample in samples)
        requests = planned_load(plan_requests(dataset=dataset, samples=samples, arms=arms, needs=needs))
        prompt_tokens.extend(requests.prompt_tokens)
        output_tokens.extend(requests.output_tokens)
    prepared = preparation.result([])
    if not len(builder):
        raise preparation.nothing_left()
    return ProfiledDataset(
        profile=builder.profile(
            dataset=dataset.name,
            arm=arms[0],
            max_len=max_len,
            tokenizer_fingerprint=tokenizer.fingerprint,
            tokenize_s=prepared.tokenize_s,
        ),
        load=PlannedLoad(prompt_tokens=prompt_tokens.tolist(), output_tokens=output_tokens.tolist()),
        rows_total=loaded.rows_total,
        fingerprint=loaded.fingerprint,
        bos_policy=prepared.bos_policy,
        changed=changed + len(prepared.skipped),
        warnings=prepared.warnings,
    )
