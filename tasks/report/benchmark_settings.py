"""A benchmark's block in words: what was asked, how often, in which order, and what counts as fast enough."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from tasks.compare.read import SATURATE
from tasks.report.benchmark import points
from tasks.report.data import ReportData
from tasks.report.numbers import is_number, number, seconds, share

_SLO = {"ttft_ms": "ttft", "tpot_ms": "tpot", "e2e_ms": "e2e"}
_PRICES = (
    ("device_hour", "an hour of one device"),
    ("kwh", "a kilowatt-hour"),
    ("prompt_mtok", "a million prompt tokens"),
    ("output_mtok", "a million output tokens"),
)


def settings(data: ReportData) -> list[tuple[str, str]]:
    """(what, words), in the order in which a reader asks; none where the run recorded no block."""
    block = data.benchmark
    if not block:
        return []
    found = [
        ("Prompts", prompts_words(block)),
        ("Answers", answers_words(block)),
        ("SLO", slo_words(block)),
        ("Warm-up and cool-down", _edges(block)),
        ("Repeats", _repeats(data, block)),
        ("Clients", _clients(block)),
        ("Prices", _prices(block.get("prices"))),
    ]
    return [(what, words) for what, words in found if words]


def prompts_words(block: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one for each kind of prompts
    """What was asked."""
    prompts = block.get("prompts")
    if not isinstance(prompts, Mapping):
        if any(load.get("kind") == "trace" for load in block.get("load") or []):
            return "those of the trace: drawn tokens of the recorded lengths"
        return "the experiment's own"
    match prompts.get("kind"):
        case "random":
            return f"drawn ones of {length_words(prompts.get('prompt_tokens'))}, none of which begins like another"
        case "shared_prefix":
            groups, shared = prompts.get("groups"), prompts.get("shared_tokens")
            begin = "one beginning" if groups == 1 else f"{groups} beginnings"
            return f"{begin} of {shared} drawn tokens, then {length_words(prompts.get('own_tokens'))} of their own"
        case "mix":
            parts = [
                f"{share(part['share'])} of {length_words(part.get('prompt_tokens'))}"
                for part in prompts.get("parts") or []
            ]
            return f"drawn ones, mixed: {', '.join(parts)}"
        case "sharegpt":
            return f"recorded conversations of {PurePath(str(prompts.get('path'))).name}, the first question of each"
        case "sessions":
            first, more = length_words(prompts.get("first_tokens")), length_words(prompts.get("own_tokens"))
            think = prompts.get("think_s")
            pause = f", {seconds(float(think))} between an answer and the next turn" if is_number(think) else ""
            return f"conversations of {prompts.get('turns')} turns: {first}, then {more} more each turn{pause}"
        case kind:
            return str(kind)


def answers_words(block: Mapping[str, Any]) -> str:
    """How long the answers are."""
    prompts = block.get("prompts")
    if not isinstance(prompts, Mapping):
        if any(load.get("kind") == "trace" for load in block.get("load") or []):
            return "exactly as long as recorded"
        exact = block.get("answers") == "exact"
        return "each goes on to its max_tokens" if exact else "end where they end, as in the quality phase"
    if prompts.get("kind") == "mix":
        each = [length_words(part.get("output_tokens")) for part in prompts.get("parts") or []]
        return f"exactly {', '.join(dict.fromkeys(each))}"
    own = prompts.get("output_tokens")
    if own is None:
        return "exactly as long as recorded"
    return f"exactly {f'{own} tokens' if is_number(own) else length_words(own)}"


def length_words(length: Any) -> str:
    """A length as the block has it: `30 tokens`, `100 to 500 tokens`, `about 512 tokens (lognormal, sd 200)`."""
    if not isinstance(length, Mapping):
        return f"{length} tokens" if is_number(length) else "an unknown number of tokens"
    mean, sd = length.get("mean"), length.get("sd")
    match length.get("kind"):
        case "fixed" if is_number(mean):
            return f"{mean:,.10g} tokens"
        case "uniform":
            return f"{length.get('least')} to {length.get('most')} tokens"
        case "normal" | "lognormal" if is_number(mean) and is_number(sd):
            most = f", at most {length['most']}" if length.get("most") is not None else ""
            return f"about {mean:,.10g} tokens ({length['kind']}, sd {sd:,.10g}{most})"
        case _:
            return "an unknown number of tokens"


def slo_words(block: Mapping[str, Any]) -> str:
    """What counts as fast enough."""
    slo = block.get("slo")
    asked = {name: limit for name, limit in slo.items() if is_number(limit)} if isinstance(slo, Mapping) else {}
    if not asked:
        return "none was set: there is no goodput"
    limits = [f"{_SLO.get(name, name)} at most {number(float(limit))} ms" for name, limit in asked.items()]
    return " and ".join(limits)


def _edges(block: Mapping[str, Any]) -> str:
    warm, cool = block.get("warmup"), block.get("cooldown")
    before = f"{warm} requests before each cell, under the same load, answered before it begins" if warm else "none"
    after = f"{cool} requests after the measured ones, under the same load" if cool else "none after"
    return f"{before}; {after}" if warm or cool else "none"


def _repeats(data: ReportData, block: Mapping[str, Any]) -> str:
    repeats = block.get("repeats")
    if not is_number(repeats):
        return ""
    if repeats == 1:
        return "1: no intervals, and no verdict on speed"
    several = len(points(data)) > 1
    order = ", all cells in turns, every other turn backwards (A B B A)" if several else ""
    searched = any(load.get("kind") == SATURATE for load in block.get("load") or [])
    return f"{repeats}{order}" + ("; the search for the knee goes before" if searched else "")


def _clients(block: Mapping[str, Any]) -> str:
    clients, hosts = block.get("clients"), block.get("client_hosts")
    workers = hosts.get("workers") if isinstance(hosts, Mapping) else None
    many = is_number(clients) and clients > 1
    if is_number(workers):
        each = f"{clients} processes on each" if many else "one process on each"
        return f"this machine and {workers} more, {each}, all with a part of the load"
    return f"{clients} processes, each with a part of the load" if many else ""


def _prices(prices: Any) -> str:
    if not isinstance(prices, Mapping):
        return ""
    currency = prices.get("currency") or ""
    known = [f"{words} {number(float(prices[name]))}" for name, words in _PRICES if is_number(prices.get(name))]
    return f"{currency}: {', '.join(known)}" if known else ""
