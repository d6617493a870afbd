from pathlib import Path
from typing import Any

import pytest
from dataset_helpers import jsonl, named, small_model_folder
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.continuation import ChoiceJob, encode_choices
from tasks.dataset.load import load_rows
from tasks.dataset.overflow import cut_middle
from tasks.dataset.prepare import Prepared, prepare_samples
from tasks.dataset.tokenizer import Tokenizer

CHAT = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model_folder(tmp_path_factory.mktemp("model"), chat_template=CHAT)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(folder)


class Bench:
    """Prepares rows with the small tokenizer: a token a byte, and BOS before plain text."""

    def __init__(self, folder: Path, tmp_path: Path) -> None:
        self.folder, self.tmp_path = folder, tmp_path

    def __call__(
        self, rows: list[dict[str, Any]], *, max_len: int = 200, ll: bool = False, generate: bool = True, **config: Any
    ) -> Prepared:
        dataset = named(jsonl(self.tmp_path / "rows.jsonl", rows), **config)
        return prepare_samples(
            dataset=dataset,
            loaded=load_rows(dataset),
            tokenizer=Tokenizer.from_folder(self.folder),
            chat=ChatTemplate.from_folder(self.folder, choice="model"),
            max_len=max_len,
            loglikelihood=ll,
            generate=generate,
        )


@pytest.fixture
def prepare(folder: Path, tmp_path: Path) -> Bench:
    return Bench(folder, tmp_path)


def user(text: str = "{{ q }}", system: str | None = None) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"messages": [{"role": "system", "content": system}, *messages] if system else messages}


# special tokens


def test_text_gets_bos_from_the_tokenizer_and_chat_from_the_template(prepare: Bench) -> None:
    text = prepare([{"q": "hi"}])
    assert text.samples[0].prompt == "hi"
    assert (text.samples[0].prompt_token_ids[0], len(text.samples[0].prompt_token_ids)) == (0, 3)
    assert text.bos_policy == "text: the tokenizer's post-processor adds BOS"
    chat = prepare([{"q": "hi"}], prompt=user())
    assert chat.samples[0].prompt == "<s>[user]hi[assistant]"
    assert chat.samples[0].prompt_token_ids.count(0) == 1
    assert chat.bos_policy == "chat template: no special tokens added"
    assert chat.warnings == []


def test_a_double_bos_is_refused(prepare: Bench, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="row 1: the prompt begins with the BOS token '<s>' twice"):
        prepare([{"q": "fine"}, {"q": "<s>hi"}])
    twice = Bench(small_model_folder(tmp_path / "m", chat_template="<s>" + CHAT), tmp_path)
    with pytest.raises(ConfigError, match="twice"):
        twice([{"q": "hi"}], prompt=user())


def test_a_missing_bos_is_warned_of(tmp_path: Path) -> None:
    chat = Bench(small_model_folder(tmp_path / "a", chat_template="{{ messages[0].content }}"), tmp_path)
    assert "the chat template does not" in chat([{"q": "hi"}], prompt=user()).warnings[0]
    text = Bench(small_model_folder(tmp_path / "b", adds_bos=False, add_bos_token=True), tmp_path)
    prepared = text([{"q": "hi"}])
    assert "asks for BOS" in prepared.warnings[0]
    assert prepared.bos_policy.endswith("no BOS")


def test_an_empty_prompt_is_bos_else_eos(tmp_path: Path) -> None:
    bos = Bench(small_model_folder(tmp_path / "a", adds_bos=False), tmp_path)
    assert bos([{"q": ""}]).samples[0].prompt_token_ids == [0]
    eos = Bench(small_model_folder(tmp_path / "b", adds_bos=False, bos_token=None), tmp_path)
    prepared = eos([{"q": ""}])
    assert prepared.samples[0].prompt_token_ids == [1]
    assert "1 prompts empty" in prepared.warnings[0]


# rendering


def test_a_sample_carries_what_was_asked(prepare: Bench) -> None:
    rows = [{"q": "a\ud800", "a": 29, "src": 3, "c": ["x", 2]}]
    sample = prepare(
        rows, prompt=user(system="S"), target="{{ a }}", cluster="src", choices="{{ c }}", guide={"kind": "choice"}
    ).samples[0]
    assert sample.messages == [{"role": "system", "content": "S"}, {"role": "user", "content": "a\ufffd"}]
    assert sample.replaced_characters == 1
    assert sample.input == rows[0]
    assert b"\\ud800" in sample.raw
    assert (sample.target, sample.cluster, sample.max_tokens, sample.choices) == (29, "3", 4, [])
    assert sample.grammar is not None
    assert sample.grammar.content == '["x","2"]'
    other = prepare([{"q": "a\ud800", "a": 29, "src": 3, "c": ["x", 2]}], prompt=user("{{ q }}?"))
    assert other.samples[0].sample_id == sample.sample_id
    assert other.samples[0].prompt_hash != sample.prompt_hash


