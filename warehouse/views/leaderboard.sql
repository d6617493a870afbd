-- Every metric of every run, by dataset and by group of datasets (scope tells them apart): the model, the value and its interval.
-- example: SELECT name, model, metric, arm, round(value, 3) AS value, n FROM leaderboard WHERE dataset = 'arithmetic' ORDER BY value DESC NULLS LAST
CREATE VIEW leaderboard AS
WITH models AS (
    SELECT run_id, string_agg(DISTINCT model, ', ' ORDER BY model) AS model
    FROM engines
    GROUP BY run_id
),
named AS (
    -- A metric's name is its dataset's, a dot, and its own; a dataset's name may hold dots itself, a group's has none.
    SELECT
        m.*,
        coalesce(
            (
                SELECT d.dataset
                FROM datasets AS d
                WHERE m.scope = 'dataset' AND d.run_id = m.run_id AND starts_with(m.name, d.dataset || '.')
                ORDER BY length(d.dataset) DESC
                LIMIT 1
            ),
            split_part(m.name, '.', 1)
        ) AS dataset
    FROM metrics AS m
    WHERE m.scope IN ('dataset', 'group')
)
SELECT
    n.run_id,
    r.name,
    r.started_at,
    r.status,
    models.model,
    n.dataset,
    substr(n.name, length(n.dataset) + 2) AS metric,
    n.arm,
    n.cell_id,
    n.value,
    n.lo,
    n.hi,
    n.n,
    n.n_failed,
    n.unit,
    n.direction,
    n.scope
FROM named AS n
LEFT JOIN runs AS r USING (run_id)
LEFT JOIN models USING (run_id);
