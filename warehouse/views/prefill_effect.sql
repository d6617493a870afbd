-- Time to the first token of short prompts (under 1,000 tokens) beside long ones, by engine and its prefill threshold: how many prompts were split, and into how many steps. Counts as latency_by_bucket does; NULL where the engine does not tell the steps of a prompt.
-- example: SELECT threshold, budget, prompts, n, split, round(steps_mean, 1) AS steps, round(ttft_p50_ms) AS ttft_p50_ms, round(ttft_p99_ms) AS ttft_p99_ms FROM prefill_effect ORDER BY run_id, prompts DESC
CREATE VIEW prefill_effect AS
WITH asked AS (
    SELECT
        run_id,
        engine_id,
        CASE WHEN prompt_tokens < 1000 THEN 'short' WHEN prompt_tokens >= 1000 THEN 'long' END AS prompts,
        prompt_tokens,
        prefill_steps,
        ttft_ms,
        queued_ms
    FROM requests
    WHERE
        kind = 'generate'
        AND status IN ('ok', 'invalid', 'truncated')
        AND reused IS NOT TRUE
        AND (phase IS NULL OR phase IN ('quality', 'measure'))
),
grouped AS (
    SELECT
        run_id,
        engine_id,
        prompts,
        count(*) AS n,
        avg(prompt_tokens) AS tokens_mean,
        max(prompt_tokens) AS tokens_max,
        CASE WHEN count(prefill_steps) > 0 THEN count(*) FILTER (prefill_steps > 1) END AS split,
        avg(prefill_steps) AS steps_mean,
        max(prefill_steps) AS steps_max,
        quantile_cont(ttft_ms, [0.5, 0.99]) AS ttft,
        quantile_cont(queued_ms, 0.5) AS queued_p50_ms
    FROM asked
    GROUP BY run_id, engine_id, prompts
)
SELECT
    g.run_id,
    g.engine_id,
    e.model,
    e.prefill_policy AS policy,
    e.long_prefill_token_threshold AS threshold,
    e.max_num_batched_tokens AS budget,
    e.prefill_yields AS yields,
    g.prompts,
    g.n,
    g.tokens_mean,
    g.tokens_max,
    g.split,
    g.steps_mean,
    g.steps_max,
    g.ttft[1] AS ttft_p50_ms,
    g.ttft[2] AS ttft_p99_ms,
    g.queued_p50_ms
FROM grouped AS g
LEFT JOIN engines AS e USING (run_id, engine_id);
