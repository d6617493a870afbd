"""Makes a dataset config of a task, and a list of what it does not have.

The prompt is the harness's (lm_eval/api/task.py, `fewshot_context`): the description, the examples, the question.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from tasks.config.nearest import did_you_mean
from tasks.lm_eval_task import templates
from tasks.lm_eval_task.few_shot import few_shot_of
from tasks.lm_eval_task.metrics import Use, metrics_of
from tasks.lm_eval_task.read import Function, NotTaken, Task, read_task
from tasks.lm_eval_task.source import source_of

_MAX_TOKENS = 256
"""The harness's own, of a task that names none."""
_BUDGETS = ("max_gen_toks", "max_new_tokens", "max_tokens")
_KINDS = ("generate_until", "multiple_choice", "loglikelihood_rolling")
_TEXTS = (
    "dataset_path",
    "dataset_name",
    "training_split",
    "validation_split",
    "test_split",
    "fewshot_split",
    "output_type",
    "target_delimiter",
    "fewshot_delimiter",
)
_BLOCKS = ("dataset_kwargs", "fewshot_config", "generation_kwargs")
_COUNTS = ("num_fewshot", "repeats")
_NOT_NEEDED = {
    "should_decontaminate": "not needed: assay does no decontamination",
    "doc_to_decontamination_query": "not needed: assay does no decontamination",
    "training_split": None,
    "validation_split": None,
    "task": None,
    "task_alias": None,
    "tag": None,
    "group": None,
    "metadata": None,
    "unsafe_code": None,
    "output_type": None,
}
_PROGRAMS = {
    "process_docs": "Python code ({}) that makes the columns: assay reads the rows as they are; write its rows to a"
    " JSONL file and name that as the `source`",
    "process_results": "Python code ({}): the metrics are assay's own",
}
_REFUSED = {
    "class": "the task is a Python class",
    "custom_dataset": "its rows are made by Python code",
    "use_prompt": "its prompt is in promptsource, not in the file",
    "doc_to_image": "it shows pictures, and assay sends text",
    "doc_to_audio": "it plays sounds, and assay sends text",
}


@dataclass(frozen=True, kw_only=True)
class Converted:
    """name: the task's. config: the dataset as plain data. files: the task's YAML and those that it includes."""

    name: str
    config: dict[str, Any]
    not_taken: list[NotTaken]
    file: Path


def convert(path: Path) -> Converted:
    """Raises ConfigError, with the line, for a file that is no task, and for a task of which no dataset can be made."""
    task = read_task(path)
    _refuse(task)
    _check_kinds(task)
    name = str(task.get("task", path.stem))
    output_type = str(task.get("output_type", "generate_until"))
    if output_type not in _KINDS:
        more = did_you_mean(output_type, _KINDS)
        why = f"assay has no request like {output_type}"
        if output_type == "loglikelihood":
            why = "the log-likelihood of a single text: assay compares those of several (multiple_choice)"
        raise task.refused("output_type", why, suggestion=more)
    config: dict[str, Any] = {"source": source_of(task)}
    if output_type == "loglikelihood_rolling":
        config |= _document(task)
    else:
        config |= _asked(task, output_type=output_type)
    metrics = metrics_of(task, output_type=output_type)
    if not metrics:
        task.leave("metric_list", "none of the metrics can be taken; exact_match stands here instead")
        metrics = ["acc" if output_type == "multiple_choice" else "exact_match"]
    config["metrics"] = metrics
    if "code_pass" in str(metrics):
        _programs(task, config)
    if output_type == "generate_until":
        config |= _generation(task)
    if config.get("few_shot") is None:
        config.pop("few_shot", None)
    config["description"] = _description(task, name)
    _leave_the_rest(task, metrics)
    return Converted(name=name, config=config, not_taken=task.left, file=path)


