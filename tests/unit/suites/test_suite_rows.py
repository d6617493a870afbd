"""Each suite over rows in its own layout: the exact prompt, choices and target, and a right and a wrong answer."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from suite_helpers import DATA, SHARED, case_of, used, write_copy

from schemas.dataset import NamedDataset
from schemas.sample import Choice, Response, Sample
from tasks.config.suites import suite_names
from tasks.dataset.load import load_rows
from tasks.dataset.prepare import prepare_samples
from tasks.dataset.preview import Preview, preview_rows
from tasks.dataset.tokenizer import Tokenizer
from tasks.score.answers import score_answers

sys.path.insert(0, str(Path(__file__).parents[1] / "dataset"))
from dataset_helpers import small_model_folder

CASES = sorted(path.stem for path in DATA.glob("*.json"))


def test_every_suite_has_a_case() -> None:
    """But the one whose rows are made, which has a test of its own."""
    assert set(CASES) == set(suite_names()) - {"needle_lengths"}


def said(preview: Preview) -> str:
    """A text prompt as it is, a chat's one message, or all of its messages with their roles."""
    messages = preview.composed.messages
    if messages is None:
        return preview.composed.prompt
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


@pytest.mark.parametrize("name", CASES)
def test_rows_become_what_the_convention_says(name: str, tmp_path: Path) -> None:
    case = case_of(name)
    [dataset] = used({"use": case["dataset"], "folder": str(write_copy(tmp_path, case["files"]))})
    previews = preview_rows(dataset)
    assert [said(each) for each in previews] == case["prompts"]
    assert [each.target for each in previews] == case["targets"]
    assert [each.options for each in previews] == case["choices"]
    assert dataset.sampling.stop == case["stop"]
    assert [each.grammar_error for each in previews] == [None] * len(previews)


@pytest.mark.parametrize("name", CASES)
def test_a_right_answer_is_right_and_a_wrong_one_is_wrong(name: str, tmp_path: Path) -> None:
    case = case_of(name)
    [dataset] = used({"use": case["dataset"], "folder": str(write_copy(tmp_path, case["files"]))})
    [preview] = preview_rows(dataset)
    values = {which: scores_of(dataset, preview, case[which]) for which in ("right", "wrong")}
    found = {metric: [values["right"][metric], values["wrong"][metric]] for metric in values["right"]}
    assert found == case["values"]


def scores_of(dataset: NamedDataset, preview: Preview, answer: str | list[float]) -> dict[str, float | None]:
    sample = Sample(
        dataset=dataset.name,
        sample_id=preview.row.sample_id,
        row_index=0,
        raw=preview.row.raw,
        input=preview.row.fields,
        prompt=preview.composed.prompt,
        prompt_hash="h",
        prompt_token_ids=[1],
        target=preview.target,
        choices=[Choice(text=text, token_ids=[1, 2], start=1) for text in preview.options],
        grammar=preview.grammar,
    )
    scores = score_answers(
        metrics=dataset.config.metrics,
        samples=[sample],
        responses=responses_of(sample, answer),
        arms=["free"],
        absent="not asked",
    )
    return {score.metric: score.value for score in scores}


def responses_of(sample: Sample, answer: str | list[float]) -> list[Response]:
    common: dict[str, Any] = {"dataset": sample.dataset, "sample_id": sample.sample_id, "arm": "free", "status": "ok"}
    if isinstance(answer, str):
        return [Response(request_id="r", kind="generate", output=answer, **common)]
    return [
        Response(request_id=f"r{index}", kind="loglikelihood", choice_index=index, logprob_sum=value, **common)
        for index, value in enumerate(answer)
    ]


def test_winogrande_scores_the_rest_of_the_sentence_behind_each_noun(tmp_path: Path) -> None:
    case = case_of("winogrande")
    [dataset] = used({"use": "winogrande", "folder": str(write_copy(tmp_path, case["files"]))})
    tokenizer = Tokenizer.from_folder(small_model_folder(tmp_path / "model"))
    prepared = prepare_samples(
        dataset=dataset,
        loaded=load_rows(dataset),
        tokenizer=tokenizer,
        chat=None,
        max_len=512,
        loglikelihood=True,
        generate=False,
    )
    [sample] = prepared.samples
    halves = [
        (tokenizer.decode(c.token_ids[: c.start]), tokenizer.decode(c.token_ids[c.start :])) for c in sample.choices
    ]
    before = "<s>The lamp did not fit into the box because the "
    assert halves == [(before + "lamp", " was too small."), (before + "box", " was too small.")]
    assert [choice.text for choice in sample.choices] == ["lamp", "box"]


def test_needles_are_the_same_everywhere_and_as_long_as_they_say() -> None:
    by_name = {dataset.name: dataset for dataset in used({"use": "needle_lengths"})}
    assert list(by_name) == ["needle_4k", "needle_8k", "needle_16k", "needle_32k"]
    limited = {"use": "needle_4k", "limit": 6}
    [dataset] = used(limited)
    first, again = preview_rows(dataset), preview_rows(dataset)
    assert [each.row.fields for each in first] == [each.row.fields for each in again]
    for each in first:
        fields = each.row.fields
        assert abs(len(fields["text"]) - 3700 * 5.25) < 200
        assert f"The access code for the {fields['place']} is {fields['code']}." in fields["text"]
        assert fields["text"].count("The access code for the ") == 4
        assert each.composed.messages is not None
        assert each.composed.messages[0]["content"].endswith(f"What is the access code for the {fields['place']}?")
    assert len({each.row.fields["depth"] for each in first}) == 5
    [preview] = first[:1]
    right = f"The access code for the {preview.row.fields['place']} is {preview.row.fields['code']}."
    assert scores_of(dataset, preview, right) == {"contains": 1.0}
    assert scores_of(dataset, preview, "I do not know.") == {"contains": 0.0}


