-- Energy by run and device, by the device's counter and by its power over time (the two may differ), and per token put out.
-- example: SELECT name, device, round(mean_power_w) AS mean_power_w, round(counter_j) AS counter_j, counter_j_per_output_token FROM energy
CREATE VIEW energy AS
WITH gaps AS (
    SELECT
        run_id,
        device,
        ts,
        power_w,
        energy_j,
        revision,
        (power_w + lag(power_w) OVER reading) / 2 * epoch(ts - lag(ts) OVER reading) AS power_j
    FROM telemetry
    WINDOW reading AS (PARTITION BY run_id, device, revision ORDER BY ts)
),
sessions AS (
    -- A resumed run has a pause between its sessions, which are told apart by their revision.
    SELECT
        run_id,
        device,
        epoch(max(ts) - min(ts)) AS seconds,
        sum(power_w) AS power_w,
        count(power_w) AS n,
        max(power_w) AS max_power_w,
        CASE WHEN count(energy_j) > 1 THEN max(energy_j) - min(energy_j) END AS counter_j,
        sum(power_j) AS power_j
    FROM gaps
    GROUP BY run_id, device, revision
),
devices AS (
    SELECT
        run_id,
        device,
        sum(seconds) AS seconds,
        sum(power_w) / nullif(sum(n), 0) AS mean_power_w,
        max(max_power_w) AS max_power_w,
        sum(counter_j) AS counter_j,
        sum(power_j) AS power_j
    FROM sessions
    GROUP BY run_id, device
),
tokens AS (
    SELECT run_id, sum(output_tokens) AS output_tokens
    FROM request_attempts
    WHERE reused IS NOT TRUE
    GROUP BY run_id
)
SELECT
    d.run_id,
    r.name,
    d.device,
    d.seconds,
    d.mean_power_w,
    d.max_power_w,
    d.counter_j,
    d.power_j,
    t.output_tokens,
    d.counter_j / nullif(t.output_tokens, 0) AS counter_j_per_output_token,
    d.power_j / nullif(t.output_tokens, 0) AS power_j_per_output_token
FROM devices AS d
LEFT JOIN runs AS r USING (run_id)
LEFT JOIN tokens AS t USING (run_id);
