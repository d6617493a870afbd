-- One row per cell and repeat of a sweep, an ablation or a tuning: what was set, how it ended, and what its run came to. Rates and latencies are NULL where the run did not finish, or several sessions answered it; start_s is NULL where the engine stood already, and saved_s is then what its start had taken.
-- example: SELECT cell, state, built, round(output_tokens_per_s, 1) AS tokens_per_s, round(e2e_p50_ms) AS e2e_p50_ms, start_s, saved_s FROM sweep_results ORDER BY run_id, order_index
CREATE VIEW sweep_results AS
WITH asked AS (
    SELECT
        run_id,
        count(DISTINCT revision) = 1 AND NOT bool_or(reused IS TRUE) AS whole,
        count(*) FILTER (status IN ('ok', 'invalid', 'truncated')) AS answers,
        sum(output_tokens) FILTER (kind = 'generate' AND status IN ('ok', 'invalid', 'truncated')) AS output_tokens,
        epoch(max(sent_at + to_milliseconds(e2e_ms)) FILTER (status IN ('ok', 'invalid', 'truncated')))
        - epoch(min(sent_at) FILTER (status IN ('ok', 'invalid', 'truncated') AND e2e_ms IS NOT NULL)) AS seconds,
        quantile_cont(ttft_ms, 0.5) FILTER (kind = 'generate' AND status IN ('ok', 'invalid', 'truncated')) AS ttft_p50,
        quantile_cont(tpot_ms, 0.5) FILTER (kind = 'generate' AND status IN ('ok', 'invalid', 'truncated')) AS tpot_p50,
        quantile_cont(e2e_ms, 0.5) FILTER (kind = 'generate' AND status IN ('ok', 'invalid', 'truncated')) AS e2e_p50
    FROM requests
    WHERE (phase IS NULL OR phase = 'quality') AND run_id IN (SELECT cell_run_id FROM sweep_cells)
    GROUP BY run_id
),
last_engines AS (
    SELECT run_id, engine_id, built_by, start_s, kv_tokens
    FROM engines
    QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY revision DESC, engine_id) = 1
),
built AS (SELECT run_id, max(start_s) AS start_s FROM engines GROUP BY run_id)
SELECT
    c.run_id,
    r.flow,
    r.name AS sweep,
    c.cell_index,
    c.repeat,
    c.order_index,
    c.role,
    c.name AS cell,
    c.settings,
    c.state,
    c.error,
    c.cell_run_id,
    c.engine_group,
    c.built,
    e.engine_id,
    e.built_by,
    c.seconds,
    e.start_s,
    CASE WHEN c.built IS FALSE THEN b.start_s END AS saved_s,
    e.kv_tokens,
    a.answers,
    a.output_tokens,
    CASE WHEN a.whole AND c.state = 'finished' THEN a.output_tokens / nullif(a.seconds, 0) END AS output_tokens_per_s,
    CASE WHEN a.whole AND c.state = 'finished' THEN a.ttft_p50 END AS ttft_p50_ms,
    CASE WHEN a.whole AND c.state = 'finished' THEN a.tpot_p50 END AS tpot_p50_ms,
    CASE WHEN a.whole AND c.state = 'finished' THEN a.e2e_p50 END AS e2e_p50_ms
FROM sweep_cells AS c
LEFT JOIN runs AS r ON r.run_id = c.run_id
LEFT JOIN asked AS a ON a.run_id = c.cell_run_id
LEFT JOIN last_engines AS e ON e.run_id = c.cell_run_id
LEFT JOIN built AS b ON b.run_id = e.built_by;
