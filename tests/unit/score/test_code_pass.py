"""code_pass: HumanEval as published, how programs are found in answers, and several at once."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.sample import Response, Sample
from tasks.dataset.template import compile_template, native
from tasks.score.metrics import code_pass
from tasks.score.metrics.code_pass import Options, score_many
from tasks.score.sandbox import sandbox as module
from tasks.score.sandbox.extract import extract_code
from tasks.score.sandbox.outcome import SandboxMissing
from tasks.score.sandbox.sandbox import UNSANDBOXED, sandbox_state
from tasks.score.stats.pass_at_k import pass_at_k_aggregates

DATA = Path(__file__).parents[4] / "shared" / "data" / "humaneval"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/humaneval is not there")
needs_sandbox = pytest.mark.usefixtures("a_sandbox")

PROMPT = 'import math\n\n\ndef area(r):\n    """The area of a circle."""\n'
BODY = "    return math.pi * r * r\n"


@pytest.fixture
def a_sandbox() -> None:
    name, words = sandbox_state()
    if name is None:
        pytest.skip(f"no sandbox works here: {words}")


def _sample(target: Any, sample_id: str = "s1") -> Sample:
    return Sample(
        dataset="humaneval",
        sample_id=sample_id,
        row_index=0,
        raw=b"{}",
        input={},
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[1],
        target=target,
    )


def _response(output: str, sample_id: str = "s1", repeat: int = 0) -> Response:
    return Response(
        request_id=f"{sample_id}-{repeat}",
        dataset="humaneval",
        sample_id=sample_id,
        arm="free",
        kind="generate",
        status="ok",
        repeat=repeat,
        output=output,
    )


def _target(row: dict[str, Any]) -> dict[str, Any]:
    return {"tests": row["test"], "entry_point": row["entry_point"], "prompt": row["prompt"]}


@needs_data
@needs_sandbox
def test_the_example_samples_have_their_documented_pass_at_1() -> None:
    problem = json.loads((DATA / "example_problem.jsonl").read_text())
    answers = [json.loads(line)["completion"] for line in (DATA / "example_samples.jsonl").read_text().splitlines()]
    pairs = [(_sample(_target(problem)), _response(answer, repeat=n)) for n, answer in enumerate(answers)]
    scores = score_many(pairs, options=Options(wall_s=3.0))
    assert [score.value for score in scores] == [0, 0, 0, 1, 1, 1]
    assert [score.request_id for score in scores] == [f"s1-{n}" for n in range(6)]
    reasons = [(score.reason or "").partition(":")[0] for score in scores]
    assert reasons == ["failed", "timeout", "failed", "", "", ""]
    (row,) = pass_at_k_aggregates(scores, ks=[1])
    assert (row.name, row.value, row.n) == ("humaneval.code_pass.pass_at_1", 0.5, 1)


@pytest.mark.slow
@needs_data
@needs_sandbox
def test_all_canonical_solutions_pass_and_empty_ones_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    lines = gzip.decompress((DATA / "HumanEval.jsonl.gz").read_bytes()).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    samples = [_sample(_target(row), row["task_id"]) for row in rows]
    right = [_response(row["canonical_solution"], row["task_id"]) for row in rows]
    fenced = [
        _response(f"Here it is:\n\n```python\n{row['prompt']}{row['canonical_solution']}```\n", row["task_id"])
        for row in rows
    ]
    empty = [_response("    pass\n", row["task_id"]) for row in rows]
    started = time.monotonic()
    scores = score_many(list(zip(samples, right, strict=True)), options=Options())
    took = time.monotonic() - started
    with capsys.disabled():
        words = f"{len(rows)} canonical solutions in {took:.1f} s ({len(rows) / took:.1f} a second)"
        print(f"\n{words}, in {sandbox_state()[0]}")
    assert [(score.sample_id, score.reason) for score in scores if score.value != 1] == []
    scores = score_many(list(zip(samples, fenced, strict=True)), options=Options())
    assert [(score.sample_id, score.reason) for score in scores if score.value != 1] == []
    scores = score_many(list(zip(samples, empty, strict=True)), options=Options())
    assert [score.sample_id for score in scores if score.value != 0] == []


@needs_sandbox
def test_scores_keep_the_order_of_the_answers() -> None:
    target = {"tests": "assert f() == 1"}
    outputs = ["def f(): return 1", "def f(): return 2", "", "import time; time.sleep(0.3)\ndef f(): return 1"]
    pairs = [(_sample(target, f"s{n}"), _response(output, f"s{n}")) for n, output in enumerate(outputs)]
    pairs.insert(1, (_sample(None, "none"), _response("def f(): return 1", "none")))
    scores = score_many(pairs, options=Options(), workers=3)
    assert [(score.sample_id, score.value) for score in scores] == [
        ("s0", 1.0),
        ("none", None),
        ("s1", 0.0),
        ("s2", 0.0),
        ("s3", 1.0),
    ]
    assert score_many([], options=Options()) == []


def test_without_a_sandbox_every_score_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "candidates", list)
    module._tried.cache_clear()
    try:
        pair = (_sample({"tests": "assert f() == 1"}), _response("def f(): return 1"))
        with pytest.raises(SandboxMissing, match="allow_unsandboxed"):
            code_pass.sandbox_for(Options())
        with pytest.raises(SandboxMissing, match="allow_unsandboxed"):
            score_many([pair], options=Options())
        wrong = (pair[0], _response("def f(): return 2"))
        scores = score_many([pair, wrong], options=Options(allow_unsandboxed=True))
        assert [score.value for score in scores] == [1, 0]
        assert scores[0].reason == UNSANDBOXED
        assert scores[1].reason == f"failed: AssertionError at `assert f() == 1`; {UNSANDBOXED}"
    finally:
        module._tried.cache_clear()


def test_a_target_template_makes_the_mapping() -> None:
    row = {"prompt": 'def f():\n    """It\'s <1> & "one"."""\n', "test": "def check(c): assert c()", "entry_point": "f"}
    text = '{{ {"tests": test, "entry_point": entry_point, "prompt": prompt} | tojson }}'
    target = native(compile_template(text), row)
    assert isinstance(target, str)
    task = code_pass._task(target)
    assert not isinstance(task, str)
    assert (task.tests, task.entry_point, task.prompt) == (row["test"], "f", row["prompt"])
    assert native(compile_template("{{ test_list }}"), {"test_list": ["assert 1"]}) == ["assert 1"]


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        (BODY, PROMPT + BODY),
        (BODY + "\n\ndef other(): pass", PROMPT + BODY + "\n\n"),
        (BODY + "\nclass A: pass", PROMPT + BODY + "\n"),
        (BODY + "\nif __name__ == '__main__': pass", PROMPT + BODY + "\n"),
        (BODY + "\nprint(area(1))", PROMPT + BODY + "\n"),
        (BODY + "```\nSo.\n```python\ndef area(r): return 0\n```", PROMPT + BODY),
        ("```python\ndef area(r):\n    return 1\n```", "import math\n\n\ndef area(r):\n    return 1\n"),
        ("```\ndef area(r):\n    return 1\n```", "import math\n\n\ndef area(r):\n    return 1\n"),
        ("1. So:\n   ```py\n   def area(r):\n       return 1\n   ```", "import math\n\n\ndef area(r):\n    return 1\n"),
        ("```bash\npip install x\n```\n```python\narea = abs\n```", "import math\n\n\narea = abs\n"),
        ("```python\r\ndef area(r):\r\n    return 1\r\n```", "import math\n\n\ndef area(r):\n    return 1\n"),
        (
            "Sure.\n\nimport cmath\ndef area(r):\n    '''Doc\nat the margin.'''\n    return 1\n\nDone, it works.",
            "import math\n\n\nimport cmath\ndef area(r):\n    '''Doc\nat the margin.'''\n    return 1\n\n",
        ),
        ("def area(r):\n    return 1\n\nassert area(1) == 2", "import math\n\n\ndef area(r):\n    return 1\n\n"),
    ],
)
def test_where_the_program_is(answer: str, program: str) -> None:
    found = extract_code(answer, prompt=PROMPT, entry_point="area")
    assert found.rstrip("\n") == program.rstrip("\n")


