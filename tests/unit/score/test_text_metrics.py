"""Metrics of texts, extracts, tool calls and likelihoods: what holds for any answer."""

import json
import re
import string
import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.metric import Score
from schemas.sample import Choice, Response, Sample
from tasks.score.metrics.token_f1 import f1
from tasks.score.normalize import squad, squad_words
from tasks.score.numbers import find_numbers, first_number, last_number
from tasks.score.registry import MetricError, check_options, metric
from tasks.score.text.rouge import of_lines, of_ngrams, of_subsequence, words
from tasks.score.text.tool_calls import as_calls, equal, find_calls, permitted

FEW = settings(deadline=None, max_examples=60)
WORDS = st.lists(st.sampled_from(["a1", "b1", "c1", "the", "heron"]), max_size=12)
TEXTS = st.text(max_size=60)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(-1e6, 1e6) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.fixed_dictionaries(
    {"name": st.text("fgh_", min_size=1, max_size=4), "arguments": st.dictionaries(st.text("xyz"), JSON_VALUES)}
)
TEXT_METRICS = {
    "token_f1": 1.0,
    "bleu": 100.0,
    "chrf": 100.0,
    "ter": 0.0,
    "rouge1": 1.0,
    "rougeL": 1.0,
    "rougeLsum": 1.0,
    "contains": 1.0,
    "exact_match": 1.0,
}
"""What the target itself earns."""


def score(name: str, *, target: Any, output: str | None, options: dict[str, Any] | None = None, **more: Any) -> Score:
    sample = Sample(
        dataset="d",
        sample_id="s",
        row_index=0,
        raw=b"{}",
        input={},
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[],
        target=target,
    )
    fields = {"request_id": "r", "dataset": "d", "sample_id": "s", "arm": "free", "kind": "generate", "status": "ok"}
    response = Response(**{**fields, "output": output, **more})
    found = metric(name)
    return found.score(sample=sample, response=response, options=found.Options(**(options or {})))


@pytest.mark.parametrize(("name", "best"), TEXT_METRICS.items())
@FEW
@given(text=st.lists(st.sampled_from(["red", "blue", "heron", "x1"]), min_size=1, max_size=9).map(" ".join))
def test_the_target_itself_is_the_best_answer(name: str, best: float, text: str) -> None:
    assert score(name, target=text, output=text).value == pytest.approx(best)
    assert score(name, target=["goose", text], output=text, options=_any(name)).value == pytest.approx(best)


def _any(name: str) -> dict[str, Any]:
    return {"require": "any"} if name == "contains" else {}


@pytest.mark.parametrize("name", [*TEXT_METRICS, "rouge2", "gsm8k_strict", "gsm8k_flexible", "tool_call"])
@FEW
@given(output=TEXTS)
def test_any_answer_gets_a_score_in_range(name: str, output: str) -> None:
    target = {"name": "f", "arguments": {}} if name == "tool_call" else "blue heron 7"
    found = score(name, target=target, output=output)
    assert found.value is not None
    assert 0 <= found.value <= (100 if name in ("bleu", "chrf") else 1 if name != "ter" else 10_000)


@pytest.mark.parametrize("name", [*TEXT_METRICS, "rouge2", "gsm8k_strict", "gsm8k_flexible", "tool_call"])
@pytest.mark.parametrize("status", ["refused", "error", "cancelled"])
def test_what_was_never_answered_is_not_wrong(name: str, status: str) -> None:
    found = score(name, target="a", output=None, status=status, error="why")
    assert (found.value, found.reason) == (None, f"{status}: why")


@FEW
@given(WORDS, WORDS)
def test_f1_is_symmetric_and_does_not_see_order(one: list[str], two: list[str]) -> None:
    value = f1(answer=one, target=two, both_empty=1)
    assert value == f1(answer=two, target=one, both_empty=1) == f1(answer=one[::-1], target=two, both_empty=1)
    assert 0 <= value <= 1
    assert (value == 1) == (sorted(one) == sorted(two))


@FEW
@given(WORDS, WORDS)
def test_f1_is_that_of_precision_and_recall(one: list[str], two: list[str]) -> None:
    left, common = list(two), 0
    for word in one:
        if word in left:
            left.remove(word)
            common += 1
    if common:
        precision, recall = common / len(one), common / len(two)
        assert f1(answer=one, target=two, both_empty=1) == pytest.approx(2 * precision * recall / (precision + recall))


