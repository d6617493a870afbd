"""Questions that a warehouse answers, each with its SQL."""

COOKBOOK: tuple[tuple[str, str], ...] = (
    (
        "Which runs are there, and how did they end?",
        """SELECT run_id, name, status, started_at, date_diff('second', started_at, ended_at) AS seconds, error
FROM runs
ORDER BY started_at DESC""",
    ),
    (
        "How good was the last run, with its uncertainty?",
        """SELECT dataset, metric, arm, round(value, 3) AS value, round(lo, 3) AS lo, round(hi, 3) AS hi, n
FROM leaderboard
WHERE run_id = (SELECT max(run_id) FROM runs)
ORDER BY dataset, metric, arm""",
    ),
    (
        "What did guiding the generation change?",
        """SELECT dataset, metric, n_pairs, round(free, 3) AS free, round(guided, 3) AS guided,
    round(effect, 3) AS effect, round(lo, 3) AS lo, round(hi, 3) AS hi, verdict
FROM guided_lift
ORDER BY dataset, metric""",
    ),
    (
        "Which samples did one run get right and another wrong?",
        """WITH last_two AS (SELECT run_id FROM runs WHERE flow = 'experiment' ORDER BY started_at DESC LIMIT 2)
SELECT a.dataset, a.sample_id, a.arm, a.metric, a.value AS earlier, b.value AS later
FROM scores AS a
INNER JOIN scores AS b USING (dataset, sample_id, arm, repeat, metric, metric_version)
WHERE
    a.run_id = (SELECT min(run_id) FROM last_two)
    AND b.run_id = (SELECT max(run_id) FROM last_two)
    AND a.value <> b.value""",
    ),
    (
        "What failed, and why, most frequent reason first?",
        """SELECT dataset, arm, status, reason, count(*) AS n
FROM failures
GROUP BY ALL
ORDER BY n DESC""",
    ),
    (
        "What exactly was asked where the answer was not valid?",
        """SELECT f.dataset, f.sample_id, f.arm, f.reason, right(s.prompt, 300) AS prompt_end, f.output_start
FROM failures AS f
INNER JOIN samples AS s USING (run_id, dataset, sample_id)
WHERE f.status = 'invalid'
LIMIT 20""",
    ),
    (
        "How well-formed are the answers of each arm?",
        """SELECT dataset, arm, count(valid) AS judged, avg(valid::INTEGER) AS valid_share,
    avg(whitespace_share) AS whitespace_share, avg((finish_reason = 'length')::INTEGER) AS cut_share
FROM requests
WHERE kind = 'generate'
GROUP BY ALL
ORDER BY dataset, arm""",
    ),
    (
        "How long until the first token, by length of the prompt?",
        """SELECT run_id, arm, bucket, n, round(ttft_p50_ms, 1) AS p50, round(ttft_p95_ms, 1) AS p95
FROM latency_by_bucket
ORDER BY run_id, arm, bucket_from""",
    ),
    (
        "Which ten requests were slowest, and where did their time go?",
        """SELECT dataset, sample_id, arm, prompt_tokens, output_tokens, e2e_ms, queued_ms, prefill_ms, decode_ms
FROM requests
WHERE e2e_ms IS NOT NULL
ORDER BY e2e_ms DESC
LIMIT 10""",
    ),
    (
        "Which settings did the plan choose, and why?",
        """SELECT option, value, default_value, reason, evidence
FROM plans
WHERE source = 'plan'
ORDER BY run_id DESC, option""",
    ),
    (
        "Where did starting the engine take its time?",
        """SELECT r.name, e.device, e.cudagraph_mode, e.cold, e.start_s, e.import_s, e.load_s,
    e.compile_s, e.capture_s, e.warmup_s
FROM engines AS e
INNER JOIN runs AS r USING (run_id)
ORDER BY r.started_at DESC""",
    ),
    (
        "Did the engine run as it was asked to?",
        """SELECT run_id, engine_id, unnest(downgrades) AS downgrade
FROM engines""",
    ),
    (
        "How long are the prompts, and was anything cut?",
        """SELECT dataset, arm, n, tokens_p50, tokens_p95, tokens_max, output_budget, over_limit, cut_tokens
FROM profiles
ORDER BY run_id DESC, dataset""",
    ),
    (
        "How did one metric develop over time?",
        """SELECT started_at, name, arm, round(value, 3) AS value, round(lo, 3) AS lo, round(hi, 3) AS hi, n
FROM trend('arithmetic.exact_match')""",
    ),
    (
        "How many requests needed more than one attempt?",
        """SELECT run_id, attempts, count(*) AS requests
FROM (SELECT run_id, request_id, count(*) AS attempts FROM request_attempts GROUP BY ALL)
WHERE attempts > 1
GROUP BY ALL
ORDER BY run_id DESC, attempts""",
    ),
    (
        "Which grammars did the backend refuse or mishandle?",
        """SELECT grammar_id, backend, kind, status, message, compile_s, len(lint) AS warnings
FROM grammars
WHERE status <> 'accepted' OR len(lint) > 0""",
    ),
    (
        "Do two samples of one dataset have the same prompt?",
        """SELECT run_id, dataset, prompt_hash, count(*) AS n, list(sample_id ORDER BY sample_id) AS samples
FROM samples
GROUP BY ALL
HAVING n > 1""",
    ),
    (
        "What was the temperature of each run's sampling?",
        """SELECT run_id, name, config ->> '$.datasets[0].sampling.temperature' AS temperature
FROM runs""",
    ),
    (
        "Which columns does a table have, and what do they mean?",
        """SELECT column_name, data_type, comment
FROM duckdb_columns()
WHERE database_name = 'warehouse' AND table_name = 'requests'
ORDER BY column_index""",
    ),
)
