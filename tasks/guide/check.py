"""Whether a schema or a pattern is one at all, before anything is loaded."""

import json
from typing import Any

import jsonschema_rs
import regex

from tasks.guide.judge import build_validator, first_line


def check_schema(schema: Any) -> str | None:
    """Why this is no valid JSON Schema, or None if it is one.

    Refused: what the draft's own meta-schema refuses, an unknown `$schema`, a `$ref` that leads nowhere or out of the
    schema (nothing is ever fetched), a pattern that does not compile or is too large.
    """
    if not isinstance(schema, dict | bool):
        return f"a schema is an object, true or false, not {json.dumps(schema, default=str)[:80]}"
    try:
        build_validator(schema)
    except jsonschema_rs.ValidationError as error:
        where = "/".join(str(step) for step in error.instance_path)
        return f"{where}: {first_line(error)}" if where else first_line(error)
    except (ValueError, TypeError, RecursionError) as error:
        return first_line(error)
    return None


def check_pattern(pattern: str) -> str | None:
    """Why this is no valid regular expression (the `regex` package's dialect), or None if it is one."""
    try:
        regex.compile(pattern)
    except regex.error as error:
        return first_line(error)
    except RecursionError:
        return "nested too deeply"
    return None
