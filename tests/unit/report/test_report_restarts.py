"""An engine that was started more than once: said at the top, and listed with what it died of."""

import datetime
import json
from typing import Any

import report_rows

from tasks.report.alerts import alerts
from tasks.report.build import render
from tasks.report.data import ReportData, from_tables
from tasks.report.sections import sections

BEGAN = datetime.datetime(2026, 11, 27, 22, 4, 0, tzinfo=datetime.UTC)
KEYS_AND_VALUES = "kv_cache_memory_bytes 2,048 MiB -> 1,024 MiB"


def start(number: int, **changes: Any) -> dict[str, Any]:
    began = BEGAN + datetime.timedelta(minutes=number)
    row = {
        "run_id": report_rows.RUN_ID,
        "revision": 1,
        "start_id": f"0-{number}",
        "order_index": number,
        "engine_id": "e1",
        "started_at": began,
        "ready_at": began + datetime.timedelta(seconds=9.5),
        "ended_at": began + datetime.timedelta(seconds=50),
        "ended_why": "done",
        "ended_while": None,
        "error": None,
        "in_flight": None,
        "rung": None,
        "message": None,
        "requested": json.dumps({"max_num_seqs": 8}),
        "log_path": f"/somewhere/runs/a/engine{f'.{number}' if number else ''}.log",
    }
    return row | changes


def a_run(*starts: dict[str, Any], **tables: list[dict[str, Any]]) -> ReportData:
    return from_tables(
        tables=report_rows.tables() | {"engine_starts": list(starts)} | tables, run_id=report_rows.RUN_ID
    )


OUT_OF_MEMORY = start(
    0, engine_id=None, ready_at=None, ended_why="out_of_memory", ended_while="building", in_flight=0,
    error="RuntimeError: can't allocate memory", message=f"the engine ran out of memory; less: {KEYS_AND_VALUES}",
)  # fmt: skip
DIED = start(
    1, rung=KEYS_AND_VALUES, ended_why="died", ended_while="answering", in_flight=1234, error="exit status <137>",
    message="the engine died while answering (exit status <137>); started again, 1 of at most 3",
)  # fmt: skip


def test_each_end_is_an_alert_and_said_once() -> None:
    data = a_run(OUT_OF_MEMORY, DIED, start(2))
    data.run["warnings"] = [OUT_OF_MEMORY["message"], DIED["message"]]
    found = [(alert.level, alert.title, alert.text) for alert in alerts(data) if alert.text in data.run["warnings"]]
    assert found == [
        ("warn", "The engine ran out of memory", OUT_OF_MEMORY["message"]),
        ("warn", "The engine died", DIED["message"]),
    ]


def test_the_starts_are_listed_in_order_with_what_ended_them() -> None:
    page = render(a_run(start(2), DIED, OUT_OF_MEMORY), drawn={})
    table = page[page.index("Table of the engine's starts") :]
    table = table[: table.index("</table>")]
    rows = table.split("<tr>")[2:]
    assert len(rows) == 3
    assert "ran out of memory while building" in rows[0] and "it never was ready" in rows[0]
    assert "died while answering" in rows[1] and "1,234" in rows[1] and "engine.1.log" in rows[1] and "9.5" in rows[1]
    assert "kv_cache_memory_bytes 2,048 MiB -&gt; 1,024 MiB" in rows[1] and "exit status &lt;137&gt;" in rows[1]
    assert "was no longer needed" in rows[2]
    assert "/somewhere" not in table


def test_one_start_that_ended_as_it_should_is_not_worth_a_table() -> None:
    assert "Table of the engine's starts" not in render(a_run(start(0)), drawn={})


def test_an_engine_that_was_never_ready_has_its_section_all_the_same() -> None:
    data = a_run(OUT_OF_MEMORY, engines=[], plans=[])
    assert "engine" in [section.anchor for section in sections(data)]
    assert "can&#39;t allocate memory" in render(data, drawn={})