def test_examples_with_the_system_message_once(prepare: Bench) -> None:
    rows = [{"q": letter, "a": letter.upper()} for letter in "xyz"]
    shot = {"n": 2}
    chat = prepare(rows, prompt=user(system="S"), target="{{ a }}", few_shot=shot)
    assert chat.samples[1].prompt == "<s>[system]S[user]x[assistant]X[user]z[assistant]Z[user]y[assistant]"
    text = prepare(rows, prompt={"text": "Q {{ q }}\nA:"}, target="{{ a }}", few_shot=shot)
    assert text.samples[2].prompt == "Q x\nA: X\n\nQ y\nA: Y\n\nQ z\nA:"
    assert chat.template_hash != text.template_hash
    assert (
        text.template_hash
        == prepare(rows[:3], prompt={"text": "Q {{ q }}\nA:"}, target="{{ a }}", few_shot=shot).template_hash
    )


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"prompt": {"messages": [{"role": "system", "content": "S"}]}}, "must end with one of the user"),
        ({"few_shot": {"n": 1}}, "need the dataset's `target`"),
        ({"choices": "{{ q }}"}, "not a list"),
        ({"choices": ["a", "{{ e }}"]}, "a choice is empty"),
        ({"target": "{{ o.x }}"}, "row 0: undefined"),
        ({"prompt": {"text": "{{ nope }}"}}, "'nope', which is no column"),
    ],
)
def test_what_cannot_be_rendered_is_refused(prepare: Bench, config: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        prepare([{"q": "a", "e": "", "o": {}}, {"q": "b", "e": "", "o": {}}], **config)


def test_examples_of_another_source_need_the_same_columns(prepare: Bench, tmp_path: Path) -> None:
    train = jsonl(tmp_path / "train.jsonl", [{"q": "t", "answer": "T"}])
    few = {"n": 1, "source": {"kind": "jsonl", "path": str(train)}}
    with pytest.raises(ConfigError, match=r"toy's few_shot\.source"):
        prepare([{"q": "x", "a": "X"}], target="{{ a }}", few_shot=few)
    jsonl(train, [{"q": "t", "a": "T"}])
    prepared = prepare([{"q": "x", "a": "X", "src": 1}], target="{{ a }}", few_shot=few, cluster="src")
    assert prepared.samples[0].prompt == "t T\n\nx"


def test_messages_without_a_chat_template_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no chat template"):
        Bench(small_model_folder(tmp_path / "m"), tmp_path)([{"q": "hi"}], prompt=user())


# what does not fit


def test_an_output_budget_without_room_for_a_prompt_is_refused(prepare: Bench) -> None:
    with pytest.raises(ConfigError, match="nothing is left for the prompt"):
        prepare([{"q": "a"}], max_len=50, max_tokens=50)
    assert prepare([{"q": "a"}], max_len=50, max_tokens=48).samples[0].prompt_token_ids[0] == 0


def test_every_prompt_is_checked_to_the_token(prepare: Bench) -> None:
    fits = [{"id": n, "q": "x" * 15} for n in range(40)]  # 15 + BOS + 4 = 20
    assert len(prepare(fits, max_len=20, id_field="id").samples) == 40
    rows = [{"id": n, "q": "x" * (15 + (n >= 15))} for n in range(40)]
    with pytest.raises(ConfigError) as caught:
        prepare(rows, max_len=20, id_field="id")
    message = str(caught.value)
    assert "25 prompts" in message
    assert "toy:15: 21 tokens" in message
    assert "toy:34:" in message
    assert "toy:35:" not in message
    assert "and 5 more" in message


def test_examples_are_dropped_whole_and_the_question_never(prepare: Bench) -> None:
    rows = [{"q": letter * 10, "a": letter} for letter in "vwxyz"]
    config = {"target": "{{ a }}", "few_shot": {"n": 3}, "on_overflow": "drop_shots"}
    prepared = prepare(rows, max_len=1 + 2 * 14 + 10 + 4, **config)
    assert {sample.shots_dropped for sample in prepared.samples} == {1}
    assert prepared.samples[4].prompt == f"{'v' * 10} v\n\n{'w' * 10} w\n\n{'z' * 10}"
    assert "5 examples dropped from 5 prompts" in prepared.warnings[0]
    assert {sample.shots_dropped for sample in prepare(rows, max_len=15, **config).samples} == {3}
    with pytest.raises(ConfigError, match="even without examples"):
        prepare(rows, max_len=14, **config)


def test_the_middle_is_cut_and_counted(prepare: Bench, tokenizer: Tokenizer) -> None:
    rows = [{"q": "short"}, {"q": "HEAD" + "m" * 100 + "TAIL"}]
    prepared = prepare(rows, max_len=13, on_overflow="cut_middle")
    assert [sample.cut_tokens for sample in prepared.samples] == [0, 100]
    assert tokenizer.decode(prepared.samples[1].prompt_token_ids) == "<s>HEADTAIL"
    assert prepared.warnings == ["toy: 100 tokens cut from the middle of 1 prompts"]


@given(st.lists(st.integers(), min_size=1), st.integers(min_value=1, max_value=60))
def test_a_cut_keeps_head_and_tail(token_ids: list[int], keep: int) -> None:
    kept, cut = cut_middle(token_ids, keep=keep)
    assert len(kept) + cut == len(token_ids)
    assert len(kept) == min(keep, len(token_ids))
    half = keep // 2
    assert kept[:half] == token_ids[:half]
    assert kept[len(kept) - half :] == token_ids[len(token_ids) - half :] or cut == 0


def test_skipped_rows_are_recorded(prepare: Bench) -> None:
    prepared = prepare(
        [{"id": "a", "q": "x"}, {"id": "b", "q": "x" * 50}], max_len=20, on_overflow="skip", id_field="id"
    )
    assert [sample.sample_id for sample in prepared.samples] == ["toy:a"]
    assert [(row.sample_id, row.row_index, row.tokens) for row in prepared.skipped] == [("toy:b", 1, 55)]


# choices


def test_choices_are_the_continuation_of_their_prompt(prepare: Bench, tokenizer: Tokenizer) -> None:
    rows = [{"q": "Is it?", "c": ["yes", "no"]}]
    sample = prepare(rows, ll=True, choices="{{ c }}").samples[0]
    first = sample.choices[0]
    assert (first.text, first.encoded_apart) == ("yes", False)
    assert tokenizer.decode(first.token_ids) == "<s>Is it? yes"
    assert tokenizer.decode(first.token_ids[first.start :]) == " yes"
    chat = prepare(rows, ll=True, choices="{{ c }}", prompt=user()).samples[0].choices[1]
    assert tokenizer.decode(chat.token_ids) == "<s>[user]Is it?[assistant]no"
    spaced = prepare(rows, ll=True, choices="{{ c }}", prompt={"text": "{{ q }}  \n"}).samples[0].choices[0]
    assert tokenizer.decode(spaced.token_ids[spaced.start :]) == "  \nyes"
    assert spaced.token_ids[0] == 0
    assert prepare(rows, choices="{{ c }}").samples[0].choices == []


def test_a_token_is_kept_free_for_a_log_likelihood(prepare: Bench) -> None:
    rows = [{"q": "abc", "c": ["yes", "maybe"]}]  # BOS + abc + " maybe" = 10
    asked = {"ll": True, "generate": False, "choices": "{{ c }}"}
    assert len(prepare(rows, max_len=11, **asked).samples[0].choices[1].token_ids) == 10
    with pytest.raises(ConfigError, match="11 tokens"):
        prepare(rows, max_len=10, **asked)
    cut = prepare(rows, max_len=10, on_overflow="cut_middle", **asked).samples[0]
    assert [(choice.start, len(choice.token_ids)) for choice in cut.choices] == [(3, 7), (3, 9)]
    assert cut.cut_tokens == 1
    with pytest.raises(ConfigError, match="as long as all there is"):
        prepare(rows, max_len=7, on_overflow="cut_middle", **asked)


def test_an_empty_context_is_bos_else_eos(tmp_path: Path) -> None:
    rows = [{"q": " ", "c": ["a"]}]
    for number, (config, first) in enumerate((({}, 0), ({"bos_token": None}, 1))):
        bench = Bench(small_model_folder(tmp_path / str(number), adds_bos=False, **config), tmp_path)
        choice = bench(rows, ll=True, choices="{{ c }}").samples[0].choices[0]
        assert (choice.token_ids[0], choice.start, len(choice.token_ids)) == (first, 1, 3)


def test_a_continuation_without_a_token_is_encoded_apart(tmp_path: Path) -> None:
    import tokenizers

    # merges that swallow the continuation: "a" + "b" is one token, as long as the context alone
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")]))
    inner.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_folder(tmp_path)
    job = ChoiceJob(context="a", context_ids=[0], delimiter="", options=["b", "ba"])
    swallowed, kept = encode_choices([job], tokenizer=tokenizer, add_special_tokens=True)[0]
    assert (swallowed.token_ids, swallowed.start, swallowed.encoded_apart) == ([0, 1], 1, True)
    assert (kept.token_ids, kept.start, kept.encoded_apart) == ([2, 0], 1, False)


def test_log_likelihoods_need_choices(prepare: Bench) -> None:
    with pytest.raises(ConfigError, match="no `choices`"):
        prepare([{"q": "x"}], ll=True)


def test_the_real_tokenizer(model_dir: Path, tmp_path: Path) -> None:
    prepared = Bench(model_dir, tmp_path)(
        [{"q": f"What is {n} + {n}? 🌍", "c": [str(n), str(2 * n)]} for n in range(50)],
        prompt=user(),
        choices="{{ c }}",
        ll=True,
        max_len=2048,
    )
    tokenizer = Tokenizer.from_folder(model_dir)
    for sample in prepared.samples:
        assert tokenizer.decode(sample.prompt_token_ids) == sample.prompt
        for choice in sample.choices:
            assert tokenizer.decode(choice.token_ids) == sample.prompt + choice.text
            assert 0 < len(choice.token_ids) - choice.start <= 4
