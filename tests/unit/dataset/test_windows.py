"""Documents: every token predicted once, in windows that fit, and nothing lost or cut without a word."""

from pathlib import Path
from typing import Any

import pytest
from dataset_helpers import jsonl, named, small_model_folder
from hypothesis import given
from hypothesis import strategies as st

from schemas.dataset import Dataset
from schemas.errors import ConfigError
from schemas.sample import Sample, Window
from tasks.dataset.load import load_rows
from tasks.dataset.prepare import Prepared, prepare_samples
from tasks.dataset.profiled import profile_dataset
from tasks.dataset.tokenizer import Tokenizer
from tasks.dataset.windows import rolling_windows
from tasks.requests import plan_requests, planned_load

BOS, EOS = 0, 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model_folder(tmp_path_factory.mktemp("model"))


def dataset(tmp_path: Path, texts: list[str], **config: Any) -> Any:
    rows = jsonl(tmp_path / "rows.jsonl", [{"text": text} for text in texts])
    whole = {"prompt": None, "document": "{{ text }}", "metrics": ["bits_per_byte"], **config}
    return named(rows, **whole)


def prepared(tmp_path: Path, folder: Path, texts: list[str], *, max_len: int = 12, **config: Any) -> Prepared:
    toy = dataset(tmp_path, texts, **config)
    return prepare_samples(
        dataset=toy,
        loaded=load_rows(toy),
        tokenizer=Tokenizer.from_folder(folder),
        chat=None,
        max_len=max_len,
        generate=False,
    )


# windows


@given(
    tokens=st.integers(0, 300),
    shape=st.integers(1, 40).flatmap(lambda window: st.tuples(st.just(window), st.integers(1, window))),
)
def test_each_token_is_predicted_once_with_all_the_context_that_fits(tokens: int, shape: tuple[int, int]) -> None:
    window, context = shape
    windows = rolling_windows(tokens, window=window, context=context)
    assert [place for each in windows for place in range(each.start, each.end)] == list(range(1, tokens + 1))
    for number, each in enumerate(windows):
        read = each.end - 1 - each.begin
        assert 1 <= read <= window
        assert each.begin < each.start < each.end
        if number:
            assert read == window
            assert each.start - each.begin >= context
        else:
            assert (each.begin, each.start) == (0, 1)


@pytest.mark.parametrize(
    ("tokens", "window", "context", "expected"),
    [
        # by hand, as lm-evaluation-harness rolls ten tokens: (what is read before the last token, what is predicted)
        (10, 4, 1, [(0, 1, 5), (4, 5, 9), (6, 9, 11)]),
        (10, 4, 4, [(0, 1, 5), *((begin, begin + 4, begin + 5) for begin in range(1, 7))]),
        (10, 5, 2, [(0, 1, 6), (4, 6, 10), (5, 10, 11)]),
        (10, 10, 1, [(0, 1, 11)]),
        (10, 99, 1, [(0, 1, 11)]),
        (0, 4, 1, []),
    ],
)
def test_windows_by_hand(tokens: int, window: int, context: int, expected: list[tuple[int, int, int]]) -> None:
    windows = rolling_windows(tokens, window=window, context=context)
    assert windows == [Window(begin=begin, start=start, end=end) for begin, start, end in expected]


@pytest.mark.parametrize("context", [0, 5])
def test_a_context_must_fit(context: int) -> None:
    with pytest.raises(ValueError, match="context"):
        rolling_windows(9, window=4, context=context)


# samples and requests


def predicted(sample: Sample, requests: list[Any]) -> list[int]:
    return [token for each in requests for token in each.prompt_token_ids[each.continuation_start :]]


@pytest.mark.parametrize("adds_bos", [True, False])
def test_documents_become_requests_that_predict_them_whole(tmp_path: Path, adds_bos: bool) -> None:
    folder = small_model_folder(tmp_path / "model", adds_bos=adds_bos)
    texts = ["short", "ten tokens", "a text of more than one window, é too"]
    result = prepared(tmp_path, folder, texts, max_len=12)
    assert (result.bos_policy, result.warnings) == ("document: BOS in front", [])
    tokenizer = Tokenizer.from_folder(folder)
    for sample, text in zip(result.samples, texts, strict=True):
        requests = plan_requests(dataset=dataset(tmp_path, texts), samples=[sample], arms=["free"], needs=["rolling"])
        own = tokenizer.encode(text, add_special_tokens=False)
        assert sample.prompt_token_ids == [BOS, *own]
        assert predicted(sample, requests) == own
        assert [each.choice_index for each in requests] == list(range(len(sample.windows)))
        assert len({each.request_id for each in requests}) == len(requests)
        assert {(each.kind, each.arm, each.max_tokens) for each in requests} == {("loglikelihood", "free", 1)}
        load = planned_load(requests)
        # a token stays free for what the engine generates in any case: a prompt as long as the model is refused
        assert max(map(sum, zip(load.prompt_tokens, load.output_tokens, strict=True))) <= 12
        assert (sample.counted, sample.window) == (text, 10)
    assert [len(sample.windows) for sample in result.samples] == [1, 1, 4]


