"""Questions that a warehouse answers, each with its SQL."""

from typing import NamedTuple

from schemas.errors import ConfigError


class Recipe(NamedTuple):
    """One question, and the SQL that answers it."""

    question: str
    sql: str


def recipe(number: int) -> Recipe:
    """The question of this number, from 1. Raises ConfigError for a number that is none."""
    if not 1 <= number <= len(COOKBOOK):
        raise ConfigError.one(f"there is no question {number}", suggestion=f"there are 1 to {len(COOKBOOK)}")
    return COOKBOOK[number - 1]


COOKBOOK: tuple[Recipe, ...] = (
    Recipe(
        "Which runs are there, and how did they end?",
        """SELECT run_id, name, status, host, date_diff('second', started_at, ended_at) AS seconds, error
FROM runs
ORDER BY started_at DESC""",
    ),
    Recipe(
        "How good was the last run, with its uncertainty?",
        """SELECT dataset, metric, arm, round(value, 3) AS value, round(lo, 3) AS lo, round(hi, 3) AS hi, n
FROM leaderboard
WHERE run_id = (SELECT max(run_id) FROM runs WHERE status = 'finished')
ORDER BY dataset, metric, arm""",
    ),
    Recipe(
        "What did guiding the generation bring?",
        """SELECT run_id, dataset, metric, n_pairs, round(free, 3) AS free, round(guided, 3) AS guided,
    round(effect, 3) AS effect, round(lo, 3) AS lo, round(hi, 3) AS hi, verdict
FROM guided_lift
ORDER BY run_id DESC, dataset, metric""",
    ),
    Recipe(
        "And what did it cost: tokens and time of an answer, by arm?",
        """SELECT run_id, arm, count(*) AS answers, round(avg(output_tokens), 1) AS tokens,
    round(median(tpot_ms), 1) AS tpot_ms, round(median(e2e_ms), 1) AS e2e_ms
FROM requests
WHERE kind = 'generate' AND status IN ('ok', 'invalid', 'truncated') AND reused IS NOT TRUE AND phase = 'quality'
GROUP BY run_id, arm
ORDER BY run_id DESC, arm""",
    ),
    Recipe(
        "Does the grammar help, what does it cost, and is that its mask or the length of its answers?",
        """SELECT run_id, name, round(value, 3) AS value, round(lo, 3) AS lo, round(hi, 3) AS hi, unit, n,
    round((details ->> '$.baseline')::DOUBLE, 1) AS baseline, round((details ->> '$.candidate')::DOUBLE, 1) AS guided
FROM metrics
WHERE arm = 'guided' AND (name LIKE '%guide.mask_us_per_token' OR name LIKE '%guide.output_tokens'
    OR name LIKE '%guide.parse_failures_reduction' OR name LIKE '%guide.tokens_per_s_ratio')
ORDER BY run_id DESC, name""",
    ),
    Recipe(
        "Which samples flipped since the run before?",
        """WITH last_two AS (
    SELECT run_id FROM runs WHERE flow = 'experiment' AND status = 'finished' ORDER BY started_at DESC LIMIT 2
)
SELECT dataset, sample_id, arm, metric, value_a AS earlier, value_b AS now, extracted_a, extracted_b
FROM flips((SELECT min(run_id) FROM last_two), (SELECT max(run_id) FROM last_two))
ORDER BY dataset, sample_id, arm, metric""",
    ),
    Recipe(
        "Which samples flip most often, run after run?",
        """SELECT dataset, sample_id, arm, metric, count(DISTINCT run_id) AS runs,
    count(*) FILTER (value <> before) AS flips, round(avg(value), 3) AS mean
FROM (
    SELECT s.*, lag(s.value) OVER earlier AS before
    FROM scores AS s
    INNER JOIN runs AS r USING (run_id)
    WHERE r.status = 'finished'
    WINDOW earlier AS (
        PARTITION BY s.dataset, s.sample_id, s.arm, s.repeat, s.metric, s.metric_version ORDER BY r.started_at
    )
)
GROUP BY dataset, sample_id, arm, metric
HAVING flips > 0
ORDER BY flips DESC, dataset, sample_id, arm, metric
LIMIT 20""",
    ),
    Recipe(
        "Which metrics got worse since the baseline?",
        """SELECT w.run_id, b.tags['baseline'] AS baseline, w.dataset, w.metric, w.candidate_arm AS arm,
    round(w.baseline, 3) AS before, round(w.candidate, 3) AS now, round(w.lo, 3) AS lo, round(w.hi, 3) AS hi, w.n_pairs
FROM regressions AS w
INNER JOIN runs AS b ON b.run_id = w.baseline_run_id
WHERE b.tags['baseline'] <> 'false'
ORDER BY w.run_id DESC, w.effect, w.dataset, w.metric, arm""",
    ),
    Recipe(
        "How did each gate come out, night after night?",
        """SELECT r.started_at, g.run_id, g.metric, g.arm, g.rule, coalesce(g.against, g.value::VARCHAR) AS against,
    g.verdict, round(g.effect, 3) AS effect, round(g.lo, 3) AS lo, round(g.hi, 3) AS hi, g.n_needed, g.reason
FROM gates AS g
INNER JOIN runs AS r USING (run_id)
ORDER BY r.started_at DESC, g.gate, g.against""",
    ),
    Recipe(
        "Which comparisons decided nothing, and how many samples would?",
        """SELECT run_id, baseline_run_id = run_id AS within_run, dataset, metric, candidate_arm, baseline_arm,
    round(effect, 3) AS effect, round(lo, 3) AS lo, round(hi, 3) AS hi, n_pairs, n_needed
FROM comparisons
WHERE verdict = 'undecided'
ORDER BY n_needed NULLS LAST, run_id DESC, dataset, metric""",
    ),
    Recipe(
        "Which samples does no run get right?",
        """SELECT dataset, sample_id, count(DISTINCT run_id) AS runs, max(value) AS best
FROM scores
WHERE metric = 'exact_match'
GROUP BY dataset, sample_id
HAVING max(value) < 1
ORDER BY dataset, sample_id""",
    ),
    Recipe(
        "What failed, and why, most frequent reason first?",
        """SELECT dataset, arm, status, reason, count(*) AS n
FROM failures
GROUP BY ALL
ORDER BY n DESC, reason""",
    ),
    Recipe(
        "What exactly was asked where the answer was not valid?",
        """SELECT f.run_id, f.dataset, f.sample_id, f.arm, f.reason, right(s.prompt, 300) AS prompt_end, f.output_start
FROM failures AS f
INNER JOIN samples AS s USING (run_id, dataset, sample_id)
WHERE f.status = 'invalid'
ORDER BY ALL
LIMIT 20""",
    ),
    Recipe(
        "How well-formed are the answers of each arm?",
        """SELECT dataset, arm, count(valid) AS judged, round(avg(valid::INTEGER), 3) AS valid_share,
    round(avg(whitespace_share), 3) AS whitespace_share, round(avg((finish_reason = 'length')::INTEGER), 3) AS cut_share
FROM requests
WHERE kind = 'generate' AND phase = 'quality'
GROUP BY dataset, arm
ORDER BY dataset, arm""",
    ),
    Recipe(
        "How long until the first token, by length of the prompt and by the prefill threshold?",
        """SELECT e.long_prefill_token_threshold AS threshold, l.bucket, sum(l.n) AS n,
    round(avg(l.ttft_p50_ms), 1) AS p50, round(max(l.ttft_p95_ms), 1) AS worst_p95
FROM latency_by_bucket AS l
INNER JOIN cells AS c USING (run_id, cell_id)
INNER JOIN engines AS e USING (run_id, engine_id)
GROUP BY threshold, l.bucket, l.bucket_from
ORDER BY threshold, l.bucket_from""",
    ),
    Recipe(
        "What did long prompts do to the first token of short ones, and were they split?",
        """SELECT policy, threshold, prompts, sum(n) AS n, sum(split) AS split, max(steps_max) AS most_steps,
    round(avg(ttft_p50_ms), 1) AS ttft_p50_ms, round(max(ttft_p99_ms), 1) AS worst_p99_ms
FROM prefill_effect
GROUP BY policy, threshold, prompts
ORDER BY threshold, policy, prompts DESC""",
    ),
    Recipe(
        "Which prompts were split, and into how many steps?",
        """SELECT r.run_id, r.sample_id, r.arm, r.prompt_tokens, r.prefill_steps, round(r.ttft_ms, 1) AS ttft_ms
FROM requests AS r
WHERE r.prefill_steps > 1 AND r.phase = 'quality'
ORDER BY r.prefill_steps DESC, r.run_id DESC, r.sample_id, r.arm
LIMIT 20""",
    ),
    Recipe(
        "What did CUDA graphs bring: how much ran from one, what was padded, how long did a step take?",
        """SELECT run_id, cudagraph_mode, steps, round(graph_share_steps, 3) AS from_graphs,
    round(padding_share, 3) AS padding, sizes_used, round(decode_step_p50_ms, 1) AS decode_step_ms,
    round(tpot_p50_ms, 1) AS tpot_ms, capture_s
FROM graph_effect
ORDER BY run_id DESC""",
    ),
    Recipe(
        "How busy was the engine, and how full its cache?",
        """SELECT run_id, steps, prompt_tokens, decode_tokens, round(running_mean, 1) AS running, waiting_max,
    round(kv_usage_max, 3) AS kv_max, preempted, round(prefix_hit_rate, 3) AS hit_rate, round(busy_s, 3) AS busy_s
FROM engine_work
ORDER BY run_id DESC""",
    ),
    Recipe(
        "At which sizes did the engine's steps run, and what did each take?",
        """SELECT run_id, graph_mode, graph_size, sum(stands_for) AS steps, sum(stands_for * padded_tokens) AS padded,
    round(median(step_ms), 1) AS step_ms
FROM steps
GROUP BY run_id, graph_mode, graph_size
ORDER BY run_id DESC, graph_mode NULLS LAST, graph_size""",
    ),
    Recipe(
        "How well did speculation guess, by position?",
        """SELECT m.run_id, position, round((m.details->'by_position'->>(position - 1))::DOUBLE, 3) AS accepted,
    (m.details->'drafted_by_position'->>(position - 1))::BIGINT AS drafted
FROM metrics AS m, LATERAL unnest(range(1, 1 + json_array_length(m.details->'by_position')::BIGINT)) AS p (position)
WHERE m.name = 'engine.spec.acceptance'
ORDER BY m.run_id DESC, position""",
    ),
    Recipe(
        "Which prompts are slow, run after run?",
        """SELECT dataset, sample_id, any_value(prompt_tokens) AS prompt_tokens, count(*) AS answers,
    round(median(e2e_ms), 1) AS median_ms, round(max(e2e_ms), 1) AS worst_ms
FROM requests
WHERE status IN ('ok', 'invalid', 'truncated') AND reused IS NOT TRUE AND phase = 'quality'
GROUP BY dataset, sample_id
ORDER BY median_ms DESC NULLS LAST, sample_id
LIMIT 10""",
    ),
    Recipe(
        "Which ten requests were slowest, and where did their time go?",
        """SELECT run_id, sample_id, arm, prompt_tokens, output_tokens, e2e_ms, queued_ms, prefill_ms, decode_ms
FROM requests
WHERE e2e_ms IS NOT NULL AND phase = 'quality'
ORDER BY e2e_ms DESC, run_id DESC, request_id
LIMIT 10""",
    ),
    Recipe(
        "What did the plan decide, and why?",
        """SELECT run_id, option, value, default_value, reason, evidence
FROM plans
WHERE source = 'plan'
ORDER BY run_id DESC, option""",
    ),
    Recipe(
        "Where did starting the engine take its time?",
        """SELECT r.run_id, e.device, e.cudagraph_mode, e.cold, e.start_s, e.import_s, e.load_s,
    e.compile_s, e.capture_s, e.warmup_s
FROM engines AS e
INNER JOIN runs AS r USING (run_id)
ORDER BY r.started_at DESC""",
    ),
    Recipe(
        "Did the engine run as it was asked to?",
        """SELECT run_id, engine_id, unnest(downgrades) AS downgrade
FROM engines
ORDER BY ALL""",
    ),
    Recipe(
        "Did another version of the engine answer faster?",
        """SELECT e.engine_version, e.device, m.name, count(*) AS runs, round(median(m.value), 2) AS median, m.unit
FROM metrics AS m
INNER JOIN engines AS e USING (run_id)
WHERE m.name = 'timing.tpot_ms.p50'
GROUP BY ALL
ORDER BY e.device, m.name, e.engine_version""",
    ),
    Recipe(
        "How long are the prompts, and was anything cut?",
        """SELECT run_id, dataset, arm, n, tokens_p50, tokens_p95, tokens_max, output_budget, over_limit, cut_tokens
FROM profiles
ORDER BY run_id DESC, dataset, arm""",
    ),
    Recipe(
        "How did one metric develop over time?",
        """SELECT started_at, arm, round(value, 3) AS value, round(lo, 3) AS lo, round(hi, 3) AS hi, n
FROM trend('arithmetic.exact_match')
ORDER BY started_at, arm""",
    ),
    Recipe(
        "Which commit changed a metric by more than its uncertainty?",
        """SELECT started_at, left(git_commit, 7) AS commit, git_dirty AS dirty, arm,
    round(before, 3) AS before, round(value, 3) AS value, round(value - before, 3) AS change
FROM (
    SELECT t.*, r.git_commit, r.git_dirty, lag(t.value) OVER earlier AS before,
        lag(t.lo) OVER earlier AS lo_before, lag(t.hi) OVER earlier AS hi_before
    FROM trend('arithmetic.exact_match') AS t
    INNER JOIN runs AS r USING (run_id)
    WHERE r.status = 'finished'
    WINDOW earlier AS (PARTITION BY t.name, t.arm ORDER BY t.started_at)
)
WHERE lo > hi_before OR hi < lo_before
ORDER BY started_at, arm""",
    ),
    Recipe(
        "Which runs crashed, were cancelled or resumed?",
        """SELECT r.run_id, r.status, count(DISTINCT a.revision) AS sessions, count(a.request_id) AS attempts, r.error
FROM runs AS r
LEFT JOIN request_attempts AS a USING (run_id)
GROUP BY r.run_id, r.status, r.error
HAVING r.status IN ('crashed', 'cancelled', 'failed') OR count(DISTINCT a.revision) > 1
ORDER BY r.run_id DESC""",
    ),
    Recipe(
        "How many requests needed more than one attempt?",
        """SELECT run_id, attempts, count(*) AS requests
FROM (SELECT run_id, request_id, count(*) AS attempts FROM request_attempts GROUP BY run_id, request_id)
WHERE attempts > 1
GROUP BY run_id, attempts
ORDER BY run_id DESC, attempts""",
    ),
    Recipe(
        "How much energy did a correct answer take?",
        """SELECT e.run_id, round(e.joules) AS joules, c.correct, round(e.joules / c.correct, 1) AS joules_per_answer
FROM (SELECT run_id, sum(counter_j) AS joules FROM energy GROUP BY run_id) AS e
INNER JOIN (
    SELECT run_id, count(*) AS correct
    FROM scores
    WHERE metric = 'exact_match' AND value = 1
    GROUP BY run_id
) AS c USING (run_id)
ORDER BY e.run_id DESC""",
    ),
    Recipe(
        "Which grammars did the backend refuse or mishandle?",
        """SELECT run_id, grammar_id, backend, kind, status, message, len(lint) AS warnings
FROM grammars
WHERE status <> 'accepted' OR len(lint) > 0
ORDER BY ALL""",
    ),
    Recipe(
        "How long do grammars take to compile, and which are the slowest?",
        """SELECT g.backend, g.backend_version AS version, g.kind, count(*) AS grammars,
    round(1000 * quantile_cont(g.compile_s, 0.5), 1) AS compile_p50_ms,
    round(1000 * max(g.compile_s), 1) AS compile_max_ms, arg_max(g.grammar_id, g.compile_s) AS slowest,
    count(*) FILTER (g.status IN ('timeout', 'crashed')) AS quarantined
FROM grammars AS g
GROUP BY g.backend, g.backend_version, g.kind
ORDER BY compile_max_ms DESC NULLS LAST""",
    ),
    Recipe(
        "Where does a backend get a schema silently wrong, and what shows it?",
        """SELECT g.run_id, g.grammar_id, g.backend, finding.path, finding.problem, finding.instance
FROM grammars AS g, unnest(g.lint) AS found(finding)
WHERE starts_with(finding.problem, 'under-constrained') OR starts_with(finding.problem, 'over-constrained')
ORDER BY ALL""",
    ),
    Recipe(
        "How much of each split of a corpus of schemas does a backend take, and how much is right?",
        """SELECT split, backend, backend_version AS version, count(*) AS schemas,
    round(avg((status = 'accepted')::INT), 3) AS takes, count(*) FILTER (verdict = 'right') AS is_right,
    count(*) FILTER (verdict IN ('over', 'under', 'both')) AS silently_wrong,
    round(1000 * quantile_cont(check_s + compile_s, 0.99), 1) AS compile_p99_ms
FROM corpus_schemas
WHERE run_id = (SELECT max(run_id) FROM corpus_schemas)
GROUP BY split, backend, backend_version
ORDER BY split, backend""",
    ),
    Recipe(
        "Which keywords of JSON Schema does a backend get wrong, or refuse?",
        """SELECT backend, keyword, count(*) AS schemas,
    count(*) FILTER (verdict IN ('over', 'both')) AS rejects_valid,
    count(*) FILTER (verdict IN ('under', 'both')) AS takes_invalid, count(*) FILTER (status = 'refused') AS refused
FROM corpus_schemas, unnest(keywords) AS used (keyword)
WHERE run_id = (SELECT max(run_id) FROM corpus_schemas)
GROUP BY backend, keyword
HAVING rejects_valid + takes_invalid + refused > 0
ORDER BY rejects_valid + takes_invalid DESC, refused DESC, backend, keyword""",
    ),
    Recipe(
        "Which schemas of a corpus take longest to compile, and what are their masks like?",
        """SELECT backend, name, split, status, round(1000 * (check_s + compile_s), 1) AS compile_ms,
    round(grown_bytes / 1048576, 1) AS grown_mib, round(mask_us_p99) AS mask_p99_us
FROM corpus_schemas
WHERE run_id = (SELECT max(run_id) FROM corpus_schemas) AND compile_s IS NOT NULL
ORDER BY check_s + compile_s DESC, backend, name
LIMIT 20""",
    ),
    Recipe(
        "Which schemas came out otherwise in the last run over a corpus than in the one before?",
        """WITH last_two AS (SELECT DISTINCT run_id FROM corpus_schemas ORDER BY run_id DESC LIMIT 2)
SELECT a.backend, a.name, b.backend_version AS earlier, b.verdict AS was, a.backend_version AS now, a.verdict
FROM corpus_schemas AS a
INNER JOIN corpus_schemas AS b USING (case_id, backend)
WHERE a.run_id = (SELECT max(run_id) FROM last_two) AND b.run_id = (SELECT min(run_id) FROM last_two)
    AND a.verdict <> b.verdict
ORDER BY a.backend, a.name""",
    ),
    Recipe(
        "How often does the judge give no verdict: refused, cut, too slow?",
        """SELECT run_id, dataset, arm, metric, judge_model, count(*) AS asked,
    count(*) FILTER (status = 'ok') AS verdicts, count(*) FILTER (status = 'refused') AS refused,
    count(*) FILTER (status IN ('truncated', 'invalid')) AS no_form,
    count(*) FILTER (status IN ('timeout', 'error')) AS failed, round(avg(judge_ms), 1) AS ms
FROM judgements
GROUP BY run_id, dataset, arm, metric, judge_model
ORDER BY run_id DESC, dataset, arm, metric""",
    ),
    Recipe(
        "Do two samples of one dataset have the same prompt?",
        """SELECT run_id, dataset, count(*) AS n, list(sample_id ORDER BY sample_id) AS samples
FROM samples
GROUP BY run_id, dataset, prompt_hash
HAVING n > 1
ORDER BY ALL""",
    ),
    Recipe(
        "Which cell of the last sweep was best?",
        """SELECT cell, count(*) FILTER (state = 'finished') AS finished, count(*) AS runs,
    round(avg(output_tokens_per_s), 1) AS tokens_per_s, round(avg(ttft_p50_ms), 1) AS ttft_p50_ms,
    round(avg(e2e_p50_ms), 1) AS e2e_p50_ms, round(avg(start_s), 1) AS start_s
FROM sweep_results
WHERE run_id = (SELECT max(run_id) FROM sweep_cells)
GROUP BY cell_index, cell
ORDER BY tokens_per_s DESC NULLS LAST, cell_index""",
    ),
    Recipe(
        "How good were the answers in each of its cells?",
        """SELECT s.cell, s.repeat, l.dataset, l.metric, l.arm, round(l.value, 3) AS value, round(l.lo, 3) AS lo,
    round(l.hi, 3) AS hi, l.n
FROM sweep_results AS s
INNER JOIN leaderboard AS l ON l.run_id = s.cell_run_id
WHERE s.run_id = (SELECT max(run_id) FROM sweep_cells)
ORDER BY l.dataset, l.metric, l.arm, s.cell_index, s.repeat""",
    ),
    Recipe(
        "Which cells failed or took too long, and why?",
        """SELECT run_id, cell, repeat, state, round(seconds, 1) AS seconds, error, cell_run_id
FROM sweep_results
WHERE state IN ('failed', 'timeout')
ORDER BY run_id DESC, order_index""",
    ),
    Recipe(
        "What did sharing engines save a sweep?",
        """SELECT run_id, sweep, count(*) FILTER (built) AS built, count(*) FILTER (NOT built) AS reused,
    round(sum(start_s), 1) AS starts_s, round(sum(saved_s), 1) AS saved_s, round(sum(seconds), 1) AS cells_s
FROM sweep_results
GROUP BY run_id, sweep
ORDER BY run_id DESC""",
    ),
    Recipe(
        "What differs between the configs of the last two runs?",
        """WITH last_two AS (
    SELECT run_id, config FROM runs WHERE flow = 'experiment' AND status = 'finished' ORDER BY started_at DESC LIMIT 2
),
keys AS (
    SELECT t.run_id, k.fullkey AS key, k.atom AS value
    FROM last_two AS t, json_tree(t.config) AS k
    WHERE k.atom IS NOT NULL
)
SELECT coalesce(a.key, b.key) AS key, a.value AS earlier, b.value AS now
FROM (FROM keys WHERE run_id = (SELECT min(run_id) FROM last_two)) AS a
FULL JOIN (FROM keys WHERE run_id = (SELECT max(run_id) FROM last_two)) AS b USING (key)
WHERE a.value IS DISTINCT FROM b.value
ORDER BY ALL""",
    ),
    Recipe(
        "How fast is each measured load, run after run?",
        """SELECT run_id, point, repeats, round(ttft_p50_ms, 1) AS ttft_p50_ms, round(tpot_p50_ms, 2) AS tpot_p50_ms,
    round(tpot_p50_lo, 2) AS lo, round(tpot_p50_hi, 2) AS hi, round(output_tokens_per_s, 1) AS tokens_per_s,
    disturbed_cells
FROM load_points
ORDER BY point, run_id DESC""",
    ),
    Recipe(
        "Which measured cells were disturbed, and by what?",
        """SELECT run_id, point_id, repeat, unnest(disturbed) AS by_what
FROM cells
WHERE len(disturbed) > 0
ORDER BY ALL""",
    ),
    Recipe(
        "What did the engine do while the slowest requests of a load waited for their first token?",
        """SELECT r.run_id, c.point_id, r.request_id, round(r.ttft_ms, 1) AS ttft_ms, count(*) AS steps,
    max(s.running) AS running, max(s.waiting) AS waiting, max(s.prompt_tokens) AS longest_prompt_step,
    round(max(s.step_ms), 1) AS longest_step_ms, sum(s.preempted) AS preempted
FROM requests AS r
INNER JOIN cells AS c USING (run_id, cell_id)
INNER JOIN steps AS s
    ON s.run_id = r.run_id AND s.cell_id = r.cell_id
    AND s.ts BETWEEN r.sent_at AND r.sent_at + to_milliseconds(r.ttft_ms::BIGINT)
WHERE r.phase = 'measure' AND c.point_id IS NOT NULL
GROUP BY r.run_id, c.point_id, r.request_id, r.ttft_ms
ORDER BY r.ttft_ms DESC, r.request_id
LIMIT 10""",
    ),
    Recipe(
        "Which of the machines that sent a load together was slow, and how well is its clock known?",
        """SELECT run_id, client, count(*) AS requests, count(*) FILTER (error IS NOT NULL) AS failed,
    round(median(ttft_ms), 1) AS ttft_ms, round(median(tpot_ms), 2) AS tpot_ms,
    round(max(clock_error_ms), 2) AS clock_error_ms
FROM requests
WHERE phase = 'measure' AND client IS NOT NULL
GROUP BY run_id, client
ORDER BY run_id DESC, client""",
    ),
)
"""In the order in which one gets to know a warehouse."""
