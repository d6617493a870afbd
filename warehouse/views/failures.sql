-- Every request whose last attempt failed, was refused, cancelled, cut off or found invalid: the reason, and how the answer starts.
-- example: SELECT dataset, sample_id, arm, status, reason, output_start FROM failures ORDER BY run_id DESC, dataset, sample_id
CREATE VIEW failures AS
SELECT
    run_id,
    dataset,
    sample_id,
    arm,
    repeat,
    phase,
    status,
    coalesce(
        error,
        nullif(violations[1].path, '') || ': ' || violations[1].message,
        violations[1].message,
        CASE WHEN status = 'truncated' THEN 'cut off after ' || output_tokens || ' tokens' END,
        nullif(finish_reason, 'stop')
    ) AS reason,
    left(output, 200) AS output_start,
    output_tokens,
    request_id,
    attempt
FROM requests
WHERE status IN ('error', 'refused', 'cancelled', 'invalid', 'truncated');
