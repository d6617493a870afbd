"""The first step of a run: every dataset loaded, rendered for the model, encoded, and kept."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from schemas.arm import Arm, arm_kind, arm_name, needs_guide
from schemas.dataset import NamedDataset
from schemas.errors import ConfigError, Problem
from schemas.experiment import Experiment
from schemas.plan import ModelFacts
from schemas.sample import Sample
from schemas.summary import DatasetsSummary, DatasetSummary
from tasks.config.lines import lines_added, with_lines
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.guide import dataset_grammar
from tasks.dataset.load import load_rows, survey_rows
from tasks.dataset.prepare import prepare_samples
from tasks.dataset.template import check_templates
from tasks.dataset.tokenizer import Tokenizer
from tasks.dataset.unicode import may_hold_surrogates, valid_values
from tasks.profile import profile_samples
from tasks.record.rows import profile_rows, sample_rows
from tasks.score.registry import metric
from tasks.session import Session
from warehouse.parquet import read_rows


def dataset_needs(dataset: NamedDataset) -> list[str]:
    """What the dataset's metrics read of the engine: generate, loglikelihood, or both."""
    return sorted({metric(use.use).info.needs for use in dataset.config.metrics})


def dataset_arms(dataset: NamedDataset, arms: Sequence[Arm]) -> list[str]:
    """The names of the arms that this dataset takes part in. Without a guide it has only free ones."""
    return [arm_name(arm) for arm in arms if not needs_guide(arm) or dataset.config.guide is not None]


def check_metric_columns(dataset: NamedDataset, columns: list[str]) -> None:
    """Raises ConfigError where a metric's options name a field that the rows do not have, with its key."""
    problems: list[Problem] = []
    for index, use in enumerate(dataset.config.metrics):
        each = metric(use.use)
        if each.check_columns is None:
            continue
        found = _problems_of(partial(each.check_columns, each.Options(**use.options), columns))
        file = Path(dataset.path) if dataset.path else None
        problems += [replace(one, file=file, key=f"metrics[{index}].options.{one.key}") for one in found]
    if problems:
        raise ConfigError(problems)


def check_datasets(experiment: Experiment) -> None:
    """Everything about the data that can be told without the model: files, rows, ids, templates, grammars.

    Raises one ConfigError with what is wrong with all of them, each with the line where it has one."""
    problems: list[Problem] = []
    for dataset in experiment.datasets:
        problems += _problems_of(partial(dataset_grammar, dataset))
        try:
            loaded = survey_rows(dataset)
        except ConfigError as error:
            problems += error.problems
            continue
        problems += _problems_of(partial(check_templates, dataset, loaded.columns))
        problems += _problems_of(partial(check_metric_columns, dataset, loaded.columns))
        if loaded.shot_pool:
            problems += _problems_of(partial(check_templates, dataset, loaded.shot_columns, examples=True))
    if problems:
        raise ConfigError(with_lines(list(dict.fromkeys(problems))))


def _problems_of(check: Callable[[], object]) -> list[Problem]:
    try:
        check()
    except ConfigError as error:
        return error.problems
    return []


def load_datasets(session: Session, *, model: ModelFacts, folder: Path) -> DatasetsSummary:
    """Loads and renders every dataset; writes the tables datasets and samples. Raises what `render_datasets` raises."""
    experiment = session.run.experiment
    rendered, summaries = render_datasets(experiment, model=model, folder=folder)
    if session.run.resumed:
        _check_unchanged(session, summaries)
    samples = [_storable(sample) for sample in rendered]
    named = {dataset.name: dataset for dataset in experiment.datasets}
    session.keep_samples(samples)
    session.store.write("datasets", [_dataset_row(named[summary.dataset], summary) for summary in summaries])
    session.store.write("samples", sample_rows(samples))
    return DatasetsSummary(datasets=summaries)


def _storable(sample: Sample) -> Sample:
    """The sample with U+FFFD for lone surrogates: its raw bytes keep them, text in a file cannot."""
    if not may_hold_surrogates(sample.raw):
        return sample
    values = {name: valid_values(getattr(sample, name)) for name in ("input", "target", "cluster", "grammar_error")}
    return replace(sample, **values)


def _check_unchanged(session: Session, summaries: Sequence[DatasetSummary]) -> None:
    stored = read_rows(session.run.home, "datasets", session.run.run_id, columns=["dataset", "fingerprint"])
    before = {row["dataset"]: row["fingerprint"] for row in stored}
    changed = [s.dataset for s in summaries if before.get(s.dataset) not in (None, s.fingerprint)]
    if changed:
        raise ConfigError.one(
            f"the data of {', '.join(changed)} is not what run {session.run.run_id} began with",
            suggestion="start a new run, or put the data back",
        )