@FEW
@given(st.lists(st.sampled_from(["The ", "a", "an-", "é", "_the ", "X. ", "\u2003", "the", "1", "\n"])).map("".join))
def test_squad_is_as_its_evaluation_script_has_it(text: str) -> None:
    lower = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    assert squad(text).split() == squad_words(text) == re.sub(r"\b(a|an|the)\b", " ", lower).split()


@FEW
@given(st.text("0123456789.,-+$€% eE()H\n", max_size=20))
def test_first_and_last_number_are_those_of_all(text: str) -> None:
    numbers = find_numbers(text)
    assert first_number(text) == (numbers[0] if numbers else None)
    assert last_number(text) == (numbers[-1] if numbers else None)


def _longest(one: list[str], two: list[str]) -> int:
    """The longest common subsequence, by its definition."""
    rows = [[0] * (len(two) + 1)]
    for word in one:
        above = rows[-1]
        row = [0]
        for place, other in enumerate(two):
            row.append(above[place] + 1 if word == other else max(above[place + 1], row[-1]))
        rows.append(row)
    return rows[-1][-1]


@FEW
@given(WORDS, WORDS)
def test_rouge_l_is_the_longest_common_subsequence(one: list[str], two: list[str]) -> None:
    answer, target = " ".join(one), " ".join(two)
    found = of_subsequence(answer=answer, target=target)
    assert (found.shared, found.answer, found.target) == (_longest(one, two), len(one), len(two))
    assert of_lines(answer=answer, target=target) == found
    assert found.shared <= of_ngrams(answer=answer, target=target, n=1).shared


