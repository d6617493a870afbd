"""Published answers with their published accuracy, and the gold answers of a public test set."""

import json
from pathlib import Path

import pytest
from test_golden_metrics import make_response, make_sample

from tasks.score.registry import metric

DATA = Path(__file__).parents[4] / "shared" / "data"
EXACT = metric("exact_match")


@pytest.mark.parametrize("task", ["date_understanding", "logical_deduction_three_objects"])
@pytest.mark.parametrize(("style", "after"), [("direct", None), ("cot", "the answer is")])
def test_big_bench_hard(task: str, style: str, after: str | None) -> None:
    stem = DATA / "bbh" / "published_outputs" / f"code-davinci-002-{style}" / f"{task}_few_shot_template_0-255000"
    if not stem.with_suffix(".json").exists():
        pytest.skip("the published BIG-Bench Hard outputs are not here")
    published = json.loads(stem.with_name(stem.name + "_eval_metrics.jsonl").read_text().splitlines()[0])["accuracy"]
    outputs = json.loads(stem.with_suffix(".json").read_text())["outputs"]
    options = EXACT.Options(after=after)
    values = []
    for output in outputs:
        response = make_response({"output": output["prediction"]})
        score = EXACT.score(sample=make_sample({"target": output["target"]}), response=response, options=options)
        assert score.value is not None
        values.append(score.value)
    assert 100 * sum(values) / len(values) == pytest.approx(published)


def test_gsm8k_gold_answers_equal_themselves() -> None:
    path = DATA / "gsm8k" / "test.jsonl"
    if not path.exists():
        pytest.skip("the GSM8K test set is not here")
    for line in path.read_text().splitlines():
        answer = json.loads(line)["answer"]
        sample = make_sample({"target": answer.split("####")[1].strip()})
        for after in (None, "####"):
            options = EXACT.Options(compare="number", after=after)
            score = EXACT.score(sample=sample, response=make_response({"output": answer}), options=options)
            assert score.value == 1, (answer, score)
