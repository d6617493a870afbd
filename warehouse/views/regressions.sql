-- Where a run came out worse than the run it was compared with.
-- example: SELECT name, baseline_name, dataset, metric, effect, lo, hi FROM regressions ORDER BY compared_at DESC
CREATE VIEW regressions AS
SELECT
    c.run_id,
    r.name,
    c.baseline_run_id,
    b.name AS baseline_name,
    c.dataset,
    c.metric,
    c.candidate_arm,
    c.baseline_arm,
    c.cell_id,
    c.candidate,
    c.baseline,
    c.effect,
    c.lo,
    c.hi,
    c.margin,
    c.n_pairs,
    c.prompts_differ,
    c.compared_at
FROM comparisons AS c
LEFT JOIN runs AS r ON r.run_id = c.run_id
LEFT JOIN runs AS b ON b.run_id = c.baseline_run_id
WHERE c.verdict = 'worse' AND c.run_id <> c.baseline_run_id;