def test_rouge_takes_long_texts() -> None:
    text = " ".join(f"w{number * 7919 % 4_001}" for number in range(4_000))
    began = time.process_time()
    assert of_subsequence(answer=text, target=text).shared == of_lines(answer=text, target=text).shared == 4_000
    assert time.process_time() - began < 5
    assert words("Well-known, 1,234 Übel") == ["well", "known", "1", "234", "bel"]


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        ({"pattern": "("}, "extract_match", "the pattern '(' is no regular expression: missing )"),
        ({"pattern": "a", "group": 2}, "extract_match", "has no group 2; it has 0"),
        ({"pattern": "(?P<n>a)", "group": "m"}, "extract_match", "has no group 'm'; it has 0, 1, n"),
        ({}, "pattern", "required"),
        ({"pattern": "a", "take": "middle"}, "take", "first"),
        ({"pattern": "a", "timeout_s": 0}, "timeout_s", "greater than 0"),
    ],
)
def test_a_bad_pattern_is_refused(options: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(MetricError) as caught:
        check_options("extract_match", options)
    assert caught.value.key == key
    assert message in caught.value.message


def test_a_pattern_without_end_costs_one_sample_and_little_time() -> None:
    options = {"pattern": r"(a|aa)+$", "timeout_s": 0.1}
    began = time.monotonic()
    slow = score("extract_match", target="aa", output="a" * 60 + "b", options=options)
    assert time.monotonic() - began < 5
    assert (slow.value, slow.reason) == (None, "the pattern did not come to an end in 0.1 s")
    assert score("extract_match", target="a", output="aa", options=options | {"group": 1}).value is not None


@FEW
@given(st.decimals(-(10**9), 10**9, places=2), st.sampled_from(["{:f}", "${:,f}", "{:,f}."]))
def test_an_extracted_number_is_compared_by_value(value: Decimal, form: str) -> None:
    options = {"pattern": "#### (.+)", "compare": "number"}
    assert (
        score("extract_match", target=str(value), output=f"so\n#### {form.format(value)}", options=options).value == 1
    )


@FEW
@given(st.integers(-(10**9), 10**9))
def test_both_readings_of_gsm8k_take_a_plain_answer(number: int) -> None:
    target = f"He has {number} eggs.\n#### {number:,}"
    for name in ("gsm8k_strict", "gsm8k_flexible"):
        assert score(name, target=target, output=f"So\n#### {number}").value == 1
        assert score(name, target=target, output=f"So\n#### {number + 1}").value == 0


@FEW
@given(st.lists(CALLS, min_size=1, max_size=3), st.sampled_from(["{}", "```json\n{}\n```", "I call {} now."]))
def test_a_call_is_found_wherever_it_stands(calls: list[dict[str, Any]], form: str) -> None:
    text = json.dumps(calls if len(calls) > 1 else calls[0])
    assert score("tool_call", target=calls, output=form.replace("{}", text)).value == 1
    tagged = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    if "tool_call>" not in text:
        assert score("tool_call", target=calls, output=tagged).value == 1
    found, _, reason = find_calls(text)
    assert (found, reason) == (as_calls(json.loads(text, parse_float=Decimal)), None)


@FEW
@given(st.lists(CALLS, min_size=2, max_size=4), st.randoms())
def test_the_order_of_calls_matters_only_where_it_should(calls: list[dict[str, Any]], random: Any) -> None:
    mixed = list(calls)
    random.shuffle(mixed)
    assert score("tool_call", target=calls, output=json.dumps(mixed), options={"any_order": True}).value == 1
    fewer = json.dumps(mixed[1:])
    assert score("tool_call", target=calls, output=fewer, options={"any_order": True}).value == 0


@FEW
@given(JSON_VALUES, JSON_VALUES)
def test_json_values_are_equal_to_themselves_and_permitted_by_a_list_with_them(one: Any, two: Any) -> None:
    assert equal(one, json.loads(json.dumps(one), parse_float=Decimal))
    assert equal(one, two) == equal(two, one)
    assert permitted(one, [two, one])


@pytest.mark.parametrize(("one", "two"), [(1, True), (0, False), ("1", 1), (None, 0), (None, ""), ([], {}), (1, [1])])
def test_values_of_two_kinds_are_never_equal(one: Any, two: Any) -> None:
    assert not equal(one, two)
    assert not equal(two, one)


def test_a_call_that_is_nested_without_end_is_wrong() -> None:
    for depth in (900, 20_000):
        text = '{"name": "f", "arguments": {"x": ' + "[" * depth + "]" * depth + "}}"
        found = score("tool_call", target={"name": "f", "arguments": {"x": 1}}, output=text)
        assert found.value == 0
        assert found.reason


@FEW
@given(st.lists(st.tuples(st.text(min_size=1, max_size=8), st.integers(-9, 0)), min_size=1, max_size=5), st.data())
def test_the_credit_of_ties_adds_up(choices: list[tuple[str, int]], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["acc", "acc_norm", "acc_bytes"]))
    texts = [f"{index} {text}" for index, (text, _) in enumerate(choices)]
    credit = {
        tie: _credit(name, texts, [float(value) for _, value in choices], tie) for tie in ("split", "first", "wrong")
    }
    assert sum(credit["split"]) == pytest.approx(1)
    assert sum(credit["first"]) == 1
    assert sum(credit["wrong"]) == (1 if max(credit["split"]) == 1 else 0)


def _credit(name: str, texts: list[str], values: list[float], tie: str) -> list[float]:
    """What each choice earns if it is the right one."""
    found = metric(name)
    responses = [
        Response(
            request_id=f"r{index}",
            dataset="d",
            sample_id="s",
            arm="free",
            kind="loglikelihood",
            status="ok",
            choice_index=index,
            logprob_sum=value,
        )
        for index, value in enumerate(values)
    ]
    earned = []
    for right in range(len(texts)):
        sample = Sample(
            dataset="d",
            sample_id="s",
            row_index=0,
            raw=b"{}",
            input={},
            prompt="p",
            prompt_hash="h",
            prompt_token_ids=[],
            target=right,
            choices=[Choice(text=text, token_ids=[1], start=0) for text in texts],
        )
        options = found.Options(target="index", tie=tie)
        earned.append(found.score_choices(sample=sample, responses=responses, options=options).value)
    return earned


def test_ter_of_long_texts_ends() -> None:
    """Many hundred words in another order would take minutes; they are not scored, and the reason is kept."""
    words = [f"w{n % 300}" for n in range(3000)]
    before = time.process_time()
    found = score("ter", target=" ".join(words), output=" ".join(reversed(words)))
    assert (found.value, found.reason) == (None, "3,000 words, more than max_words: 400")
    marks = score("ter", target="a b", output="?!" * 5000, options={"normalized": True})
    assert (marks.value, marks.reason) == (None, "10,000 words, more than max_words: 400")
    assert time.process_time() - before < 2
    assert score("ter", target=" ".join(words[:400]), output=" ".join(words[:399])).value == 0.25