def real(path: str) -> Path:
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"{path} is not here")
    return found


def test_gsm8k_as_published() -> None:
    folder = real("gsm8k")
    [dataset] = used({"use": "gsm8k", "folder": str(folder)})
    previews = preview_rows(dataset)
    assert len(previews) == 1319
    train = [json.loads(line) for line in (folder / "train.jsonl").read_text("utf-8").splitlines()[:5]]
    shots = "".join(f"Question: {row['question']}\nAnswer: {row['answer']}\n\n" for row in train)
    for preview in previews:
        assert preview.composed.prompt == f"{shots}Question: {preview.row.fields['question']}\nAnswer:"
    for preview in previews[:200]:
        own = scores_of(dataset, preview, " " + preview.row.fields["answer"] + "\n\nQuestion: What is 7? #### 7")
        assert own == {"gsm8k_strict": 1.0, "gsm8k_flexible": 1.0}


def test_humaneval_as_published(tmp_path: Path) -> None:
    path = real("humaneval/HumanEval.jsonl.gz")
    [dataset] = used({"use": "humaneval", "source": {"kind": "jsonl", "path": str(path)}})
    previews = preview_rows(dataset)
    assert len(previews) == 164
    for preview in previews[:3]:
        fields = preview.row.fields
        assert preview.composed.prompt == fields["prompt"]
        assert scores_of(dataset, preview, fields["canonical_solution"]) == {"code_pass": 1.0}
        assert scores_of(dataset, preview, "    return None\n") == {"code_pass": 0.0}


@pytest.mark.parametrize(
    "task", ["boolean_expressions", "date_understanding", "multistep_arithmetic_two", "logical_deduction_three_objects"]
)
def test_bbh_as_published(task: str, tmp_path: Path) -> None:
    (tmp_path / "bbh").symlink_to(real("bbh"))
    (tmp_path / "cot-prompts").symlink_to(real("bbh/cot_prompts"))
    own = (tmp_path / "cot-prompts" / f"{task}.txt").read_text("utf-8").split("-----\n", 1)[1]
    [dataset] = used({"use": f"bbh_{task}", "folder": str(tmp_path)})
    [direct] = used({"use": f"bbh_direct_{task}", "folder": str(tmp_path)})
    previews = preview_rows(dataset)
    assert len(previews) == 250
    for preview in previews:
        if f"Q: {preview.row.fields['input']}\n" not in own:
            asked = f"\n\nQ: {preview.row.fields['input']}\nA: Let's think step by step.\n"
            assert preview.composed.prompt == own.rstrip("\n") + asked
    shots = preview_rows(direct)[0].composed.prompt
    assert "step by step" not in shots
    assert shots.count("\nA: ") == 3


@pytest.mark.parametrize("task", ["date_understanding", "logical_deduction_three_objects"])
@pytest.mark.parametrize(("style", "suite"), [("direct", "bbh_direct"), ("cot", "bbh")])
def test_bbh_gives_the_published_accuracy(task: str, style: str, suite: str, tmp_path: Path) -> None:
    stem = f"bbh/published_outputs/code-davinci-002-{style}/{task}_few_shot_template_0-255000"
    outputs = json.loads(real(f"{stem}.json").read_text("utf-8"))["outputs"]
    published = json.loads(real(f"{stem}_eval_metrics.jsonl").read_text("utf-8").splitlines()[0])["accuracy"]
    [dataset] = used({"use": f"{suite}_{task}", "folder": str(tmp_path)})
    values = []
    for place, output in enumerate(outputs):
        sample = Sample(
            dataset="bbh", sample_id=str(place), row_index=place, raw=b"{}", input={}, prompt="", prompt_hash="h",
            prompt_token_ids=[1], target=output["target"], choices=[], grammar=None,
        )  # fmt: skip
        [score] = score_answers(
            metrics=dataset.config.metrics,
            samples=[sample],
            responses=responses_of(sample, output["prediction"]),
            arms=["free"],
            absent="not asked",
        )
        values.append(score.value)
    assert 100 * sum(value or 0.0 for value in values) / len(values) == pytest.approx(published)


def test_jsonschemabench_on_real_schemas(tmp_path: Path) -> None:
    lines = (real("jsonschemabench") / "schemas.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    easy = [row for row in rows if row["split"] == "Github_easy"]
    copied = [{"unique_id": row["name"], "json_schema": json.dumps(row["schema"])} for row in easy]
    write_copy(tmp_path, {"Github_easy/test.jsonl": copied})
    [dataset] = used({"use": "jsonschemabench_Github_easy", "folder": str(tmp_path)})
    previews = preview_rows(dataset)
    assert len(previews) == 60
    for preview, row in zip(previews, easy, strict=True):
        assert preview.grammar is None or json.loads(preview.grammar.content) == row["schema"]
    assert sum(preview.grammar is not None for preview in previews) > 50