def test_without_prompt_or_entry_point() -> None:
    two = "```python\nimport os\n```\n```python\ndef f():\n    return 1\n```\n```python\nprint(f(), f(), f(), f())\n```"
    assert extract_code(two) == "def f():\n    return 1\n"
    assert extract_code("```python\nx = 1\n```\n```python\nx = 1 + 1\n```") == "x = 1 + 1\n"
    assert extract_code("x = 1") == "x = 1"
    assert extract_code("    x = 1\n", how="whole", prompt="p") == "    x = 1\n"
    assert extract_code("```python\nx\n```", how="continuation", prompt="p\n") == "p\n```python\nx\n"


@given(st.text(alphabet=st.sampled_from(list("`def f():\n\t #\"'@=xpython")), max_size=200))
def test_any_answer_has_a_program(answer: str) -> None:
    for prompt in ("", PROMPT):
        for entry_point in (None, "f"):
            text = extract_code(answer, prompt=prompt, entry_point=entry_point)
            assert len(text) <= len(answer) + len(prompt) + 1


def test_a_long_hostile_answer_is_read_in_no_time() -> None:
    started = time.monotonic()
    for piece in ("```python\n", "   ```", "def f", "x" * 7 + ":", '"""\n', "a.b[c]", " \t"):
        extract_code(piece * 20_000, prompt=PROMPT, entry_point="f")
    assert time.monotonic() - started < 5