def _refuse(task: Task) -> None:
    for key, why in _REFUSED.items():
        if task.get(key) is not None:
            given = task.values[key]
            raise task.refused(key, f"{why} ({given.name})" if isinstance(given, Function) else why)
    listed = task.values.get("task")
    if "group" in task.values or isinstance(listed, list):
        tasks = [str(each.get("task") if isinstance(each, dict) else each) for each in listed or []]
        raise task.refused(
            "group" if "group" in task.values else "task",
            f"it is a group of {', '.join(tasks[:5]) or 'tasks'}{' and more' if len(tasks) > 5 else ''}",
            suggestion="import its tasks one by one; `groups` of an experiment gives their mean",
        )
    if not any(key in task.values for key in ("dataset_path", "doc_to_text", "output_type", "task")):
        raise ConfigError.one("no task of lm-evaluation-harness: it has neither task nor dataset_path", file=task.file)


def _check_kinds(task: Task) -> None:
    """Raises ConfigError for a key whose value is of a kind that the harness could not use either, or is Python code
    where nothing can stand for it."""
    kinds: tuple[tuple[tuple[str, ...], type | tuple[type, ...], str], ...] = (
        (_TEXTS, (str, int, float), "a text"),
        (_BLOCKS, dict, "a block"),
        (_COUNTS, int, "a whole number"),
    )
    for keys, kind, words in kinds:
        for key in keys:
            value = task.values.get(key)
            if isinstance(value, Function):
                raise task.refused(key, f"it is Python code ({value.name}), which assay does not run")
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise task.refused(key, f"{words} is expected, not {type(value).__name__}")
    for key in _COUNTS:
        if task.values.get(key) is not None and task.values[key] < 0:
            raise task.refused(key, "a whole number of 0 or more is expected")


def _template(task: Task, key: str, *, needed: bool) -> str | None:
    value = task.get(key)
    if value is None:
        if needed:
            raise task.refused(key, "the task has none")
        return None
    why = None
    if isinstance(value, Function):
        why = f"it is Python code ({value.name}), which assay does not run"
    else:
        try:
            return templates.template(value)
        except ValueError as error:
            why = str(error)
    if needed:
        hint = "write the columns that it makes to a JSONL file, and a dataset over that: docs/datasets.md"
        raise task.refused(key, why, suggestion=hint)
    task.leave(key, why)
    return None


def _asked(task: Task, *, output_type: str) -> dict[str, Any]:
    text = _template(task, "doc_to_text", needed=True) or ""
    target = _target(task)
    options = _choices(task) if output_type == "multiple_choice" else None
    if output_type != "multiple_choice" and task.get("doc_to_choice") is not None:
        task.leave("doc_to_choice", f"`output_type: {output_type}` has no options")
    prompt: dict[str, Any] = {"text": text}
    description = _template(task, "description", needed=False)
    if description:
        # A bare name is a text here: the harness looks for a column of that name, which a description is not.
        prompt["prefix"] = str(task.values["description"])
    prefix = _template(task, "gen_prefix", needed=False)
    if prefix:
        spaced = templates.ends_in_space(text) or prefix[:1].isspace()
        prompt["suffix"] = prefix if spaced else f" {prefix}"
    _delimiters(task, text=text)
    few_shot, target = few_shot_of(task, target=target, options=options, gen_prefix=prefix)
    made = {"prompt": prompt, "target": target, "choices": options, "few_shot": few_shot}
    return {key: value for key, value in made.items() if value is not None}


def _target(task: Task) -> str | None:
    value = task.get("doc_to_target")
    if isinstance(value, list):
        task.leave("doc_to_target", "a list of texts: assay's `target` is one template, or a column that holds a list")
        return None
    return _template(task, "doc_to_target", needed=True)


def _choices(task: Task) -> str | list[str]:
    value = task.get("doc_to_choice")
    if value is None:
        raise task.refused("doc_to_choice", "a multiple choice without options")
    if isinstance(value, Function):
        raise task.refused("doc_to_choice", f"it is Python code ({value.name}), which assay does not run")
    try:
        return templates.choices(value)
    except ValueError as error:
        raise task.refused("doc_to_choice", str(error)) from error


def _delimiters(task: Task, *, text: str) -> None:
    between = task.get("target_delimiter") if "target_delimiter" in task.values else " "
    between = "" if between is None else str(between)
    spaced = templates.ends_in_space(text)
    ours = "" if spaced or not text else " "
    if between != ours:
        task.leave(
            "target_delimiter",
            f"between a prompt and an answer assay puts {ours!r} here, not {between!r}: a space, unless the prompt ends"
            " in white space",
        )
    behind = task.get("fewshot_delimiter", "\n\n")
    if behind != "\n\n":
        task.leave("fewshot_delimiter", f"behind an example assay puts two line ends, not {behind!r}")


