"""Tables of runs that are made of other runs: the cells of a sweep, an ablation or a tuning."""

from warehouse.schema.table import REVISION, RUN_ID, Table, count, flag, json, number, text, time

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
