"""Where else a run can be looked at: its pages in MLflow and Prefect."""

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

MLFLOW_BASE = "ASSAY_MLFLOW_UI"
PREFECT_BASE = "ASSAY_PREFECT_UI"
_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_CLOSED = "(“assay up” shows it)"


class Link(NamedTuple):
    """A page of a run. `url` is None where no address is known; `hint` then says what shows the page."""

    name: str
    id: str
    url: str | None
    hint: str


def _base(variable: str) -> tuple[str | None, str]:
    """(address, why there is none)."""
    given = os.environ.get(variable, "").strip()
    if not given:
        return None, _CLOSED
    try:
        parts = urlsplit(given)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    return (given.rstrip("/"), "") if good else (None, f"({variable} is no http address)")


def links(run: Mapping[str, Any]) -> list[Link]:
    """The run's pages in MLflow and Prefect, those whose ids are recorded.

    Their addresses begin with what ASSAY_MLFLOW_UI and ASSAY_PREFECT_UI name, such as http://127.0.0.1:5000.
    """
    found = []
    for name, column, variable, page in (
        ("MLflow run", "mlflow_run_id", MLFLOW_BASE, "/#/runs/"),
        ("Prefect flow run", "prefect_flow_run_id", PREFECT_BASE, "/runs/flow-run/"),
    ):
        known = run.get(column)
        if not known:
            continue
        base, hint = _base(variable)
        safe = base is not None and _ID.fullmatch(str(known)) is not None
        found.append(Link(name, str(known), f"{base}{page}{quote(str(known))}" if safe else None, hint))
    return found
