"""Questions to ask of this run in SQL, ready to paste."""

from tasks.report.data import ReportData
from warehouse.schema.table import literal


def queries(data: ReportData) -> list[tuple[str, str]]:
    """(question, SQL) of five queries that name this run, and of one more where load was measured."""
    run = literal(data.run_id)
    return [
        *([_of_load(run)] if data.load_cells else []),
        (
            "How good was each dataset and arm, with its error bar?",
            f"SELECT name, arm, value, lo, hi, n, n_failed\nFROM metrics\n"
            f"WHERE run_id = {run} AND scope IN ('dataset', 'group')\nORDER BY name, arm;",
        ),
        (
            "Which samples did guiding win, and which did it lose?",
            "SELECT f.dataset, f.sample_id, f.metric, f.value AS free, g.value AS guided\n"
            "FROM scores AS f JOIN scores AS g\n"
            "  USING (run_id, dataset, sample_id, repeat, metric, metric_version)\n"
            f"WHERE run_id = {run} AND f.arm = 'free' AND g.arm = 'guided' AND f.value <> g.value\n"
            "ORDER BY g.value - f.value DESC;",
        ),
        (
            "What went wrong, how often, and why?",
            "SELECT dataset, arm, status, finish_reason,\n"
            "  coalesce(error, violations[1].message) AS reason, count(*) AS n\n"
            f"FROM requests\nWHERE run_id = {run} AND (status <> 'ok' OR NOT valid)\nGROUP BY ALL\nORDER BY n DESC;",
        ),
        (
            "Do short prompts wait behind long ones?",
            "SELECT arm, count(*) AS n,\n"
            "  CASE WHEN prompt_tokens < 128 THEN '1: under 128'\n"
            "    WHEN prompt_tokens < 512 THEN '2: 128 to 511'\n"
            "    WHEN prompt_tokens < 2048 THEN '3: 512 to 2047'\n"
            "    ELSE '4: 2048 and more' END AS bucket,\n"
            "  quantile_cont(ttft_ms, 0.5) AS ttft_p50, quantile_cont(ttft_ms, 0.95) AS ttft_p95\n"
            f"FROM requests\nWHERE run_id = {run} AND kind = 'generate' AND phase = 'quality'\n"
            "  AND status IN ('ok', 'invalid', 'truncated')\nGROUP BY ALL\nORDER BY bucket, arm;",
        ),
        (
            "What did the slowest answers look like?",
            "SELECT dataset, sample_id, arm, prompt_tokens, output_tokens, queued_ms, ttft_ms, e2e_ms, output\n"
            f"FROM requests\nWHERE run_id = {run} AND e2e_ms IS NOT NULL\nORDER BY e2e_ms DESC\nLIMIT 20;",
        ),
    ]


def _of_load(run: str) -> tuple[str, str]:
    names = "'perf.ttft_ms.p50', 'perf.ttft_ms.p99', 'perf.tpot_ms.p50', 'perf.output_tokens_per_s'"
    of_points = "cell_id IN (SELECT point_id FROM cells WHERE run_id = m.run_id AND kind <> 'probe')"
    return (
        "What did each load come to, over its repeats?",
        "SELECT cell_id AS point_id, arm, name, value, lo, hi, unit, n AS repeats\nFROM metrics AS m\n"
        f"WHERE run_id = {run} AND name IN ({names})\n  AND {of_points}\nORDER BY point_id, name;",
    )
