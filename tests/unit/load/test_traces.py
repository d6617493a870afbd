"""Traces of requests: what is read of them, and what is said of those that are none."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.config.resolve import load_experiment
from tasks.load.check import check_asked
from tasks.load.traces import Traced, TraceFormat, read_trace

MOONCAKE = """\
{"timestamp": 27482, "input_length": 1000, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 24482, "input_length": 600, "output_length": 5, "hash_ids": [46, 2353]}

{"timestamp": 30535, "input_length": 10, "output_length": 0, "hash_ids": []}
"""
BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,GPT-4,1087,230,1317,Conversation log
118,ChatGPT,417,0,417,Conversation log
"""
OWN = "at_s,prompt_tokens,output_tokens,session\n0.5,7,3,ann\n0.25,8,4,\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (
            "mooncake",
            MOONCAKE,
            [
                Traced(at_s=0.0, prompt_tokens=600, output_tokens=5, blocks=(46, 2353)),
                Traced(at_s=3.0, prompt_tokens=1000, output_tokens=52, blocks=(46, 47)),
            ],
        ),
        (
            "burstgpt",
            BURSTGPT,
            [
                Traced(at_s=0.0, prompt_tokens=472, output_tokens=18),
                Traced(at_s=40.5, prompt_tokens=1087, output_tokens=230),
            ],
        ),
        (
            "csv",
            OWN,
            [
                Traced(at_s=0.0, prompt_tokens=8, output_tokens=4),
                Traced(at_s=0.25, prompt_tokens=7, output_tokens=3, session="ann"),
            ],
        ),
    ],
)
def test_read_in_the_order_of_their_times(kind: TraceFormat, text: str, wanted: list[Traced], tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, text), kind) == wanted


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("mooncake", MOONCAKE + "{", "trace:5: broken JSON"),
        ("mooncake", "[]", "trace:1: a request of a trace is a JSON object"),
        ("mooncake", '{"timestamp": 1, "input_length": 9.5}', "trace:1: input_length: 9.5 is not a whole number"),
        ("mooncake", '{"timestamp": null, "input_length": 9, "output_length": 1}', "timestamp: None is not a number"),
        (
            "mooncake",
            '{"timestamp": 1, "input_length": 513, "output_length": 1, "hash_ids": [1, 2, 3]}',
            "3 blocks of 512 tokens are more than input_length 513",
        ),
        ("mooncake", '{"timestamp": 1, "input_length": 5, "hash_ids": ["a"]}', "hash_ids: a list of whole numbers"),
        ("burstgpt", OWN, "trace:1: the first line lacks the column `Timestamp`, `Request tokens`, `Response tokens`"),
        ("csv", "at_s,prompt_tokens,output_tokens\n1,2,3\n-1,2,3\n", "trace:3: at_s: '-1' is not a number, 0 or more"),
        ("csv", "at_s,prompt_tokens,output_tokens\ninf,2,3\n", "trace:2: at_s: 'inf' is not a number"),
        ("csv", "at_s,prompt_tokens,output_tokens\n1,2\n", "trace:2: output_tokens: None is not a whole number"),
        ("csv", "at_s,prompt_tokens,output_tokens\n1,2,0\n", "trace: the trace has no request"),
        ("csv", "", "trace:1: the first line lacks the column"),
    ],
)
def test_what_is_no_trace(kind: TraceFormat, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read_trace(written(tmp_path, text), kind)
    assert message in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        read_trace(tmp_path / "none.jsonl", "mooncake")


def test_a_trace_that_is_none_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("at_s,prompt_tokens,output_tokens\n0,10,5\n1,ten,5\n", "utf-8")
    file = tmp_path / "load.yaml"
    file.write_text(
        "name: load\nmodel: smollm2-135m-instruct\ndatasets: []\n"
        "benchmark: {load: {kind: trace, path: bad.csv, format: csv}}\n",
        "utf-8",
    )
    with pytest.raises(ConfigError, match=r"bad\.csv:3: prompt_tokens"):
        check_asked(load_experiment(file))
