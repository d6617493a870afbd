"""How many tokens one prompt and its answer may have together."""

from schemas.errors import ConfigError
from schemas.plan import ModelFacts, PlannedLoad, PlannedOption

STEP = 16
KEY = "engine.max_model_len"
SHOWN = 5
"""How many of the requests that do not fit a message lists."""


def request_tokens(load: PlannedLoad) -> list[int]:
    """The most tokens that each request can come to: its prompt and its whole output budget.

    Raises ValueError if the load's two lists differ in length.
    """
    return [prompt + output for prompt, output in zip(load.prompt_tokens, load.output_tokens, strict=True)]


def round_up(number: int, step: int) -> int:
    """The smallest multiple of `step` that is not below `number`."""
    return -(-number // step) * step


def _too_long(*, load: PlannedLoad, limit: int, what: str, suggestion: str) -> ConfigError:
    longest_first = sorted(enumerate(request_tokens(load), start=1), key=lambda item: -item[1])
    over = [(number, total) for number, total in longest_first if total > limit]
    listed = [
        f"request {number}: {load.prompt_tokens[number - 1]:,} prompt + {load.output_tokens[number - 1]:,} output"
        f" = {total:,} tokens"
        for number, total in over[:SHOWN]
    ]
    more = f"; and {len(over) - SHOWN:,} more" if len(over) > SHOWN else ""
    do_not_fit = "1 request does not fit" if len(over) == 1 else f"{len(over):,} requests do not fit"
    message = f"{do_not_fit} (of {len(load.prompt_tokens):,}) into {what}: {'; '.join(listed)}{more}"
    return ConfigError.one(message, key=KEY, suggestion=suggestion)


def plan_max_model_len(*, load: PlannedLoad, model: ModelFacts, asked: int | str) -> PlannedOption:
    """`asked` if it is a number; for `auto` the smallest multiple of 16 that holds every prompt with its output
    budget, at most what the model takes.

    Raises ConfigError if there is no request, if a request fits neither the number nor the model (with the longest
    of them), or if the number is more than the model takes.
    """
    totals = request_tokens(load)
    if not totals:
        raise ConfigError.one("there is no request to plan for: every dataset is empty")
    limit = model.max_position_embeddings
    longest = max(totals)
    at = totals.index(longest)
    prompt, output = load.prompt_tokens[at], load.output_tokens[at]
    evidence = (
        f"longest of {len(totals):,} requests: {prompt:,} prompt + {output:,} output = {longest:,}; "
        f"model's limit {limit:,}"
    )
    if isinstance(asked, int):
        if asked > limit:
            message = f"{asked:,} tokens is more than the model takes, which is {limit:,}"
            raise ConfigError.one(message, key=KEY, suggestion=f"at most {limit}, or auto")
        if longest > asked:
            fitting = round_up(longest, STEP)
            suggestion = f"at least {longest}, or auto" if longest <= limit else "shorten the prompts or max_tokens"
            if fitting <= limit:
                suggestion = f"auto would choose {fitting}"
            raise _too_long(load=load, limit=asked, what=f"max_model_len {asked:,}", suggestion=suggestion)
        value, source = asked, "user"
        would_change = f"engine.max_model_len; auto would choose {min(round_up(longest, STEP), limit):,}"
        reason = f"You set {asked:,}. The longest request needs {longest:,} tokens with its whole answer, so all fit."
    else:
        if longest > limit:
            suggestion = "lower max_tokens, or set the dataset's on_overflow to cut_middle or skip"
            raise _too_long(load=load, limit=limit, what=f"the model's {limit:,} tokens", suggestion=suggestion)
        value, source = min(round_up(longest, STEP), limit), "plan"
        would_change = (
            f"a longest request of another length than {longest:,} tokens (the prompts, a dataset's "
            "sampling.max_tokens); engine.max_model_len"
        )
        reason = (
            f"The longest request is {prompt:,} prompt tokens and up to {output:,} of answer, {longest:,} together; "
            f"{value:,} is "
            + (
                "the most that the model takes."
                if value == limit
                else f"the smallest multiple of {STEP} that holds it."
            )
        )
    return PlannedOption(
        option="max_model_len",
        value=value,
        default_value=limit,
        reason=reason,
        evidence=evidence,
        source=source,
        would_change=would_change,
    )
