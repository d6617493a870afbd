-- Measured load: a line for each point of each run, with the median over its repeats and, of tpot and throughput, the interval.
-- example: SELECT name, point, repeats, round(ttft_p50_ms, 1) AS ttft_p50_ms, round(tpot_p50_ms, 2) AS tpot_p50_ms, round(output_tokens_per_s, 1) AS tokens_per_s FROM load_points ORDER BY run_id DESC, point
CREATE VIEW load_points AS
WITH measured AS (
    SELECT
        run_id,
        point_id,
        any_value(arm) AS arm,
        any_value(kind) AS kind,
        any_value(concurrency) AS concurrency,
        any_value(rate) AS rate,
        any_value(prompts) AS prompts,
        count(*) AS cells,
        count(*) FILTER (len(disturbed) > 0) AS disturbed_cells
    FROM cells
    WHERE point_id IS NOT NULL
    GROUP BY run_id, point_id
),
figures AS (
    SELECT
        run_id,
        cell_id AS point_id,
        max(n) FILTER (name = 'perf.requests_per_s') AS repeats,
        any_value(value) FILTER (name = 'perf.ttft_ms.p50') AS ttft_p50_ms,
        any_value(value) FILTER (name = 'perf.ttft_ms.p99') AS ttft_p99_ms,
        any_value(value) FILTER (name = 'perf.tpot_ms.p50') AS tpot_p50_ms,
        any_value(lo) FILTER (name = 'perf.tpot_ms.p50') AS tpot_p50_lo,
        any_value(hi) FILTER (name = 'perf.tpot_ms.p50') AS tpot_p50_hi,
        any_value(value) FILTER (name = 'perf.gap_ms.p99') AS gap_p99_ms,
        any_value(value) FILTER (name = 'perf.e2e_ms.p50') AS e2e_p50_ms,
        any_value(value) FILTER (name = 'perf.e2e_ms.p99') AS e2e_p99_ms,
        any_value(value) FILTER (name = 'perf.output_tokens_per_s') AS output_tokens_per_s,
        any_value(lo) FILTER (name = 'perf.output_tokens_per_s') AS output_tokens_per_s_lo,
        any_value(hi) FILTER (name = 'perf.output_tokens_per_s') AS output_tokens_per_s_hi,
        any_value(value) FILTER (name = 'perf.requests_per_s') AS requests_per_s,
        any_value(value) FILTER (name = 'perf.goodput_share') AS goodput_share,
        any_value(value) FILTER (name = 'perf.failed_share') AS failed_share,
        any_value(value) FILTER (name = 'perf.joules_per_output_token') AS joules_per_output_token,
        any_value(value) FILTER (name = 'perf.cost_per_million_output_tokens') AS cost_per_million_output_tokens,
        any_value(value) FILTER (name = 'perf.late_ms.p99') AS client_late_p99_ms
    FROM metrics
    WHERE name LIKE 'perf.%'
    GROUP BY run_id, cell_id
)
SELECT
    m.run_id,
    r.name,
    r.started_at,
    m.point_id AS point,
    m.arm,
    m.kind,
    m.concurrency,
    m.rate,
    m.prompts,
    m.cells,
    m.disturbed_cells,
    f.* EXCLUDE (run_id, point_id)
FROM measured AS m
LEFT JOIN figures AS f USING (run_id, point_id)
LEFT JOIN runs AS r USING (run_id);
