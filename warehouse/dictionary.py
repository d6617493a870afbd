"""The data dictionary: `python -m warehouse.dictionary` prints warehouse/README.md from the schema."""

import sys

from warehouse.cookbook import COOKBOOK
from warehouse.schema import SCHEMA_VERSION, TABLES, Column, Table
from warehouse.views import Definition, definitions

_PAGE = "../docs/warehouse.md#questions"
_HEAD = """# The warehouse

Printed by `python -m warehouse.dictionary`: change the schema (`warehouse/schema/`), not this file. This is version
{version} of the schema.

Every row of every run is in Parquet, under `ASSAY_HOME/tables/<table>/run=<run_id>/`. `ASSAY_HOME/assay.duckdb` is
built from it and may be deleted at any time. Ask it with `assay sql 'SELECT …'`, or attach it read-only from DuckDB 2.

* What is missing is NULL, never 0.
* Rows are never changed. A row that changes is written again with a higher `revision`, and only the highest revision of
  a key is shown. Key columns are set in **bold**.
* Times are UTC. Durations are in seconds (`_s`) or milliseconds (`_ms`).
* JSON columns hold JSON text: `config ->> '$.model'` takes a value out.
* `requests` shows the last attempt at each request, `request_attempts` all of them, with the same columns.
* `samples.raw` is the row as it was read, byte for byte. In text, what is not valid Unicode is U+FFFD.
* Of a newer assay's data nothing is guessed: it is refused. Of an older one's, columns that did not exist are NULL.
"""


def dictionary() -> str:
    """The whole of warehouse/README.md."""
    parts = [_HEAD.format(version=SCHEMA_VERSION), "## Tables\n"]
    parts += [_table(table) for table in TABLES.values()]
    parts.append("## Views and macros\n")
    parts += [_definition(definition) for definition in definitions()]
    parts.append(
        f"## Cookbook\n\n{len(COOKBOOK)} questions with their SQL and answers are in [docs/warehouse.md]({_PAGE}).\n"
    )
    return "\n".join(parts)


def _table(table: Table) -> str:
    where = "" if table.small else " Stays in Parquet, behind a view."
    rows = "\n".join(_column(column=column, key=column.name in table.key) for column in table)
    return f"### {table.name}\n\n{table.doc}{where}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n{rows}\n"


def _column(*, column: Column, key: bool) -> str:
    name = f"**{column.name}**" if key else column.name
    kind = "JSON" if column.json else _short(column.sql_type)
    return f"| {name} | {kind} | {column.unit} | {column.doc} |"


def _short(sql_type: str) -> str:
    return sql_type.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ").replace('"', "")


def _definition(definition: Definition) -> str:
    kind = "Macro: `FROM " + definition.name + definition.parameters + "`. " if definition.macro else ""
    return f"### {definition.name}\n\n{kind}{definition.doc}\n\n```sql\n{definition.example}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(dictionary())
