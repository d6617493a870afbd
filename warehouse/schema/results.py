"""Tables of what came out: scores, metrics, comparisons, schema_version."""

from warehouse.schema.table import REVISION, RUN_ID, Table, count, flag, json, number, text, time

SCORES = Table(
    name="scores",
    doc="One row per sample, arm, repeat and metric.",
    key=("run_id", "dataset", "sample_id", "arm", "repeat", "metric", "metric_version"),
    small=False,
    columns=(
        RUN_ID,
        REVISION,
        text("dataset", "The dataset's name."),
        text("sample_id", "The sample."),
        text("arm", "The arm."),
        count("repeat", "", "Number of the repeat, from 0."),
        text("metric", "The metric."),
        count("metric_version", "", "Its version; scores of two versions are not compared."),
        text("request_id", "The request scored; NULL where the score rests on several."),
        number("value", "the metric's", "The score; NULL where there is none, and reason says why."),
        text("extracted", "What was taken from the answer."),
        count("ties", "options", "Options that shared the highest likelihood with another."),
        text("reason", "Why there is no score, or why it is what it is."),
        time("scored_at", "When it was scored."),
    ),
)

METRICS = Table(
    name="metrics",
    doc="Aggregates with their number of values, standard error and interval.",
    key=("run_id", "scope", "name", "arm", "cell_id"),
    columns=(
        RUN_ID,
        REVISION,
        text("scope", "dataset, group, run or engine."),
        text("name", "As in arithmetic.exact_match, timing.ttft_ms.p50, perf.tpot_ms.p50."),
        text("arm", "The arm; NULL where the number is of all."),
        text("cell_id", "The cell; NULL for quality."),
        number("value", "see unit", "The number; NULL where there is none."),
        text("unit", "Unit of value, stderr, lo and hi."),
        text("direction", "higher or lower: which is better."),
        count("n", "values", "Values that it rests on."),
        count("n_failed", "requests", "Requests that gave none."),
        number("stderr", "see unit", "Standard error."),
        number("lo", "see unit", "Lower end of the 95 % interval."),
        number("hi", "see unit", "Upper end of the 95 % interval."),
        text("method", "How the interval was made."),
        json("details", "Whatever else belongs to the number."),
    ),
)

COMPARISONS = Table(
    name="comparisons",
    doc="Two runs, or two arms of one, on the same samples: the effect, its interval and the verdict.",
    key=("run_id", "baseline_run_id", "dataset", "metric", "candidate_arm", "baseline_arm", "cell_id"),
    columns=(
        RUN_ID,
        REVISION,
        text("baseline_run_id", "The run compared with; the same run where two arms are compared."),
        text("dataset", "The dataset's name."),
        text("metric", "The metric."),
        text("candidate_arm", "Arm of the candidate."),
        text("baseline_arm", "Arm of the baseline."),
        text("cell_id", "The cell; NULL for quality."),
        count("n_pairs", "pairs", "Samples that both sides answered."),
        flag("prompts_differ", "The two sides did not get the same prompts."),
        number("candidate", "the metric's", "The candidate's mean over the pairs."),
        number("baseline", "the metric's", "The baseline's mean over the pairs."),
        number("effect", "the metric's", "Candidate less baseline."),
        number("lo", "the metric's", "Lower end of the effect's 95 % interval."),
        number("hi", "the metric's", "Upper end of the effect's 95 % interval."),
        number("p_value", "", "Probability of such an effect by chance."),
        number("p_adjusted", "", "The same, adjusted for all comparisons made together."),
        text("method", "How the interval and the probability were made."),
        number("margin", "the metric's", "Effects within it count as the same."),
        text("verdict", "better, same, worse or undecided."),
        count("n_needed", "pairs", "Samples that would decide it."),
        count("wins", "pairs", "Pairs in which the candidate was better."),
        count("losses", "pairs", "Pairs in which the baseline was better."),
        count("ties", "pairs", "Pairs without a difference."),
        time("compared_at", "When they were compared."),
    ),
)

SCHEMA_VERSION = Table(
    name="schema_version",
    doc="The numbered changes of these tables that this database was built with; belongs to no run, so run_id is NULL.",
    key=("version",),
    stored=False,
    columns=(
        RUN_ID,
        REVISION,
        count("version", "", "Number of the change."),
        time("applied_at", "When this database was built."),
        text("assay_version", "Version of assay that built it."),
    ),
)
