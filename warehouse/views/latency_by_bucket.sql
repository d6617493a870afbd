-- Times by length of the prompt. Only requests that ran to an end here count: no failures, no reused answers, no warm-up.
-- example: SELECT bucket, n, round(ttft_p50_ms) AS ttft_p50_ms, round(ttft_p95_ms) AS ttft_p95_ms FROM latency_by_bucket WHERE arm = 'free' ORDER BY run_id, bucket_from
CREATE VIEW latency_by_bucket AS
WITH timed AS (
    -- Half the bytes of a DOUBLE, and seven digits are more than a clock gives: quantiles hold every value.
    SELECT
        run_id,
        phase,
        cell_id,
        arm,
        ttft_ms::FLOAT AS ttft_ms,
        tpot_ms::FLOAT AS tpot_ms,
        e2e_ms::FLOAT AS e2e_ms,
        CASE
            WHEN prompt_tokens < 128 THEN 0
            WHEN prompt_tokens < 512 THEN 128
            WHEN prompt_tokens < 1024 THEN 512
            WHEN prompt_tokens < 2048 THEN 1024
            WHEN prompt_tokens < 4096 THEN 2048
            WHEN prompt_tokens < 8192 THEN 4096
            WHEN prompt_tokens >= 8192 THEN 8192
        END AS bucket_from
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
        phase,
        cell_id,
        arm,
        bucket_from,
        count(*) AS n,
        quantile_cont(ttft_ms, [0.5, 0.95]) AS ttft,
        quantile_cont(tpot_ms, 0.5) AS tpot,
        quantile_cont(e2e_ms, 0.5) AS e2e
    FROM timed
    GROUP BY run_id, phase, cell_id, arm, bucket_from
)
SELECT
    run_id,
    phase,
    cell_id,
    arm,
    bucket_from,
    CASE bucket_from
        WHEN 0 THEN 'under 128'
        WHEN 128 THEN '128 to 511'
        WHEN 512 THEN '512 to 1,023'
        WHEN 1024 THEN '1,024 to 2,047'
        WHEN 2048 THEN '2,048 to 4,095'
        WHEN 4096 THEN '4,096 to 8,191'
        WHEN 8192 THEN '8,192 and more'
    END AS bucket,
    n,
    ttft[1]::DOUBLE AS ttft_p50_ms,
    ttft[2]::DOUBLE AS ttft_p95_ms,
    tpot::DOUBLE AS tpot_p50_ms,
    e2e::DOUBLE AS e2e_p50_ms
FROM grouped;
