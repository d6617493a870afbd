-- What guiding the generation changes: guided against free on the same samples of one run, with the effect and its interval.
-- example: SELECT dataset, metric, round(free, 3) AS free, round(guided, 3) AS guided, round(effect, 3) AS effect, verdict FROM guided_lift ORDER BY effect DESC NULLS LAST
CREATE VIEW guided_lift AS
SELECT
    c.run_id,
    r.name,
    r.started_at,
    c.dataset,
    c.metric,
    c.cell_id,
    c.baseline AS free,
    c.candidate AS guided,
    c.effect,
    c.lo,
    c.hi,
    c.p_adjusted,
    c.n_pairs,
    c.wins,
    c.losses,
    c.ties,
    c.verdict
FROM comparisons AS c
LEFT JOIN runs AS r USING (run_id)
WHERE
    c.run_id = c.baseline_run_id
    AND c.candidate_arm = 'guided'
    AND c.baseline_arm = 'free'
    AND c.dataset IS NOT NULL;
