-- What an engine's steps add up to, by run and engine: tokens of prompts and of answers, requests in a step, KV cache, preemptions, prefix cache, and time in steps. A row of `steps` counts for as many as it stands for: exact up to 2,000 steps, an estimate beyond (the metrics `engine.*` count every step).
-- example: SELECT steps, prompt_tokens, decode_tokens, round(tokens_per_step, 1) AS tokens_per_step, round(running_mean, 1) AS running, round(kv_usage_max, 3) AS kv_max, preempted, round(prefix_hit_rate, 3) AS hit_rate, round(busy_s, 1) AS busy_s FROM engine_work ORDER BY run_id
CREATE VIEW engine_work AS
WITH kept AS (
    -- Rows of before there was a sampling stand for themselves.
    SELECT * EXCLUDE (stands_for), coalesce(stands_for, 1) AS stands_for
    FROM steps
)
SELECT
    run_id,
    engine_id,
    count(*) AS kept_steps,
    sum(stands_for) AS steps,
    min(ts) AS first_at,
    max(ts) AS last_at,
    sum(stands_for * prompt_tokens) AS prompt_tokens,
    sum(stands_for * decode_tokens) AS decode_tokens,
    sum(stands_for * (prompt_tokens + decode_tokens))
    / nullif(sum(stands_for) FILTER (prompt_tokens IS NOT NULL), 0) AS tokens_per_step,
    sum(stands_for * running) / sum(stands_for) AS running_mean,
    max(running) AS running_max,
    max(waiting) AS waiting_max,
    -- Rounded: the last digits of a sum of fractions depend on the order in which the rows come.
    round(sum(stands_for * kv_usage) / nullif(sum(stands_for) FILTER (kv_usage IS NOT NULL), 0), 9) AS kv_usage_mean,
    max(kv_usage) AS kv_usage_max,
    sum(stands_for * preempted) AS preempted,
    sum(stands_for * prefix_hits) / nullif(sum(stands_for * prefix_queries), 0) AS prefix_hit_rate,
    round(sum(stands_for * step_ms) / 1000, 6) AS busy_s
FROM kept
GROUP BY run_id, engine_id;
