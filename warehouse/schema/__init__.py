"""The tables of the warehouse: names, types, units, meanings, keys."""

from warehouse.schema import corpora, data, engine, results, runs, sweeps
from warehouse.schema.changes import CURRENT as SCHEMA_VERSION
from warehouse.schema.table import Column, Table

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        runs.RUNS,
        runs.DATASETS,
        runs.PROFILES,
        engine.PLANS,
        engine.ENGINES,
        engine.ENGINE_STARTS,
        engine.GRAMMARS,
        engine.CELLS,
        data.SAMPLES,
        data.REQUESTS,
        engine.STEPS,
        results.SCORES,
        results.JUDGEMENTS,
        results.METRICS,
        engine.TELEMETRY,
        results.COMPARISONS,
        results.GATES,
        sweeps.SWEEP_CELLS,
        sweeps.TRIALS,
        corpora.CORPUS_SCHEMAS,
        corpora.CORPUS_TESTS,
        corpora.CORPUS_ANSWERS,
        results.SCHEMA_VERSION,
    )
}

__all__ = ["SCHEMA_VERSION", "TABLES", "Column", "Table"]