def render_datasets(
    experiment: Experiment, *, model: ModelFacts, folder: Path
) -> tuple[list[Sample], list[DatasetSummary]]:
    """Every sample of every dataset, rendered with the model's chat template and encoded with its tokenizer.

    folder: the model's. Raises ConfigError for data that cannot be used, with the line where it has one."""
    with lines_added():
        return _render_datasets(experiment, model=model, folder=folder)


def _render_datasets(
    experiment: Experiment, *, model: ModelFacts, folder: Path
) -> tuple[list[Sample], list[DatasetSummary]]:
    tokenizer = Tokenizer.from_folder(folder)
    chat = ChatTemplate.from_folder(folder, choice=experiment.model.config.chat_template)
    asked = experiment.vllm.max_model_len
    max_len = model.max_position_embeddings if asked == "auto" else min(asked, model.max_position_embeddings)
    samples: list[Sample] = []
    summaries: list[DatasetSummary] = []
    for dataset in experiment.datasets:
        needs = dataset_needs(dataset)
        loaded = load_rows(dataset)
        check_metric_columns(dataset, loaded.columns)
        prepared = prepare_samples(
            dataset=dataset,
            loaded=loaded,
            tokenizer=tokenizer,
            chat=chat,
            max_len=max_len,
            loglikelihood="loglikelihood" in needs,
            generate="generate" in needs,
        )
        samples += prepared.samples
        summaries.append(
            DatasetSummary(
                dataset=dataset.name,
                rows_total=loaded.rows_total,
                rows_used=len(prepared.samples),
                fingerprint=loaded.fingerprint,
                template_hash=prepared.template_hash,
                bos_policy=prepared.bos_policy,
                tokenize_s=prepared.tokenize_s,
                tokenizer_fingerprint=tokenizer.fingerprint,
                max_len=max_len,
                over_limit=len(prepared.skipped)
                + sum(bool(sample.cut_tokens or sample.shots_dropped) for sample in prepared.samples),
                needs=needs,
                arms=dataset_arms(dataset, experiment.arms),
                warnings=[*prepared.warnings, *_arm_warnings(dataset, experiment.arms)],
            )
        )
    return samples, summaries


def profile_datasets(session: Session, datasets: DatasetsSummary) -> DatasetsSummary:
    """The token profile of each dataset and arm; writes the table profiles."""
    profiled = add_profiles(datasets, session.samples())
    session.store.write("profiles", profile_rows(profiled.profiles))
    return profiled


def add_profiles(datasets: DatasetsSummary, samples: Sequence[Sample]) -> DatasetsSummary:
    """The summaries with the token profile of each dataset and arm."""
    by_dataset: dict[str, list[Sample]] = {}
    for sample in samples:
        by_dataset.setdefault(sample.dataset, []).append(sample)
    profiles = [
        profile_samples(
            dataset=summary.dataset,
            arm=arm,
            samples=by_dataset[summary.dataset],
            output_budget=[sample.max_tokens for sample in by_dataset[summary.dataset]],
            max_len=summary.max_len,
            tokenizer_fingerprint=summary.tokenizer_fingerprint,
            tokenize_s=summary.tokenize_s,
        ).model_copy(update={"over_limit": summary.over_limit})
        for summary in datasets.datasets
        for arm in summary.arms
        if summary.dataset in by_dataset
    ]
    return datasets.model_copy(update={"profiles": profiles})


def _arm_warnings(dataset: NamedDataset, arms: Sequence[Arm]) -> list[str]:
    without = [arm for arm in arms if needs_guide(arm)]
    if dataset.config.guide is not None or not without:
        return []
    if all(arm_kind(arm) == "guided" for arm in without):
        return [f"{dataset.name} has no guide, so it has no guided arm"]
    return [f"{dataset.name} has no guide, so it has no arm {', '.join(map(arm_name, without))}"]


def _dataset_row(dataset: NamedDataset, summary: DatasetSummary) -> dict[str, object]:
    config = dataset.config
    return {
        "dataset": dataset.name,
        "source": getattr(config.source, "path", None) or getattr(config.source, "id", config.source.kind),
        "source_revision": config.source.revision,
        "fingerprint": summary.fingerprint,
        "rows_total": summary.rows_total,
        "rows_used": summary.rows_used,
        "template_hash": summary.template_hash,
        "bos_policy": summary.bos_policy,
        "few_shot": config.few_shot.n,
        "few_shot_seed": config.few_shot.seed if config.few_shot.n else None,
        "license": config.license,
        "warnings": summary.warnings,
    }
