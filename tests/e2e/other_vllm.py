"""Another environment's vLLM, where the tests were given one.

`make other-vllm VERSION=0.31.0` makes such an environment; ASSAY_TEST_OTHER_PYTHON is its interpreter:

    ASSAY_TEST_OTHER_PYTHON=.cache/vllm-0.31.0/bin/python make test-slow ARGS="tests/e2e/test_vllm_matrix.py"
"""

import os
from pathlib import Path

import pytest

VARIABLE = "ASSAY_TEST_OTHER_PYTHON"


def other_python() -> str:
    """The interpreter; the test is skipped where there is none."""
    given = os.environ.get(VARIABLE)
    if not given:
        pytest.skip(f"{VARIABLE} names no interpreter with another vLLM (`make other-vllm VERSION=0.31.0` makes one)")
    python = Path(given).absolute()
    assert python.is_file(), f"{VARIABLE} is {given}, which is not there"
    return str(python)
