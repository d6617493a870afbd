"""Arms of a name of their own: which of a run's arms are compared with which, and how their numbers come about."""

import pytest

from schemas.arm import Arm, NamedArm, arm_words, compared_arms, stored_arms
from schemas.dataset import MetricUse
from schemas.metric import Score
from schemas.sample import Choice, Response, Sample
from tasks.score.answers import score_answers
from tasks.score.paired_arms import compare_arms

LEGAL, FORMED = NamedArm(name="legal", adapter="a"), NamedArm(name="legal-form", like="guided", adapter="a")
OTHER = NamedArm(name="other", adapter="b")


@pytest.mark.parametrize(
    ("arms", "pairs"),
    [
        (["free"], []),
        (["guided"], []),
        (["free", "guided"], [("guided", "free")]),
        (["guided", "free"], [("guided", "free")]),
        (["free", LEGAL], [("legal", "free")]),
        ([LEGAL, "free"], [("legal", "free")]),
        ([LEGAL], []),
        ([LEGAL, OTHER], [("other", "legal")]),
        (["guided", LEGAL], []),  # neither the grammar nor the adapter is all that differs
        (["free", "guided", "free_matched"], [("guided", "free")]),  # the control is not scored
        (["free", "guided", "repair"], [("guided", "free"), ("repair", "free"), ("repair", "guided")]),
        (["free", "repair"], [("repair", "free")]),
        (["guided", FORMED], [("legal-form", "guided")]),
        (
            ["free", "guided", LEGAL, FORMED],
            [("guided", "free"), ("legal-form", "legal"), ("legal", "free"), ("legal-form", "guided")],
        ),
    ],
)
def test_the_pairs_that_differ_in_one_thing_are_compared(arms: list[Arm], pairs: list[tuple[str, str]]) -> None:
    assert compared_arms(arms) == pairs


def test_a_stored_config_gives_its_arms_back() -> None:
    stored = ["free", LEGAL.model_dump(mode="json"), "theirs"]
    assert stored_arms(stored) == ["free", LEGAL, "theirs"]
    assert [arm_words(arm) for arm in stored_arms(stored)] == ["free", "legal (like free, adapter a)", "theirs"]


def one(value: float, *, sample: str, arm: str) -> Score:
    return Score(
        dataset="d", sample_id=sample, arm=arm, repeat=0, metric="exact_match", metric_version=1,
        value=value, reason=None,
    )  # fmt: skip


def test_every_pair_is_compared_and_the_p_values_are_adjusted_over_all_of_them() -> None:
    samples = [f"s{number}" for number in range(12)]
    scores = [one(0.0, sample=sample, arm="free") for sample in samples]
    scores += [one(1.0, sample=sample, arm="legal") for sample in samples]
    scores += [one(float(at % 2), sample=sample, arm="other") for at, sample in enumerate(samples)]
    arms = compared_arms(["free", LEGAL, OTHER])
    found = {(row.candidate_arm, row.baseline_arm): row for row in compare_arms(scores=scores, arms=arms, margin=0.02)}
    assert list(found) == [("legal", "free"), ("other", "free")]
    assert (found["legal", "free"].effect, found["other", "free"].effect) == (1.0, 0.5)
    p = found["legal", "free"].p_value
    assert p is not None and found["legal", "free"].p_adjusted == pytest.approx(2 * p)


def test_each_arm_has_log_likelihoods_of_its_own() -> None:
    sample = Sample(
        dataset="d", sample_id="s", row_index=0, raw=b"{}", input={}, prompt="p", prompt_hash="h",
        prompt_token_ids=[1], max_tokens=1, target=1,
        choices=[Choice(text="no", token_ids=[1, 2], start=1), Choice(text="yes", token_ids=[1, 3], start=1)],
    )  # fmt: skip

    def answer(arm: str, index: int, logprob: float) -> Response:
        blank = dict.fromkeys(Response.__slots__)
        return Response(
            **blank
            | {"request_id": f"{arm}{index}", "dataset": "d", "sample_id": "s", "arm": arm, "kind": "loglikelihood"}
            | {"repeat": 0, "status": "ok", "choice_index": index, "logprob_sum": logprob}
        )

    answers = [answer("free", 0, -1.0), answer("free", 1, -2.0), answer("legal", 0, -2.0), answer("legal", 1, -1.0)]
    uses = [MetricUse(use="acc")]
    told = {"metrics": uses, "samples": [sample], "arms": ["free", "legal"], "absent": "stopped"}
    scores = score_answers(responses=answers, likelihood_arms=["free", "legal"], **told)
    assert [(score.arm, score.value) for score in scores] == [("free", 0.0), ("legal", 1.0)]
    scores = score_answers(responses=answers[:3], likelihood_arms=["free", "legal"], **told)
    assert [(score.arm, score.value, score.reason) for score in scores] == [
        ("free", 0.0, None), ("legal", None, "stopped")
    ]  # fmt: skip
