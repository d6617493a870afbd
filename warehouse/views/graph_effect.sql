-- What CUDA graphs did, by engine: the share of steps and of tokens that ran from a graph, the padding, what recording took, and the time per token. An engine without graphs, as on a CPU, has NULL shares. A row of `steps` counts for as many as it stands for.
-- example: SELECT device, cudagraph_mode, steps, round(graph_share_steps, 3) AS from_graphs, round(padding_share, 3) AS padding, sizes_used, round(decode_step_p50_ms, 1) AS decode_step_ms, round(tpot_p50_ms, 1) AS tpot_ms FROM graph_effect ORDER BY run_id
CREATE VIEW graph_effect AS
WITH kept AS (
    -- Rows of before there was a sampling stand for themselves.
    SELECT * EXCLUDE (stands_for), coalesce(stands_for, 1) AS stands_for
    FROM steps
),
ran AS (
    SELECT
        run_id,
        engine_id,
        sum(stands_for) AS steps,
        sum(stands_for) FILTER (graph_mode IS NOT NULL) AS told,
        sum(stands_for) FILTER (graph_mode IN ('full', 'piecewise')) AS in_graphs,
        sum(stands_for) FILTER (graph_mode = 'full') AS full_graphs,
        sum(stands_for * (prompt_tokens + decode_tokens)) FILTER (graph_mode IS NOT NULL) AS tokens,
        sum(stands_for * (prompt_tokens + decode_tokens)) FILTER (graph_mode IN ('full', 'piecewise')) AS graph_tokens,
        sum(stands_for * padded_tokens) AS padded_tokens,
        list_sort(list(DISTINCT graph_size) FILTER (graph_size IS NOT NULL)) AS sizes_used,
        quantile_cont(step_ms, 0.5) FILTER (prompt_tokens = 0) AS decode_step_p50_ms
    FROM kept
    GROUP BY run_id, engine_id
),
answered AS (
    SELECT run_id, engine_id, count(*) AS answers, quantile_cont(tpot_ms, 0.5) AS tpot_p50_ms
    FROM requests
    WHERE
        kind = 'generate'
        AND status IN ('ok', 'invalid', 'truncated')
        AND reused IS NOT TRUE
        AND (phase IS NULL OR phase IN ('quality', 'measure'))
    GROUP BY run_id, engine_id
)
SELECT
    e.run_id,
    e.engine_id,
    e.model,
    e.device,
    e.cudagraph_mode,
    e.capture_sizes,
    r.steps,
    coalesce(r.in_graphs, 0) / r.told AS graph_share_steps,
    coalesce(r.full_graphs, 0) / r.told AS full_share_steps,
    coalesce(r.graph_tokens, 0) / nullif(CASE WHEN r.told > 0 THEN r.tokens END, 0) AS graph_share_tokens,
    r.padded_tokens / nullif(r.tokens + r.padded_tokens, 0) AS padding_share,
    CASE WHEN r.told > 0 THEN coalesce(r.sizes_used, []) END AS sizes_used,
    r.decode_step_p50_ms,
    a.answers,
    a.tpot_p50_ms,
    e.graph_bytes,
    e.compile_s,
    e.capture_s,
    e.start_s
FROM engines AS e
LEFT JOIN ran AS r USING (run_id, engine_id)
LEFT JOIN answered AS a USING (run_id, engine_id);
