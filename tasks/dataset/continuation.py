"""Encoding a choice as the continuation of its prompt, for its log-likelihood.

As lm-evaluation-harness defines it: trailing white space of the context goes to the continuation, both are encoded
together, and the result is cut at the length of the context encoded by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schemas.sample import Choice
from tasks.dataset.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceJob:
    """One context with its token ids, and its options. delimiter: what stands between the two in a text prompt."""

    context: str
    context_ids: list[int]
    delimiter: str
    options: Sequence[str]


def encode_choices(jobs: Sequence[ChoiceJob], *, tokenizer: Tokenizer, add_special_tokens: bool) -> list[list[Choice]]:
    """Each job's options as Choice objects, in their order.

    A continuation that the joint encoding leaves without a token is encoded by itself and flagged. Raises ValueError,
    with the option, when it has no token even then."""
    stems = [job.context.rstrip() for job in jobs]
    tails = [job.context[len(stem) :] + job.delimiter for job, stem in zip(jobs, stems, strict=True)]
    contexts = [job.context_ids for job in jobs]
    moved = [index for index, job in enumerate(jobs) if stems[index] != job.context or not job.context]
    again = tokenizer.encode_batch([stems[index] for index in moved], add_special_tokens=add_special_tokens)
    for index, ids in zip(moved, again, strict=True):
        contexts[index] = ids
    flat = [(index, tails[index] + option, option) for index, job in enumerate(jobs) for option in job.options]
    joint = tokenizer.encode_batch([stems[i] + text for i, text, _ in flat], add_special_tokens=add_special_tokens)
    result: list[list[Choice]] = [[] for _ in jobs]
    for (index, text, option), ids in zip(flat, joint, strict=True):
        result[index].append(_choice(contexts[index], ids, text=text, option=option, tokenizer=tokenizer))
    return result


def encode_contexts(
    *, context: str, options: Sequence[str], continuation: str, tokenizer: Tokenizer, special: bool
) -> list[Choice]:
    """The options as contexts: each stands right at the end of the prompt, and what is scored is the same continuation
    behind each of them (partial evaluation, Trinh and Le 2018). A choice keeps its option's text."""
    contexts = [context + option for option in options]
    encoded = tokenizer.encode_batch(contexts, add_special_tokens=special)
    jobs = [
        ChoiceJob(
            context=text,
            context_ids=ids,
            delimiter="" if text[-1:].isspace() or continuation[:1].isspace() else " ",
            options=[continuation],
        )
        for text, ids in zip(contexts, encoded, strict=True)
    ]
    scored = encode_choices(jobs, tokenizer=tokenizer, add_special_tokens=special)
    return [replace(choice, text=option) for option, [choice] in zip(options, scored, strict=True)]


def _choice(context: list[int], joint: list[int], *, text: str, option: str, tokenizer: Tokenizer) -> Choice:
    if not context:
        alone = tokenizer.encode(text, add_special_tokens=False)
        first = tokenizer.empty_context()
        # An option that itself begins with that token is not given a second one.
        whole = alone if alone[:1] == first and len(alone) > 1 else first + alone
        return _checked(Choice(text=option, token_ids=whole, start=1), option)
    if len(joint) > len(context):
        return Choice(text=option, token_ids=joint, start=len(context))
    alone = tokenizer.encode(text, add_special_tokens=False)
    return _checked(Choice(text=option, token_ids=context + alone, start=len(context), encoded_apart=True), option)


def _checked(choice: Choice, option: str) -> Choice:
    if len(choice.token_ids) <= choice.start:
        raise ValueError(f"the choice {option!r} has no token")
    return choice
