"""`assay datasets show` and `assay datasets profile`: what the engine would get, and what that asks of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.commands.output import print_json, stdout_console, visible
from flows.console import RunConsole
from flows.runtime import assay_home
from schemas.dataset import NamedDataset
from schemas.engine import Sampling, VllmEngine
from schemas.errors import ConfigError
from schemas.experiment import NamedModel
from schemas.plan import EnginePlan, ModelFacts
from schemas.profile import Profile
from schemas.sample import Sample
from tasks.config.datasets import Datasets
from tasks.config.layers import Layer, Layers
from tasks.config.lines import lines_added
from tasks.config.models import load_model
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.load import load_rows
from tasks.dataset.prepare import Preparation
from tasks.dataset.profiled import ProfiledDataset, profile_dataset
from tasks.dataset.shots import answer_text
from tasks.dataset.stage import dataset_arms, dataset_needs
from tasks.dataset.tokenizer import Tokenizer
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.plan.engine import plan_engine
from tasks.plan.stage import earlier_run

_BAR = 50
_GRAMMAR_SHOWN = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spoken:
    """A model as far as prompts need it."""

    model: NamedModel
    facts: ModelFacts
    tokenizer: Tokenizer
    chat: ChatTemplate | None


def show_samples(
    *, name: str, n: int, model: str | None, arm: str, tokens: bool, as_json: bool, rows: dict[str, Any] | None = None
) -> None:
    """Prints the first n samples as the engine gets them; without a model, the messages as the dataset writes them."""
    if tokens and model is None:
        raise ConfigError.one("token ids are a model's", key="--tokens", suggestion="give --model too")
    named = _named_model(model)
    dataset = _dataset(name, model=named, limit=n, rows=rows)
    _check_arm(dataset, arm)
    with lines_added():
        if named is None:
            shown, warnings = _previews(dataset), []
        else:
            spoken = _spoken(named)
            shown, warnings = _rendered(dataset, spoken, arm=arm)
    if as_json:
        print_json({"dataset": dataset.name, "model": model, "arm": arm, "samples": shown, "warnings": warnings})
        return
    console = stdout_console()
    for sample in shown:
        _print_sample(console, sample, tokens=tokens)
    for warning in warnings:
        console.print(f"! {warning}", markup=False, soft_wrap=True)


def show_profile(
    *, name: str, model: str, limit: int | None, as_json: bool, png: Path | None, rows: dict[str, Any] | None = None
) -> None:
    """Counts the prompts of a dataset in tokens of a model, and says which engine options follow from that.

    Raises ConfigError, after the counts are printed, for prompts that no engine of the model takes."""
    home = assay_home()
    named = _named_model(model)
    if named is None:
        raise ConfigError.one(f"{model} is no model", key="--model")
    dataset = _dataset(name, model=named, limit=limit, rows=rows)
    spoken = _spoken(named)
    with lines_added():
        found = profile_dataset(
            dataset,
            tokenizer=spoken.tokenizer,
            chat=spoken.chat,
            max_len=spoken.facts.max_position_embeddings,
            needs=dataset_needs(dataset),
            arms=dataset_arms(dataset, ["free", "guided"]),
        )
    if png is not None:
        _draw(found.profile, path=png, model=named.name)
    plan: EnginePlan | None = None
    refusal: ConfigError | None = None
    device = read_device_facts()
    try:
        plan = plan_engine(
            load=found.load,
            model=spoken.facts,
            device=device,
            engine=VllmEngine(),
            dtype=named.config.dtype,
            earlier=earlier_run(home=home, model=spoken.facts, device=device),
        )
    except ConfigError as too_long:
        refusal = too_long
    if as_json:
        print_json(_as_json(found, plan=plan, refusal=refusal, model=named.name))
    else:
        _print_profile(found, plan=plan, max_len=spoken.facts.max_position_embeddings)
    if refusal is not None:
        raise refusal


def _named_model(model: str | None) -> NamedModel | None:
    if model is None:
        return None
    try:
        return load_model(model, Layers([Layer({"model": model}, None)]), {})
    except ConfigError as error:
        raise _of_command_line(error, key="--model") from error


def _dataset(
    name: str, *, model: NamedModel | None, limit: int | None, rows: dict[str, Any] | None = None
) -> NamedDataset:
    """The dataset of a name or path, with the sampling that an experiment has which says nothing of it. rows: what
    `given_rows` gives. Raises ConfigError for a suite of several datasets too."""
    entry: dict[str, Any] = {"use": name, **(rows or {})}
    datasets = Datasets(Layers([Layer({"datasets": [entry]}, None)]))
    try:
        datasets.load([entry], None if model is None else model.config)
    except ConfigError as error:
        raise _of_command_line(error, key=None) from error
    found = datasets.named([name], sampling=Sampling(), limit=limit)
    if len(found) > 1:
        some = ", ".join(each.name for each in found[:3])
        raise ConfigError.one(
            f"`{name}` is a suite of {len(found)} datasets", suggestion=f"name one of them, as {some}"
        )
    return found[0]


def _of_command_line(error: ConfigError, *, key: str | None) -> ConfigError:
    """The error without the key of an experiment, which there is none of."""
    return ConfigError(
        [replace(p, key=key) if p.file is None and (p.key or "").startswith("--set") else p for p in error.problems]
    )


def _check_arm(dataset: NamedDataset, arm: str) -> None:
    if arm not in ("free", "guided"):
        raise ConfigError.one(f"there is no arm {arm!r}", key="--arm", suggestion="write free or guided")
    if arm == "guided" and dataset.config.guide is None:
        raise ConfigError.one(
            f"{dataset.name} has no guide, so it has no guided arm", key="--arm", suggestion="leave --arm out"
        )


def _spoken(model: NamedModel) -> _Spoken:
    cache = assay_home() / "cache"
    folder = model_folder(model, cache=cache, on_progress=RunConsole().warn)
    return _Spoken(
        model=model,
        facts=read_model_facts(folder, cache=cache),
        tokenizer=Tokenizer.from_folder(folder),
        chat=ChatTemplate.from_folder(folder, choice=model.config.chat_template),
    )


def _previews(dataset: NamedDataset) -> list[dict[str, Any]]:
    """The first samples without a model: no chat template, no tokens, nothing cut."""
    from tasks.dataset.preview import preview_rows  # noqa: PLC0415 - only without a model

    return [
        {
            "sample_id": each.row.sample_id,
            "row_index": each.row.row_index,
            "prompt": each.composed.prompt,
            "prompt_tokens": None,
            "messages": each.composed.messages,
            "target": each.target,
            "choices": each.options,
            "stop": dataset.sampling.stop,
            "max_tokens": None if dataset.config.document is not None else dataset.sampling.max_tokens,
            "grammar": None if each.grammar is None else {"kind": each.grammar.kind, "content": each.grammar.content},
            "grammar_error": each.grammar_error,
        }
        for each in preview_rows(dataset)
    ]


def _rendered(dataset: NamedDataset, spoken: _Spoken, *, arm: str) -> tuple[list[dict[str, Any]], list[str]]:
    needs = dataset_needs(dataset)
    loaded = load_rows(dataset)
    max_len = spoken.facts.max_position_embeddings
    preparation = Preparation(
        dataset=dataset,
        loaded=loaded,
        tokenizer=spoken.tokenizer,
        chat=spoken.chat,
        max_len=max_len,
        loglikelihood="loglikelihood" in needs,
        generate="generate" in needs,
        keep_too_long=dataset.config.on_overflow == "fail",
    )
    samples = preparation.samples(loaded.rows)
    result = preparation.result(samples)
    shown = [_sample(sample, dataset=dataset, spoken=spoken, arm=arm) for sample in samples]
    return shown, [*result.warnings, *(f"{skip.sample_id} is skipped: {skip.reason}" for skip in result.skipped)]


def _sample(sample: Sample, *, dataset: NamedDataset, spoken: _Spoken, arm: str) -> dict[str, Any]:
    grammar = sample.grammar
    return {
        "sample_id": sample.sample_id,
        "row_index": sample.row_index,
        # From the token ids, not from the text: what was cut is missing, and every special token is there.
        "prompt": spoken.tokenizer.decode(sample.prompt_token_ids),
        "prompt_tokens": len(sample.prompt_token_ids),
        "token_ids": sample.prompt_token_ids,
        "fits": bool(sample.windows)
        or len(sample.prompt_token_ids) + sample.max_tokens <= spoken.facts.max_position_embeddings,
        "messages": sample.messages,
        "target": sample.target,
        "choices": [choice.text for choice in sample.choices],
        "choice_token_ids": [choice.token_ids[choice.start :] for choice in sample.choices],
        "window": sample.window,
        "windows": [[each.begin, each.start, each.end] for each in sample.windows],
        "stop": dataset.sampling.stop,
        "max_tokens": sample.max_tokens,
        "grammar": None if grammar is None else {"kind": grammar.kind, "content": grammar.content},
        "grammar_use": None if grammar is None else "followed and checked" if arm == "guided" else "checked",
        "grammar_error": sample.grammar_error,
        "cut_tokens": sample.cut_tokens,
        "shots_dropped": sample.shots_dropped,
        "replaced_characters": sample.replaced_characters,
    }


def _print_sample(console: Console, sample: dict[str, Any], *, tokens: bool) -> None:
    def line(label: str, value: object) -> None:
        console.print(f"{label:<10}{value}", markup=False, soft_wrap=True)

    count = "" if sample["prompt_tokens"] is None else f", {sample['prompt_tokens']:,} tokens"
    console.rule(f"{visible(sample['sample_id'])} (row {sample['row_index']}{count})", align="left", style="dim")
    console.print(_lines_visible(sample["prompt"]), markup=False, soft_wrap=True)
    console.rule(style="dim", characters="·")
    if tokens:
        line("tokens", " ".join(map(str, sample["token_ids"])))
    if sample["target"] is not None:
        line("target", _lines_visible(answer_text(sample["target"])))
    for number, choice in enumerate(sample["choices"]):
        ids = f"  {sample['choice_token_ids'][number]}" if tokens else ""
        line(f"choice {number}", f"{visible(choice)}{ids}")
    if sample["grammar"] is not None:
        content = visible(sample["grammar"]["content"])
        cut = " …" if len(content) > _GRAMMAR_SHOWN else ""
        use = f" ({sample['grammar_use']})" if sample.get("grammar_use") else ""
        line("grammar", f"{sample['grammar']['kind']}{use}: {content[:_GRAMMAR_SHOWN]}{cut}")
    if sample["grammar_error"]:
        line("grammar", f"refused: {visible(sample['grammar_error'])}")
    if sample.get("windows"):
        line("windows", f"{len(sample['windows']):,}, each of at most {sample['window']:,} tokens")
    elif sample.get("max_tokens") is not None:
        line("answer", f"up to {sample['max_tokens']:,} tokens, stops at {sample['stop'] or 'nothing but its end'}")
    for key, words in (
        ("cut_tokens", "tokens cut from the middle"),
        ("shots_dropped", "examples dropped"),
        ("replaced_characters", "characters replaced by U+FFFD"),
    ):
        if sample.get(key):
            line("changed", f"{sample[key]:,} {words}")
    if sample.get("fits") is False:
        line("changed", "does not fit the model with its answer: a run would be refused (on_overflow: fail)")


def _lines_visible(text: str) -> str:
    """Text with its own line ends, and all other control characters as their escapes."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _print_profile(found: ProfiledDataset, *, plan: EnginePlan | None, max_len: int) -> None:
    console = stdout_console()
    profile = found.profile
    console.print(
        f"{profile.dataset}: {profile.n:,} prompts of {found.rows_total:,} rows, {profile.tokens_total:,} tokens, "
        f"{profile.chars_total:,} characters; {found.bos_policy}",
        markup=False,
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("shortest", "mean", "p50", "p90", "p95", "p99", "longest", "answer up to"):
        table.add_column(name, justify="right")
    middle = [profile.tokens_mean, profile.tokens_p50, profile.tokens_p90, profile.tokens_p95, profile.tokens_p99]
    numbers = [profile.tokens_min, *middle, profile.tokens_max, profile.output_budget]
    table.add_row(*(f"{number:,.0f}" for number in numbers))
    console.print(table)
    console.print(
        f"{profile.shared_prefix_tokens:,} tokens are shared by all, {profile.duplicates:,} prompts repeat another, "
        f"{profile.over_limit:,} do not fit {max_len:,} tokens with their answer, {found.changed:,} were made to fit",
        markup=False,
        soft_wrap=True,
    )
    most = max(each.n for each in profile.histogram)
    width = max(len(f"{each.hi:,}") for each in profile.histogram)
    for each in profile.histogram:
        bar = "█" * round(_BAR * each.n / most) or ("▏" if each.n else "")
        console.print(f"{each.lo:>{width},} – {each.hi:>{width},}  {bar} {each.n:,}", markup=False, soft_wrap=True)
    if plan is not None:
        console.print(_options_table(plan))
    for warning in [*found.warnings, *(plan.warnings if plan is not None else [])]:
        console.print(f"! {warning}", markup=False, soft_wrap=True)


def _options_table(plan: EnginePlan) -> Table:
    table = Table(title="engine options that follow", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("option", "value", "why"):
        table.add_column(name, justify="right" if name == "value" else "left", overflow="fold")
    for option in plan.options:
        table.add_row(option.option, str(option.value), option.reason)
    return table


def _as_json(
    found: ProfiledDataset, *, plan: EnginePlan | None, refusal: ConfigError | None, model: str | None
) -> dict[str, Any]:
    return {
        "dataset": found.profile.dataset,
        "model": model,
        "rows_total": found.rows_total,
        "fingerprint": found.fingerprint,
        "bos_policy": found.bos_policy,
        "changed": found.changed,
        "profile": found.profile.model_dump(mode="json"),
        "plan": None if plan is None else plan.model_dump(mode="json"),
        "refused": None if refusal is None else str(refusal),
        "warnings": [*found.warnings, *(plan.warnings if plan is not None else [])],
    }


def _draw(profile: Profile, *, path: Path, model: str | None) -> None:
    """The histogram as a picture, with p50, p95 and the longest marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    if path.suffix.lower() != ".png":
        raise ConfigError.one(f"{path} is no name of a picture", key="--png", suggestion="end it with .png")
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    bins: Sequence[Any] = profile.histogram
    axes.bar(
        [each.lo for each in bins], [each.n for each in bins], width=[each.hi - each.lo for each in bins], align="edge"
    )
    for label, value in (("p50", profile.tokens_p50), ("p95", profile.tokens_p95)):
        axes.axvline(value, color="black", linewidth=1, linestyle="--")
        axes.annotate(f"{label} {value:,.0f}", (value, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom")
    axes.set_xlabel("tokens in a prompt")
    axes.set_ylabel("prompts")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title(f"{profile.dataset} with {model or 'this model'}: {profile.n:,} prompts", pad=18)
    FigureCanvasAgg(figure)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise ConfigError.one(f"the picture cannot be written: {error}", key="--png") from error
