-- Samples whose score under the same metric and arm differs between the runs a and b; NULL where one of them has no score.
-- example: SELECT dataset, sample_id, metric, arm, value_a, value_b FROM flips('20261127T220355-3f9a2c', '20261128T220355-7b01de')
CREATE MACRO flips(a, b) AS TABLE
SELECT
    x.dataset,
    x.sample_id,
    x.arm,
    x.repeat,
    x.metric,
    x.value AS value_a,
    y.value AS value_b,
    x.extracted AS extracted_a,
    y.extracted AS extracted_b
FROM scores AS x
INNER JOIN scores AS y
    ON
        x.dataset = y.dataset
        AND x.sample_id = y.sample_id
        AND x.arm IS NOT DISTINCT FROM y.arm
        AND x.repeat IS NOT DISTINCT FROM y.repeat
        AND x.metric = y.metric
        AND x.metric_version IS NOT DISTINCT FROM y.metric_version
WHERE x.run_id = a AND y.run_id = b AND x.value IS DISTINCT FROM y.value;
