-- One metric over the runs, by the time they started.
-- example: SELECT started_at, name, arm, value, lo, hi FROM trend('arithmetic.exact_match')
CREATE MACRO trend(metric) AS TABLE
SELECT r.started_at, m.run_id, r.name, r.status, m.arm, m.cell_id, m.value, m.lo, m.hi, m.n, m.unit
FROM metrics AS m
LEFT JOIN runs AS r USING (run_id)
WHERE m.name = metric
ORDER BY r.started_at, m.run_id, m.arm;
