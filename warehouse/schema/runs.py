"""Tables of what was run: runs, datasets, profiles."""

import pyarrow as pa  # type: ignore[import-untyped]

from warehouse.schema.table import (
    REVISION,
    RUN_ID,
    Table,
    count,
    flag,
    json,
    listed,
    mapping,
    number,
    text,
    texts,
    time,
)

RUNS = Table(
    name="runs",
    doc="One row per run of a flow: what was asked, by whom, with which code, and how it ended.",
    key=("run_id",),
    columns=(
        RUN_ID,
        REVISION,
        text("name", "The experiment's name, as its file gives it."),
        text(
            "flow",
            "What made the run: experiment, score (the answers of a file), import (what another program logged), or"
            " sweep, ablate and tune, whose cells are runs of their own.",
        ),
        text("parent_run_id", "The run that started this one; NULL for one that a user started."),
        text("status", "running, finished, failed, cancelled or crashed."),
        time("started_at", "When the run began."),
        time("ended_at", "When it ended; NULL while it runs."),
        json("config", "The whole configuration with every name resolved."),
        text("config_hash", "sha256 of the resolved configuration."),
        text("git_commit", "Commit of the checkout that ran; NULL outside a checkout."),
        flag("git_dirty", "The checkout held changes that were not committed."),
        text("assay_version", "Version of assay."),
        text("host", "Name of the machine."),
        text("user", "Name of the account."),
        text("python", "Version of Python."),
        mapping("packages", "Version by name of the packages that matter to the result."),
        text("prefect_flow_run_id", "The flow run in Prefect."),
        text("mlflow_run_id", "The run in MLflow; NULL until tracking answered."),
        mapping("tags", "The experiment's own tags."),
        text("error", "Why the run failed; NULL where it did not."),
        texts("warnings", "What the steps of the run warned of: data, plan, engine, tracking."),
    ),
)

DATASETS = Table(
    name="datasets",
    doc="One row per dataset of a run: which rows were read, and how they became prompts.",
    key=("run_id", "dataset"),
    columns=(
        RUN_ID,
        REVISION,
        text("dataset", "The dataset's name."),
        text("source", "Where the rows came from: a path, a folder or a hub name."),
        text("source_revision", "The source's own revision, as its file pins it; `revision` is the row's version."),
        text("fingerprint", "sha256 over the rows that were used, in order."),
        count("rows_total", "rows", "Rows in the source."),
        count("rows_used", "rows", "Rows that became samples."),
        text("template_hash", "sha256 of the prompt template."),
        text("bos_policy", "Which special tokens the prompts got, in words."),
        count("few_shot", "shots", "Worked examples in each prompt."),
        count("few_shot_seed", "", "Seed that chose them."),
        text("license", "License of the data."),
        texts("warnings", "What a reader of the results should know of the data."),
    ),
)

PROFILES = Table(
    name="profiles",
    doc="One row per dataset and arm: lengths of the rendered prompts in the model's own tokens.",
    key=("run_id", "dataset", "arm"),
    columns=(
        RUN_ID,
        REVISION,
        text("dataset", "The dataset's name."),
        text("arm", "The arm whose prompts were counted."),
        count("n", "prompts", "Prompts counted."),
        count("tokens_min", "tokens", "Shortest prompt."),
        number("tokens_mean", "tokens", "Mean length."),
        number("tokens_p50", "tokens", "Median length."),
        number("tokens_p90", "tokens", "90th percentile of the length."),
        number("tokens_p95", "tokens", "95th percentile of the length."),
        number("tokens_p99", "tokens", "99th percentile of the length."),
        count("tokens_max", "tokens", "Longest prompt."),
        count("tokens_total", "tokens", "All prompts together."),
        count("chars_total", "characters", "Length of all prompts' text."),
        count("output_budget", "tokens", "Most tokens that one answer may take."),
        count("shared_prefix_tokens", "tokens", "Tokens at the start that every prompt shares."),
        count("duplicates", "prompts", "Prompts that equal an earlier one."),
        count("over_limit", "prompts", "Prompts that do not fit with their output budget."),
        count("cut_tokens", "tokens", "Tokens that were cut to make them fit."),
        listed(
            "histogram",
            pa.struct([("lo", pa.float64()), ("hi", pa.float64()), ("n", pa.int64())]),
            "tokens",
            "Prompts n of a length from lo (inclusive) to hi.",
        ),
        text("tokenizer_fingerprint", "sha256 of the tokenizer."),
        number("tokenize_s", "s", "Time to encode all prompts."),
    ),
)