def test_a_window_of_ones_own_is_the_same_whatever_the_engine_takes(tmp_path: Path, folder: Path) -> None:
    asked = {"document": {"text": "{{ text }}", "window": 6, "context": 3}}
    small, large = (prepared(tmp_path, folder, ["x" * 30], max_len=length, **asked) for length in (8, 4096))
    assert small.samples == large.samples
    assert small.samples[0].window == 6


def test_what_is_counted_may_be_another_text_than_what_is_read(tmp_path: Path, folder: Path) -> None:
    asked = {"document": {"text": "{{ text | replace(' @-@ ', '-') }}", "counted": "{{ text }}"}}
    [sample] = prepared(tmp_path, folder, ["well @-@ known"], **asked).samples
    assert (sample.prompt, sample.counted) == ("well-known", "well @-@ known")


def test_a_model_without_bos_begins_documents_with_eos(tmp_path: Path) -> None:
    folder = small_model_folder(tmp_path / "model", adds_bos=False, bos_token=None)
    result = prepared(tmp_path, folder, ["ab"])
    assert result.samples[0].prompt_token_ids[0] == EOS
    assert result.bos_policy == "document: EOS, for want of BOS, in front"
    with pytest.raises(ConfigError, match="no BOS token"):
        prepared(tmp_path, folder, ["ab"], bos="always")


@pytest.mark.parametrize(
    ("texts", "config", "message"),
    [
        (["fine", ""], {}, "row 1: the document is empty"),
        (["<s>twice"], {}, "row 0: the document begins with the token '<s>'"),
        (["x"], {"document": {"text": "{{ text }}", "window": 11}}, r"(?s)toy.yaml.*document.window.*a window of 11 "
         "tokens needs 13.*there are 12.*write 10 or less"),
        (["x"], {"document": {"text": "{{ text }}", "context": 11}}, "document.context.*a context of 11 tokens"),
        (["x"], {"document": "{{ txt }}"}, "document.text.*'txt'.*did you mean 'text'"),
        (["x"], {"document": {"text": "x", "counted": "{{ txt }}"}}, "document.counted.*'txt'"),
    ],
)  # fmt: skip
def test_faults_of_documents(
    tmp_path: Path, folder: Path, texts: list[str], config: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        prepared(tmp_path, folder, texts, **config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": {"text": "q"}}, "either a `prompt`.*or a `document`"),
        ({"document": None}, "either a `prompt`.*or a `document`"),
        ({"target": "t"}, "leave `target` out"),
        ({"choices": ["a", "b"]}, "leave `choices` out"),
        ({"few_shot": {"n": 1}}, "leave `few_shot` out"),
        ({"on_overflow": "skip"}, "leave `on_overflow` out"),
        ({"bos": "never"}, "leave `bos` out"),
        ({"document": {"text": "t", "window": 4, "context": 5}}, "a `context` of 5 tokens does not fit"),
    ],
)
def test_keys_that_do_not_go_with_a_document(changes: dict[str, Any], message: str) -> None:
    whole = {"source": {"kind": "jsonl", "path": "x"}, "document": "{{ text }}", "metrics": ["bits_per_byte"]}
    with pytest.raises(ValueError, match=message):
        Dataset.model_validate(whole | changes)


def test_the_profile_counts_no_document_as_too_long(tmp_path: Path, folder: Path) -> None:
    profiled = profile_dataset(
        dataset(tmp_path, ["x" * 50, "y"]),
        tokenizer=Tokenizer.from_folder(folder),
        chat=None,
        max_len=12,
        needs=["rolling"],
        arms=["free"],
    )
    assert (profiled.profile.n, profiled.profile.tokens_max, profiled.profile.over_limit) == (2, 51, 0)
    assert max(profiled.load.prompt_tokens) == 11
    assert set(profiled.load.output_tokens) == {1}
