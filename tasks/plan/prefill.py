"""Whether, and into what pieces, long prompts are split so that short ones need not wait behind them.

A step of the engine takes tokens of many requests. Without a threshold one long prompt may fill a whole step; with
one it gets at most that many tokens of each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.engine import PrefillPolicy
from schemas.plan import PlannedOption

LONG_PROMPT = 1_000
"""Tokens of the longest prompt from which splitting is worth anything."""
SMALLEST = 2_048
"""The rule's number while the 95th percentile is below it."""


def percentile_floor(values: Sequence[int], percent: int) -> int:
    """The percentile with linear interpolation between the two nearest ranks, rounded down.

    In whole numbers throughout: 2,048 must not come out as 2,047.999. Raises ValueError without values.
    """
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    rank, part = divmod(percent * (len(ordered) - 1), 100)
    if part == 0:
        return ordered[rank]
    return (ordered[rank] * 100 + (ordered[rank + 1] - ordered[rank]) * part) // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """What the rule says for a set of prompts, before the engine's limits: 0 is off. All in tokens."""

    threshold: int
    longest: int
    p95: int
    reason: str


def prefill_rule(prompt_tokens: Sequence[int]) -> RuleResult:
    """Longest prompt under 1,000 tokens: off. Else, 95th percentile under 2,048: 2,048. Else 0.8 of the percentile.

    Over all prompts that the one engine gets; percentile and product rounded down. Raises ValueError without prompts.
    """
    p95 = percentile_floor(prompt_tokens, 95)
    longest = max(prompt_tokens)
    if longest < LONG_PROMPT:
        threshold = 0
        reason = f"The longest prompt has {longest:,} tokens, under {LONG_PROMPT:,}: no prompt is long enough to split."
    elif p95 < SMALLEST:
        threshold = SMALLEST
        reason = (
            f"The longest prompt has {longest:,} tokens, at least {LONG_PROMPT:,}, and 95 % have at most {p95:,}, "
            f"under {SMALLEST:,}: the rule gives {SMALLEST:,}."
        )
    else:
        threshold = p95 * 4 // 5
        reason = (
            f"95 % of the prompts have at most {p95:,} tokens, not under {SMALLEST:,}: "
            f"the rule gives 0.8 x {p95:,} = {threshold:,}."
        )
    return RuleResult(threshold=threshold, longest=longest, p95=p95, reason=reason)


def plan_prefill(
    *,
    prompt_tokens: Sequence[int],
    policy: PrefillPolicy,
    threshold: int | None,
    max_model_len: int,
    token_budget: int,
) -> list[PlannedOption]:
    """The options long_prefill_token_threshold and prefill_policy.

    A number above max_model_len, which vLLM refuses, or at or above the token budget, where it does nothing, resolves
    to 0; the evidence keeps the rule's own number. Raises ValueError without prompts, or for `fixed` without a number.
    """
    rule = prefill_rule(prompt_tokens)
    if policy == "off":
        wanted, why = 0, "You turned splitting off: a long prompt may fill a whole step."
    elif policy == "fixed":
        if threshold is None:
            raise ValueError("the policy `fixed` needs a threshold")
        wanted, why = threshold, f"You set {threshold:,} tokens."
    else:
        wanted, why = rule.threshold, rule.reason

    value = wanted
    if wanted > max_model_len:
        value = 0
        why += f" That is above max_model_len ({max_model_len:,}), which vLLM refuses, so the threshold is 0 (off)."
    elif wanted > 0 and wanted >= token_budget:
        value = 0
        why += (
            f" That is not below the token budget ({token_budget:,}), which already ends a prompt's share of a step, "
            "so it would do nothing and the threshold is 0 (off)."
        )
    elif wanted > 0:
        why += f" A longer prompt is read in pieces of {wanted:,} tokens, so that shorter ones run beside it."
    evidence = (
        f"prompts {len(prompt_tokens):,}; longest {rule.longest:,}; p95 {rule.p95:,}; the rule's own number "
        f"{rule.threshold:,}; max_model_len {max_model_len:,}; token budget {token_budget:,}"
    )
    source = "plan" if policy == "rule" or value != wanted else "user"
    explained = {
        "rule": f"The rule chooses the threshold from the prompts' lengths; here its number is {rule.threshold:,}.",
        "off": f"You turned splitting off; the rule's number would be {rule.threshold:,}.",
        "fixed": f"You gave the number {wanted:,} yourself; the rule's would be {rule.threshold:,}.",
    }
    return [
        PlannedOption(
            option="long_prefill_token_threshold",
            value=value,
            default_value=0,
            reason=why,
            evidence=evidence,
            source=source,
        ),
        PlannedOption(
            option="prefill_policy",
            value=policy,
            default_value="off",
            reason=explained[policy],
            evidence=evidence,
            source="default" if policy == "rule" else "user",
        ),
    ]
