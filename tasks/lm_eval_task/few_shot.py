"""A task's examples: how many, which rows, and what they answer."""

from typing import Any

from tasks.lm_eval_task import templates
from tasks.lm_eval_task.read import Function, Task, is_plain
from tasks.lm_eval_task.source import evaluated_split, source_of

_SAMPLERS = {"default": "random", "first_n": "first"}
_OVERRIDES = ("doc_to_text", "doc_to_choice", "process_docs", "gen_prefix", "fewshot_delimiter", "target_delimiter")


def few_shot_of(
    task: Task, *, target: str | None, options: str | list[str] | None, gen_prefix: str | None
) -> tuple[dict[str, Any] | None, str | None]:
    """The `few_shot` of the dataset, None for none, and the target, which is another where the task's template asks
    whether a row is an example."""
    n = task.get("num_fewshot", 0)
    given = task.get("fewshot_config", {})
    split = given.get("split") or task.get("fewshot_split")
    samples = given.get("samples") if given.get("split") is None else None
    fixed = samples if isinstance(samples, list) and samples else None
    if fixed is not None and not all(isinstance(each, dict) and is_plain(each) for each in fixed):
        task.leave("fewshot_config.samples", "they are not all rows of plain values, so none is taken")
        fixed = None
    target, answer = _answers(task, target=target, samples=fixed)
    if isinstance(given.get("doc_to_target"), str):
        try:
            answer = templates.template(given["doc_to_target"])
        except ValueError as error:
            task.leave("fewshot_config.doc_to_target", str(error))
    answer = _answer(task, answer, target=target, options=options, gen_prefix=gen_prefix)
    _leave_overrides(task, given)
    if isinstance(samples, Function):
        why = f"Python code ({samples.name}): write its rows as `few_shot: {{pick: fixed, examples: [...]}}`"
        task.leave("fewshot_config.samples", f"{why}; there are no examples without them" if n else why)
        return None, target
    if not n and "num_fewshot" in task.values:
        return None, target
    if not n and fixed is None:
        task.leave("num_fewshot", "the task leaves the number of examples open: write it as `few_shot.n`, here 0")
    made: dict[str, Any] = {"n": min(n, len(fixed))} if fixed is not None else {"n": n}
    if fixed is not None:
        made |= {"pick": "fixed", "examples": fixed}
        if n > len(fixed):
            task.leave("num_fewshot", f"the task lists {len(fixed)} examples, not {n}")
    else:
        made |= _drawn(task, split, str(given.get("sampler", "default")))
    if answer is not None:
        made["answer"] = answer
    return made, target


def _answer(
    task: Task, answer: str | None, *, target: str | None, options: str | list[str] | None, gen_prefix: str | None
) -> str | None:
    """What an example answers, where that is not just the target: an option's text, the first of several, what is
    behind a prefix."""
    if answer is None and target is not None:
        answer = templates.first_of(target) if options is None else _option(task, options, target)
    if gen_prefix and (answer or target):
        behind = "" if gen_prefix[-1:].isspace() else " "
        answer = f"{gen_prefix}{behind}{answer or target}"
    return answer


def _leave_overrides(task: Task, given: dict[str, Any]) -> None:
    for key in _OVERRIDES:
        if given.get(key) is not None:
            task.leave(f"fewshot_config.{key}", "examples are written like the question")
    if given.get("fewshot_indices") is not None:
        task.leave("fewshot_config.fewshot_indices", "name the rows as `few_shot: {pick: fixed, ids: [...]}`")


def _drawn(task: Task, split: Any, sampler: str) -> dict[str, Any]:
    if sampler not in _SAMPLERS:
        task.leave("fewshot_config.sampler", f"assay draws at random or takes the first, not by {sampler!r}")
    pick = _SAMPLERS.get(sampler, "random")
    if pick == "random" and task.get("num_fewshot", 0):
        key = "fewshot_config.sampler" if "fewshot_config" in task.values else "num_fewshot"
        task.leave(
            key, "assay draws the examples of each sample by its own seed: they are others than the harness draws"
        )
    # Without a split of its own the harness takes the training split, then the validation split.
    chosen = split or task.get("training_split") or task.get("validation_split") or evaluated_split(task)
    made: dict[str, Any] = {"pick": pick}
    if chosen != evaluated_split(task):
        made["source"] = source_of(task, split=str(chosen))
    return made


def _answers(task: Task, *, target: str | None, samples: list[Any] | None) -> tuple[str | None, str | None]:
    """The target of a row, and what an example answers where that is something else."""
    fork = None if target is None else templates.forked(target)
    if fork is None:
        return target, None
    if samples is not None and all(isinstance(each, dict) for each in samples):
        examples_have_it = any(fork.field in each for each in samples)
        return (fork.without, fork.with_it) if examples_have_it else (fork.with_it, fork.without)
    if "fewshot" in fork.field.replace("_", ""):
        return fork.without, fork.with_it
    task.leave(
        "doc_to_target", f"whether a row has the field {fork.field!r} cannot be told: the template stays as it is"
    )
    return target, None


def _option(task: Task, options: str | list[str], target: str) -> str | None:
    try:
        return templates.option_at(options, target)
    except ValueError as error:
        task.leave("doc_to_target", f"what an example of it answers could not be written: {error}")
        return None
