"""The file of a tuning: what it takes, and what is said of a fault before anything runs."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from schemas.tune import Range
from tasks.tune.file import load_tuning

HEAD = "base: quickstart\ntune:\n  trials: 4\n  space:\n"


def load(tmp_path: Path, text: str) -> object:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_tuning(path)


def refused(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()]


def test_the_shipped_tunings_are_in_order() -> None:
    asked = load_tuning("quickstart-engine", trials=7, time_limit_s=60.0)
    assert (asked.name, asked.base) == ("quickstart-engine", "configs/experiments/quickstart.yaml")
    assert asked.file.tune.trials == 7 and asked.file.tune.time_limit_s == 60
    assert isinstance(asked.file.tune.space["engine.prefill.threshold"], Range)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (
            "    engine.max_num_seqz: [1, 2]\n",
            ["mine.yaml:5: tune.space.engine.max_num_seqz[0]: is not a known key (did you mean `max_num_seqs`?)"],
        ),
        (
            "    engine.max_num_seqs: [1, none, 0]\n",
            [
                "mine.yaml:5: tune.space.engine.max_num_seqs[1]: must be a whole number (at least 1) or `auto`, "
                "not the text `none`",
                "mine.yaml:5: tune.space.engine.max_num_seqs[2]: must be at least 1, not `0`",
            ],
        ),
        (
            "    engine.memory.gpu_share: {low: 0.5, high: 1.5}\n",
            ["mine.yaml:5: tune.space.engine.memory.gpu_share.high: must be at most 1, not `1.5`"],
        ),
        (
            "    max_num_seqs: [1, 2]\n",
            [
                "mine.yaml:5: tune.space.max_num_seqs: is no key of the engine, and a tuning changes nothing else: "
                "other work has other times (did you mean `engine.max_num_seqs`?)"
            ],
        ),
        (
            "    sampling.max_tokens: [1, 2]\n",
            [
                "mine.yaml:5: tune.space.sampling.max_tokens: is no key of the engine, and a tuning changes nothing "
                "else: other work has other times (such as `engine.max_num_seqs`)"
            ],
        ),
        (
            "    engine.choose: [plan, vllm]\n",
            ["mine.yaml:5: tune.space.engine.choose: is not tuned (set it in the experiment)"],
        ),
        (
            "    engine.python: [/usr/bin/python3]\n",
            ["mine.yaml:5: tune.space.engine.python: is not tuned (set it in the experiment)"],
        ),
        (
            "    engine.cudagraph: [none]\n    engine.cudagraph.mode: [none]\n",
            [
                "mine.yaml:6: tune.space.engine.cudagraph.mode: is a part of `engine.cudagraph`, which is in the space "
                "too"
            ],
        ),
        (
            "    engine.speculative.tokens: [2, 4]\n",
            [
                "mine.yaml:5: tune.space.engine.speculative.tokens[0]: `tokens` needs a `method`",
                "mine.yaml:5: tune.space.engine.speculative.tokens[1]: `tokens` needs a `method`",
            ],
        ),
        (
            "    engine.max_num_seqs: {low: 8, high: 4}\n",
            ["mine.yaml:5: tune.space.engine.max_num_seqs: `low` must be less than `high`, not 8 and 4"],
        ),
        (
            "    engine.max_num_seqs: {low: 0, high: 4, log: true}\n",
            ["mine.yaml:5: tune.space.engine.max_num_seqs: a range with `log: true` begins above 0"],
        ),
        (
            "    engine.max_num_seqs: []\n",
            ["mine.yaml:5: tune.space.engine.max_num_seqs: must have at least one entry"],
        ),
        ("    engine.max_num_seqs: [4, 8, 4]\n", ["mine.yaml:4: tune.space: `engine.max_num_seqs` has 4 twice"]),
    ],
)
def test_a_fault_of_the_space_is_told_at_its_line(tmp_path: Path, space: str, expected: list[str]) -> None:
    assert refused(tmp_path, HEAD + space) == expected


@pytest.mark.parametrize(
    "space",
    [
        "    engine.prefill.threshold: {low: 128, high: 2048, log: true}\n",
        "    engine.prefill.policy: ['off', auto, fixed]\n    engine.prefill.threshold: [128, 256]\n",
        "    engine.speculative.method: [ngram]\n    engine.speculative.tokens: [2, 4]\n",
        "    engine.cudagraph: [none]\n",
        "    engine.speculative: [{method: none}, {method: ngram, tokens: 4}]\n",
        "    engine.prefix_caching: [true, false]\n    engine.max_num_seqs: [auto, 8]\n",
    ],
)
def test_values_that_need_another_key_of_the_space_are_taken(tmp_path: Path, space: str) -> None:
    load(tmp_path, HEAD + space)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "base: quickstart\ntune: {trails: 4, space: {engine.max_num_seqs: [1]}}\n",
            ["mine.yaml:2: tune.trails: is not a known key (did you mean `trials`?)"],
        ),
        (
            "base: quickstart\ntune: {objective: goodput, space: {engine.max_num_seqs: [1]}}\n",
            [
                "mine.yaml:2: tune: `goodput` counts the requests that meet an `slo`: say which, as in "
                "`slo: {ttft_ms: 500}`"
            ],
        ),
        (
            "base: quickstart\ntune: {objective: speed, space: {engine.max_num_seqs: [1]}}\n",
            [
                "mine.yaml:2: tune.objective: must be `throughput`, `latency` or `goodput` or a block of keys, "
                "not the text `speed`"
            ],
        ),
        (
            "base: quickstart\ntune: {slo: {}, space: {engine.max_num_seqs: [1]}}\n",
            ["mine.yaml:2: tune.slo: asks for nothing: give at least one of `ttft_ms`, `tpot_ms` and `e2e_ms`"],
        ),
    ],
)
def test_a_fault_of_the_rest_is_told_at_its_line(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert refused(tmp_path, text) == expected


def test_an_experiment_is_sent_to_its_own_command(tmp_path: Path) -> None:
    [line] = refused(tmp_path, "name: x\nmodel: smollm2-135m-instruct\ndatasets: [choice]\n")
    assert line.startswith("mine.yaml: is an experiment: it has no `tune` (`assay run ")
    [line] = refused(tmp_path, "base: quickstart\nmatrix: {engine.max_num_seqs: [1]}\n")
    assert "is a sweep: it has no `tune` (`assay sweep " in line


def test_the_base_is_found_and_faults_of_it_are_told(tmp_path: Path) -> None:
    text = "base: quickstrat\ntune: {space: {engine.max_num_seqs: [1, 2]}}\n"
    [line] = refused(tmp_path, text)
    assert line.startswith("mine.yaml:1: base: there is no experiment `quickstrat`") and "quickstart" in line
    (tmp_path / "own.yaml").write_text("name: own\nmodel: smollm2-135m-instruct\ndatasets: [chioce]\n")
    [line] = refused(tmp_path, text.replace("quickstrat", "own.yaml"))
    assert line.startswith("own.yaml:3: datasets[0]")
    [line] = refused(tmp_path, text.replace("quickstrat", "mine.yaml"))
    assert line.startswith("mine.yaml:1: base: `mine.yaml` is no experiment")
