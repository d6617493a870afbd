"""What tests of a measured load's pages begin with."""

from typing import Any

import pytest

from tasks.report.data import ReportData
from tests.unit.report import benchmark_rows


@pytest.fixture(scope="module")
def tables() -> dict[str, list[dict[str, Any]]]:
    return benchmark_rows.tables()


@pytest.fixture(scope="module")
def data(tables: dict[str, list[dict[str, Any]]]) -> ReportData:
    return benchmark_rows.data_of(tables)
