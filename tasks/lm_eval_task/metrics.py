"""A task's metrics and filters as the metrics of a dataset: each pipeline of filters is a metric of its own."""

import re
from typing import Any

from tasks.lm_eval_task.read import Function, Task

Use = str | dict[str, Any]

_CHOICES = {"acc": "acc", "acc_norm": "acc_norm", "acc_bytes": "acc_bytes"}
_ROLLING = ("word_perplexity", "byte_perplexity", "bits_per_byte")
_TEXTS = {"bleu": "bleu", "chrf": "chrf", "ter": "ter"} | {f"rouge{n}": f"rouge{n}" for n in ("1", "2", "L", "Lsum")}
_GSM8K_IGNORED = [",", "\\$", "(?s).*#### ", "\\.$"]
_GSM8K = {
    ("#### (\\-?[0-9\\.\\,]+)", 0): "gsm8k_strict",
    ("(-?[$0-9.,]{2,})|(-?[0-9]+)", -1): "gsm8k_flexible",
}
_IFEVAL = {
    f"{level}_level_{mode}_acc": {"level": option, "mode": mode}
    for level, option in (("prompt", "prompt"), ("inst", "instruction"))
    for mode in ("strict", "loose")
}
_DEFAULT_REGEX = "#### (\\-?[0-9\\.\\,]+)"
_PLAIN_FILTERS = ("take_first", "remove_whitespace")
_DEFAULTS: dict[str, list[dict[str, Any]]] = {
    "multiple_choice": [{"metric": "acc"}, {"metric": "acc_norm"}],
    "generate_until": [{"metric": "exact_match"}],
    "loglikelihood_rolling": [{"metric": name} for name in _ROLLING],
}


def metrics_of(task: Task, *, output_type: str) -> list[Use]:
    """The metrics; empty where none can be taken. What cannot is noted, with its line."""
    listed = task.get("metric_list", _DEFAULTS[output_type])
    found: list[Use] = []
    for index, each in enumerate(listed if isinstance(listed, list) else []):
        key = f"metric_list.{index}"
        name = each.get("metric") if isinstance(each, dict) else None
        if isinstance(name, Function):
            found += _program(task, name, each, key=key, output_type=output_type)
        elif not isinstance(name, str):
            task.leave(key, "it names no metric")
        elif output_type == "multiple_choice":
            found += _known(task, name, _CHOICES, key=key)
        elif output_type == "loglikelihood_rolling":
            found += _known(task, name, {known: known for known in _ROLLING}, key=key)
        elif name in _IFEVAL:
            found.append({"use": "ifeval", "as": name, "options": _IFEVAL[name]})
            if name.startswith("inst"):
                task.leave(key, "assay's mean weighs samples alike; the harness pools the instructions of all")
        elif name == "exact_match":
            found += _exact(task, each, key=key)
        else:
            found += _known(task, name, _TEXTS, key=key)
            if found and task.values.get("filter_list"):
                task.leave("filter_list", f"{name} is computed of the whole answer")
    if output_type != "generate_until" and task.get("filter_list"):
        task.leave("filter_list", "filters go with generated answers")
    task.get("filter_list")
    return found


def _known(task: Task, name: Any, known: dict[str, str], *, key: str) -> list[Use]:
    if name in known:
        return [known[name]]
    task.leave(key, f"assay has no metric that is the harness's {name} here; `assay metrics` lists what there is")
    return []


def _program(task: Task, name: Function, given: dict[str, Any], *, key: str, output_type: str) -> list[Use]:
    """Python code that counts passed tests is code_pass; other code is not taken."""
    counts = "pass_at" in name.name.rsplit(".", 1)[-1] or "pass@" in name.name
    if not counts or output_type != "generate_until":
        task.leave(key, f"the metric is Python code ({name.name})")
        return []
    listed = given.get("k")
    ks = [k for k in listed if isinstance(k, int) and k > 0] if isinstance(listed, list) else []
    ks = ks or [1]
    task.leave(key, f"Python code ({name.name}): code_pass takes its place, which runs programs in its own sandbox")
    return ["code_pass" if ks == [1] else {"use": "code_pass", "options": {"pass_at": ks}}]


def _exact(task: Task, given: dict[str, Any], *, key: str) -> list[Use]:
    ignored = given.get("regexes_to_ignore") or []
    pipelines = task.get("filter_list")
    if not isinstance(pipelines, list):
        return [_compared(task, "exact_match", {}, given, key=key, name=None)]
    found: list[Use] = []
    for index, pipeline in enumerate(pipelines):
        at = f"filter_list.{index}"
        steps = pipeline.get("filter") or [] if isinstance(pipeline, dict) else None
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            task.leave(at, "it is no list of filters")
            continue
        functions = [step.get("function") for step in steps]
        strange = [getattr(each, "name", str(each)) for each in functions if each not in (*_PLAIN_FILTERS, "regex")]
        name = _own_name(pipeline.get("name"))
        if strange or functions.count("regex") > 1:
            what = ", ".join(strange) or "several regular expressions, one after the other"
            task.leave(at, f"the filter {pipeline.get('name')!r} ({what}) has no like in assay")
        elif "regex" in functions:
            step = next(step for step in steps if step["function"] == "regex")
            pattern, select = step.get("regex_pattern", _DEFAULT_REGEX), step.get("group_select", 0)
            use = next((use for known, use in _GSM8K.items() if known == (pattern, select)), None)
            if ignored == _GSM8K_IGNORED and use is not None and given.get("ignore_case"):
                found.append(use if name is None else {"use": use, "as": name})
            else:
                found += _extracted(task, pattern, select, given, key=key, at=at, name=name)
        else:
            found.append(_compared(task, "exact_match", {}, given, key=key, name=name if index else None))
    return found


def _extracted(
    task: Task, pattern: Any, select: Any, given: dict[str, Any], *, key: str, at: str, name: str | None
) -> list[Use]:
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        task.leave(at, f"its pattern is no regular expression: {error}")
        return []
    if select not in (0, -1):
        task.leave(at, f"`group_select: {select}`: assay takes the first match or the last")
        return []
    options = {"pattern": pattern} | ({} if select == 0 else {"take": "last"})
    return [_compared(task, "extract_match", options, given, key=key, name=name)]


def _compared(
    task: Task, use: str, options: dict[str, Any], given: dict[str, Any], *, key: str, name: str | None
) -> Use:
    case, punctuation = bool(given.get("ignore_case")), bool(given.get("ignore_punctuation"))
    normalize = "squad" if punctuation else "casefold" if case else "strip"
    if punctuation:
        also = "" if case else ", and letters of either case are equal"
        task.leave(f"{key}.ignore_punctuation", f"taken as `normalize: squad`: articles go too{also}")
    for other in ("regexes_to_ignore", "ignore_numbers"):
        if given.get(other):
            task.leave(f"{key}.{other}", "assay takes nothing away from a text but by `normalize`")
    made: dict[str, Any] = {"use": use}
    if name is not None:
        made["as"] = name
    return made | {"options": options | {"normalize": normalize}}


def _own_name(name: Any) -> str | None:
    """A filter's name as a metric may be called."""
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "_", str(name or "")).strip("_-")[:64]
    return cleaned or None
