"""Tables of runs that are made of other runs: the cells of a sweep, an ablation or a tuning."""

from warehouse.schema.table import REVISION, RUN_ID, Table, count, flag, json, number, text, texts, time

SWEEP_CELLS = Table(
    name="sweep_cells",
    doc="One row per cell and repeat of a sweep, an ablation or a tuning: what was set, and which run it became.",
    key=("run_id", "cell_index", "repeat"),
    columns=(
        RUN_ID,
        REVISION,
        count("cell_index", "", "Number of the cell, from 0."),
        count("repeat", "", "Number of the repeat, from 0."),
        text("name", "Its settings in short."),
        text("role", "cell; control or candidate of an ablation; trial or confirm of a tuning."),
        json("settings", "What is set: values by dotted key."),
        text("engine_group", "Cells of one group can share an engine; NULL where no plan could be made."),
        count("order_index", "", "The how-many-th run of the sweep it is, from 0."),
        text("state", "waiting, running, finished, failed, timeout or cancelled."),
        text("cell_run_id", "The run that it became, with its answers, metrics and steps; NULL if it had none."),
        flag("built", "Its run built its engine; false where it took over one that stood."),
        time("started_at", "When it began."),
        time("ended_at", "When it ended."),
        number("seconds", "s", "From its beginning to its end, with all of its steps."),
        text("error", "Why it did not finish; NULL where it did."),
    ),
)

TRIALS = Table(
    name="trials",
    doc="One row per trial of a tuning: a setting of the engine, and what was found.",
    key=("run_id", "trial"),
    columns=(
        RUN_ID,
        REVISION,
        count("trial", "", "Number of the trial, from 0, in the order in which they began."),
        text("reference", "plan: the plan's own engine; vllm: vLLM's defaults; NULL for what the search chose."),
        json("settings", "What is set: values by dotted key; empty for the plan's own."),
        text("state", "running, measured, pruned, infeasible or repeated."),
        text("why", "Why it is infeasible: out_of_memory, refused, failed, timeout, slo or not_measured."),
        text("reason", "The same in words; also why it was pruned, or whose figures it has."),
        count("same_as", "", "The trial whose figures it has, as both are the same engine; NULL where it ran itself."),
        number("value", "", "The objective, of the whole load of a trial; the tuning's config says what it is."),
        number("first_value", "", "The objective after the first samples."),
        json("violations", "By limit, how far it is missed as a share of it; above 0 is missed."),
        json("figures", "What was measured, by name, of as much of it as ran."),
        count("parts", "", "Parts that ran: 1 the first samples, 2 all of them."),
        texts("trial_run_ids", "Its runs, one for each part."),
        flag("on_front", "No other trial beats it in throughput and latency; NULL while the search runs."),
        flag("winner", "It is the best one; NULL while the search runs."),
        time("started_at", "When it began."),
        number("seconds", "s", "All of it, the starts of its engine too; NULL where nothing was run."),
    ),
)
