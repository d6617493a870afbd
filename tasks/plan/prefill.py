"""Whether, and into what pieces, long prompts are split so that short ones need not wait behind them.

A step of the engine takes tokens of many requests. Without a threshold one long prompt may fill a whole step; with
one it gets at most that many tokens of each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from schemas.engine import Prefill, PrefillPolicy
from schemas.plan import DeviceFacts, ModelFacts, PlannedOption
from tasks.plan.prefill_auto import LONG_PROMPT, plan_auto, what_it_gains

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
    would_change: str


def prefill_rule(prompt_tokens: Sequence[int]) -> RuleResult:
    """Longest prompt under 1,000 tokens: off. Else, 95th percentile under 2,048: 2,048. Else 0.8 of the percentile.

    Over all prompts that the one engine gets; percentile and product rounded down. Raises ValueError without prompts.
    """
    p95 = percentile_floor(prompt_tokens, 95)
    longest = max(prompt_tokens)
    if longest < LONG_PROMPT:
        threshold = 0
        reason = f"The longest prompt has {longest:,} tokens, under {LONG_PROMPT:,}: no prompt is long enough to split."
        would_change = f"a prompt of {LONG_PROMPT:,} tokens or more turns splitting on"
    elif p95 < SMALLEST:
        threshold = SMALLEST
        reason = (
            f"The longest prompt has {longest:,} tokens, at least {LONG_PROMPT:,}, and 95 % have at most {p95:,}, "
            f"under {SMALLEST:,}: the rule gives {SMALLEST:,}."
        )
        would_change = (
            f"no prompt of {LONG_PROMPT:,} tokens or more: off; a 95th percentile of {SMALLEST:,} or more: 0.8 of it"
        )
    else:
        threshold = p95 * 4 // 5
        reason = (
            f"95 % of the prompts have at most {p95:,} tokens, not under {SMALLEST:,}: "
            f"the rule gives 0.8 x {p95:,} = {threshold:,}."
        )
        would_change = f"another 95th percentile; under {SMALLEST:,} the rule gives {SMALLEST:,}"
    return RuleResult(threshold=threshold, longest=longest, p95=p95, reason=reason, would_change=would_change)


def plan_prefill(
    *,
    prompt_tokens: Sequence[int],
    prefill: Prefill,
    budget: PlannedOption,
    max_model_len: int,
    max_num_seqs: int,
    kv_tokens: int,
    model: ModelFacts,
    device: DeviceFacts,
) -> list[PlannedOption]:
    """The options max_num_batched_tokens (`budget`, which only `auto` may raise, and only where the user left it to the
    plan), long_prefill_token_threshold and prefill_policy, in this order.

    prompt_tokens: in the order in which the engine gets them. kv_tokens: what the memory for keys and values holds.
    A number above max_model_len, which vLLM refuses, or at or above the token budget, where it does nothing, resolves
    to 0; the evidence keeps the rule's own number. Raises ValueError without prompts, or for `fixed` without a number.
    """
    rule = prefill_rule(prompt_tokens)
    policy = prefill.policy
    yields = prefill.yields is True
    evidence, others = "", f"engine.prefill.policy: {_others(policy)}"
    if policy == "off":
        wanted, why, change = 0, "You turned splitting off: a long prompt may fill a whole step.", others
    elif policy == "fixed":
        if prefill.threshold is None:
            raise ValueError("the policy `fixed` needs a threshold")
        wanted, why = prefill.threshold, f"You set {prefill.threshold:,} tokens."
        change = f"engine.prefill.threshold; {others}"
    elif policy == "auto":
        auto = plan_auto(
            prompt_tokens=prompt_tokens,
            budget=budget.value,
            budget_is_users=budget.source == "user",
            max_num_seqs=max_num_seqs,
            kv_tokens=kv_tokens,
            model=model,
            device=device,
            yields=yields,
        )
        wanted, why, change, evidence = auto.threshold, auto.reason, f"{auto.would_change}; {others}", auto.evidence
        if auto.budget_reason is not None:
            budget = budget.model_copy(
                update={"value": auto.budget, "reason": auto.budget_reason, "evidence": auto.evidence, "source": "plan"}
            )
    else:
        wanted, why, change = rule.threshold, rule.reason, f"{rule.would_change}; {others}"

    value = wanted
    if wanted > max_model_len:
        value = 0
        why += f" That is above max_model_len ({max_model_len:,}), which vLLM refuses, so the threshold is 0 (off)."
        change = f"an engine.max_model_len of at least {wanted:,}; {change}"
    elif wanted > 0 and wanted >= budget.value:
        value = 0
        why += (
            f" That is not below the token budget ({budget.value:,}), which already ends a prompt's share of a step, "
            "so it would do nothing and the threshold is 0 (off)."
        )
        change = f"an engine.max_num_batched_tokens above {wanted:,}; {change}"
    elif wanted > 0 and policy != "auto":
        gains = what_it_gains(
            prompt_tokens,
            threshold=wanted,
            budget=budget.value,
            max_num_seqs=max_num_seqs,
            kv_tokens=kv_tokens,
            model=model,
            device=device,
            yields=yields,
        )
        why += f" A longer prompt is read in pieces of {wanted:,} tokens, so that shorter ones run beside it. {gains}"
    rules = (
        f"prompts {len(prompt_tokens):,}; longest {rule.longest:,}; p95 {rule.p95:,}; the rule's own number "
        f"{rule.threshold:,}; max_model_len {max_model_len:,}; token budget {budget.value:,}"
    )
    explained = {
        "rule": f"The rule chooses the threshold from the prompts' lengths; here its number is {rule.threshold:,}.",
        "auto": f"The threshold comes from the mix of long and short prompts; the rule's would be {rule.threshold:,}.",
        "off": f"You turned splitting off; the rule's number would be {rule.threshold:,}.",
        "fixed": f"You gave the number {wanted:,} yourself; the rule's would be {rule.threshold:,}.",
    }
    return [
        budget,
        PlannedOption(
            option="long_prefill_token_threshold",
            value=value,
            default_value=0,
            reason=why,
            evidence=f"{evidence}; the rule's own number {rule.threshold:,}" if evidence else rules,
            source="plan" if policy in ("rule", "auto") or value != wanted else "user",
            would_change=change,
        ),
        PlannedOption(
            option="prefill_policy",
            value=policy,
            default_value="off",
            reason=explained[policy],
            evidence=rules,
            source="default" if policy == Prefill().policy else "user",
            would_change=others,
        ),
    ]


def _others(policy: PrefillPolicy) -> str:
    *first, last = [name for name in get_args(PrefillPolicy) if name != policy]
    return f"{', '.join(first)} or {last}"