def _document(task: Task) -> dict[str, Any]:
    value = task.get("doc_to_target")
    task.get("doc_to_text")
    if isinstance(value, Function):
        raw = task.get("doc_to_decontamination_query")
        if not isinstance(raw, str):
            raise task.refused("doc_to_target", f"it is Python code ({value.name}), which assay does not run")
        task.leave(
            "doc_to_target",
            f"Python code ({value.name}): the document is read as it lies in the column, so that perplexities differ"
            " from published ones",
        )
        return {"document": _template(task, "doc_to_decontamination_query", needed=True)}
    return {"document": _template(task, "doc_to_target", needed=True)}


def _programs(task: Task, config: dict[str, Any]) -> None:
    """The target of code_pass: the tests, and the code that the answer goes on from where the prompt is just that."""
    before, tests = config["prompt"]["text"], config.get("target")
    if tests is None:
        task.leave("doc_to_target", "the tests of the programs, which code_pass runs: write them as `target`")
        return
    lone = templates.lone(before)
    known = '"tests": tests' + ("" if lone is None else f', "prompt": {lone}')
    config["target"] = f"{{% set tests %}}{tests}\n{{% endset %}}{{{{ {{{known}}} | tojson }}}}"
    config.setdefault("few_shot", None)
    if config["few_shot"] is not None and config["few_shot"].get("answer") is None:
        config["few_shot"]["answer"] = tests


def _generation(task: Task) -> dict[str, Any]:
    given = task.get("generation_kwargs", {})
    fewshot_end = task.get("fewshot_delimiter", "\n\n")
    until = given.get("until", [fewshot_end])
    listed = until if isinstance(until, list) else [until]
    stops = [str(each) for each in listed if isinstance(each, str | int | float)]
    if len(stops) < len(listed):
        task.leave("generation_kwargs.until", "what is no text ends no answer")
    named = next((key for key in _BUDGETS if key in given), _BUDGETS[0])
    most = _whole(given.get(named))
    if most is None:
        why = "the task names none" if given.get(named) is None else "it is no whole number above 0"
        task.leave(f"generation_kwargs.{named}", f"{why}; {_MAX_TOKENS} is the harness's own")
    for key, value in given.items():
        if key in ("until", *_BUDGETS):
            continue
        where = f"generation_kwargs.{key}"
        if key == "do_sample":
            if value and "temperature" not in given:
                task.leave(where, "sampling is the experiment's: write `sampling: {temperature: 1}` there")
        elif key in ("temperature", "top_p", "top_k", "seed"):
            shown = f"{value:g}" if isinstance(value, int | float) else value
            task.leave(where, f"sampling is the experiment's: write `sampling: {{{key}: {shown}}}` there")
        else:
            task.leave(where, "assay has no such setting")
    repeats = task.get("repeats", 1)
    if repeats != 1:
        task.leave("repeats", f"they are the experiment's: write `sampling: {{repeats: {repeats}}}` there")
    return {"max_tokens": most or _MAX_TOKENS} | ({"stop": stops} if stops else {})


def _whole(value: Any) -> int | None:
    """A whole number above 0, however it is written; None for anything else."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _description(task: Task, name: str) -> str:
    version = (task.get("metadata") or {}).get("version") if isinstance(task.get("metadata", {}), dict) else None
    return f"The task {name} of lm-evaluation-harness" + ("." if version is None else f", version {version}.")


def _leave_the_rest(task: Task, metrics: list[Use]) -> None:
    """Every key that nothing was made of is listed, so that none is lost in silence."""
    for key, value in task.values.items():
        if value is None or key in task.used:
            continue
        why = _NOT_NEEDED.get(key, "unknown to assay")
        if key in _PROGRAMS:
            if key == "process_results" and "'use': 'ifeval'" in str(metrics):
                continue  # what it computes, assay's metric does
            why = _PROGRAMS[key].format(value.name if isinstance(value, Function) else value)
        elif key == "should_decontaminate" and not value:
            continue
        if why is not None:
            task.leave(key, why)
