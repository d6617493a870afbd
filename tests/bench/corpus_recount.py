"""Are the verdicts of a run over a corpus right? They are counted once more by what has no part in assay.

    python -m tests.bench.corpus_recount TABLES RUN_ID CORPUS.jsonl [--json out.json]

TABLES: the folder `tables` of ASSAY_HOME. Reads the rows with DuckDB and the corpus itself, judges every instance with
the `jsonschema` package, and compares: each schema and instance is there once for each backend; the corpus's word is
what was stored; each verdict follows from the stored answers; an instance that counts for nobody, as assay's validator
differs from the corpus, is one on which `jsonschema` differs too. Exit code 1 where anything differs. Imports nothing
of assay.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
from jsonschema.validators import validator_for


def rows(tables: Path, table: str, run_id: str) -> list[dict[str, Any]]:
    """The last revision of each row."""
    found = duckdb.sql(f"FROM read_parquet('{tables}/{table}/run={run_id}/*.parquet', union_by_name=true)")
    key = ("case_id", "backend", "test_index") if "test_index" in found.columns else ("case_id", "backend")
    latest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for values in found.fetchall():
        row = dict(zip(found.columns, values, strict=True))
        name = tuple(row[column] for column in key)
        if name not in latest or latest[name]["revision"] < row["revision"]:
            latest[name] = row
    return list(latest.values())


def judge(schema: Any, instance: Any) -> bool | None:
    """What the `jsonschema` package says, with the formats of the schema's draft; None where it fails."""
    try:
        kind = validator_for(schema) if isinstance(schema, dict) else validator_for({})
        return bool(kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(instance))
    except Exception:  # noqa: BLE001 - a schema that this package cannot use: it has no word
        return None


def schema_of(case: dict[str, Any]) -> Any:
    """The schema of a line; some corpora have it as text."""
    return json.loads(case["schema"]) if isinstance(case["schema"], str) else case["schema"]


def verdict(status: str, tests: list[dict[str, Any]]) -> str:
    """From the answers alone. An instance on which the corpus and assay's validator differ counts for nobody."""
    if status != "accepted":
        return status
    answered = [t for t in tests if t["accepted"] is not None and t["validated"] in (None, t["expected"])]
    over = any(t["expected"] and not t["accepted"] for t in answered)
    under = any(t["accepted"] and not t["expected"] for t in answered)
    if over or under:
        return "both" if over and under else "over" if over else "under"
    return "right" if answered else "untested"


def stored_otherwise(
    row: dict[str, Any], own: list[dict[str, Any]], *, case: dict[str, Any], second: list[bool | None]
) -> list[str]:
    """What of a schema and backend was stored otherwise than the corpus has it. second: that validator's words."""
    found = []
    name, given = f"{row['backend']} {row['name']}", case.get("tests", [])
    if json.loads(row["schema"]) != schema_of(case):
        found.append(f"{name}: another schema was stored")
    if row["status"] == "accepted" and [t["test_index"] for t in own] != list(range(len(given))):
        found.append(f"{name}: {len(own)} of {len(given)} instances are stored")
    for test in own:
        index = test["test_index"]
        if test["expected"] is not given[index]["valid"] or json.loads(test["instance"]) != given[index]["data"]:
            found.append(f"{name} #{index}: another instance or verdict was stored")
        if test["validated"] not in (None, test["expected"]) and second[index] is test["expected"]:
            found.append(f"{name} #{index}: it is let off, and the second validator says what the corpus says")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path)
    parser.add_argument("run_id")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    corpus = [json.loads(line) for line in asked.corpus.read_text("utf-8").split("\n") if line.strip()]
    schemas = rows(asked.tables, "corpus_schemas", asked.run_id)
    tests: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows(asked.tables, "corpus_tests", asked.run_id):
        tests.setdefault((row["case_id"], row["backend"]), []).append(row)

    wrong: list[str] = []
    disputes: set[tuple[str, int]] = set()
    table: dict[str, Counter[str]] = {}
    second = {
        number: [judge(schema_of(case), test["data"]) for test in case.get("tests", [])]
        for number, case in enumerate(corpus)
    }
    backends = sorted({row["backend"] for row in schemas})
    there = Counter((row["case_id"], row["backend"]) for row in schemas)
    if any(count > 1 for count in there.values()) or len(schemas) != len({r["case_id"] for r in schemas}) * len(
        backends
    ):
        wrong.append("a schema is there twice, or not for every backend")
    for row in schemas:
        number = int(row["case_id"].split("-")[0])
        case, name = corpus[number], f"{row['backend']} {row['name']}"
        own = sorted(tests.get((row["case_id"], row["backend"]), []), key=lambda test: test["test_index"])
        wrong += stored_otherwise(row, own, case=case, second=second[number])
        disputes |= {
            (row["name"], test["test_index"])
            for test in own
            if second[number][test["test_index"]] not in (None, test["expected"])
        }
        counted = verdict(row["status"], own)
        table.setdefault(row["backend"], Counter())[counted] += 1
        if counted != row["verdict"]:
            wrong.append(f"{name}: {row['verdict']} is stored, the answers say {counted}")
    for backend, counts in table.items():
        print(f"{backend:20}{', '.join(f'{word} {n}' for word, n in counts.most_common())}")
    judged = sum(len(each) for each in second.values())
    print(
        f"{len(schemas)} verdicts, {sum(map(len, tests.values()))} answers; of {judged} instances the second validator"
    )
    print(
        f"disputes {len(disputes)}: {', '.join(f'{name} #{index}' for name, index in sorted(disputes)[:10]) or 'none'}"
    )
    print(f"{len({row['case_id'] for row in schemas})} of the corpus's {len(corpus)} schemas")
    print(f"{len(wrong)} differences")
    for each in wrong[:20]:
        print(f"  {each}")
    if asked.json is not None:
        told = {"table": {name: dict(counts) for name, counts in table.items()}, "wrong": wrong}
        asked.json.write_text(json.dumps(told))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
