"""System message, prefix and suffix, examples from a list, and the BOS token, as they end up in token ids."""

from pathlib import Path
from typing import Any

import pytest
from dataset_helpers import jsonl, named, small_model_folder
from pydantic import ValidationError

from schemas.errors import ConfigError
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.load import load_rows
from tasks.dataset.prepare import Prepared, prepare_samples
from tasks.dataset.tokenizer import Tokenizer

WITH_BOS = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
WITHOUT_BOS = WITH_BOS.removeprefix("{{ bos_token }}")
ROWS = [{"id": letter, "q": letter, "a": letter.upper()} for letter in "vwxyz"]
CHAT = {"messages": [{"role": "user", "content": "{{ q }}"}]}


def prepared(folder: Path, *, rows: Any = ROWS, max_len: int = 500, ll: bool = False, **config: Any) -> Prepared:
    whole = {"id_field": "id", "target": "{{ a }}", **config}
    dataset = named(jsonl(folder / "rows.jsonl", rows), **whole)
    return prepare_samples(
        dataset=dataset,
        loaded=load_rows(dataset),
        tokenizer=Tokenizer.from_folder(folder),
        chat=ChatTemplate.from_folder(folder, choice="model"),
        max_len=max_len,
        loglikelihood=ll,
        generate=not ll,
    )


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """BOS before plain text by the tokenizer, and in the chat template."""
    return small_model_folder(tmp_path / "llama", chat_template=WITH_BOS)


@pytest.fixture
def gpt(tmp_path: Path) -> Path:
    """A BOS token that has a name and that nothing puts in."""
    return small_model_folder(tmp_path / "gpt", adds_bos=False, chat_template=WITHOUT_BOS)


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    return small_model_folder(tmp_path / "nameless", adds_bos=False, bos_token=None, chat_template=WITHOUT_BOS)


def leading_bos(result: Prepared) -> set[int]:
    """How many BOS tokens stand in front of each prompt, and none elsewhere."""
    found = set()
    for sample in result.samples:
        count = sample.prompt_token_ids.count(0)
        assert sample.prompt_token_ids[:count] == [0] * count
        found.add(count)
    return found


@pytest.mark.parametrize("prompt", [{"text": "{{ q }}"}, CHAT], ids=["text", "chat"])
@pytest.mark.parametrize("few_shot", [{"n": 0}, {"n": 2}])
def test_one_bos_where_the_model_has_one_and_never_two(
    llama: Path, gpt: Path, nameless: Path, prompt: Any, few_shot: Any
) -> None:
    given = {"prompt": prompt, "few_shot": few_shot}
    assert leading_bos(prepared(llama, **given)) == {1}
    assert leading_bos(prepared(llama, bos="always", **given)) == {1}
    assert leading_bos(prepared(gpt, **given)) == {0}
    assert leading_bos(prepared(gpt, bos="always", **given)) == {1}
    assert leading_bos(prepared(nameless, **given)) == {0}
    with pytest.raises(ConfigError, match="no BOS token") as caught:
        prepared(nameless, bos="always", **given)
    assert caught.value.problems[0].key == "bos"


def test_never_takes_the_tokenizers_own_away(llama: Path) -> None:
    assert leading_bos(prepared(llama, bos="never")) == {0}
    with pytest.raises(ValidationError, match="goes with a `text` prompt"):
        prepared(llama, bos="never", prompt=CHAT)


def test_the_policy_is_told_and_part_of_the_hash(llama: Path, gpt: Path) -> None:
    told = [prepared(llama, bos=policy).bos_policy for policy in ("auto", "always", "never")]
    assert told == ["text: the tokenizer's post-processor adds BOS", "text: exactly one BOS in front", "text: no BOS"]
    assert prepared(gpt, prompt=CHAT, bos="always").bos_policy == "chat template: exactly one BOS in front"
    assert prepared(llama).template_hash != prepared(llama, bos="never").template_hash


def test_a_second_bos_in_the_data_is_refused(llama: Path, gpt: Path) -> None:
    rows = [{"id": 1, "q": "<s>hi", "a": "x"}]
    for policy in ("auto", "always"):
        with pytest.raises(ConfigError, match="twice"):
            prepared(llama, rows=rows, bos=policy)
    assert leading_bos(prepared(gpt, rows=rows, bos="always")) == {1}
    double = small_model_folder(llama.parent / "double", chat_template="{{ bos_token }}" + WITH_BOS)
    with pytest.raises(ConfigError, match="twice"):
        prepared(double, prompt=CHAT)


def test_choices_have_the_bos_of_their_prompt(gpt: Path, llama: Path) -> None:
    for folder, policy, expected in ((gpt, "always", 1), (llama, "never", 0), (llama, "auto", 1), (gpt, "auto", 0)):
        for choice in prepared(folder, ll=True, choices=["a", "b c"], bos=policy).samples[0].choices:
            assert choice.token_ids.count(0) == expected
            assert choice.token_ids[:expected] == [0] * expected
            decoded = Tokenizer.from_folder(folder).decode(choice.token_ids[choice.start :])
            assert decoded == f" {choice.text}"


# what stands round the question


def test_prefix_and_suffix_stand_once(llama: Path) -> None:
    prompt = {"text": "Q {{ q }}\nA:", "prefix": "Sums of {{ id }}.\n\n", "suffix": " ({{ a | lower }})"}
    result = prepared(llama, prompt=prompt, few_shot={"n": 1})
    assert result.samples[2].prompt == "Sums of x.\n\nQ v\nA: V\n\nQ x\nA: (x)"
    chat = prepared(llama, prompt={**CHAT, "system": "S{{ id }}", "prefix": "P ", "suffix": " E"}, few_shot={"n": 1})
    assert chat.samples[1].prompt == "<s>[system]Sw[user]P v[assistant]V[user]w E[assistant]"
    alone = prepared(llama, prompt={**CHAT, "prefix": "P ", "suffix": " E"})
    assert alone.samples[0].prompt == "<s>[user]P v E[assistant]"
    assert alone.samples[0].messages == [{"role": "user", "content": "P v E"}]


@pytest.mark.parametrize("part", ["system", "prefix", "suffix"])
def test_a_wrong_name_in_a_part_is_said_with_its_key(llama: Path, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prepared(llama, prompt={**CHAT, part: "{{ idd }}"})
    problem = caught.value.problems[0]
    assert (problem.key, problem.suggestion) == (f"prompt.{part}", "did you mean 'id'?")


# examples from a list


def test_examples_by_id_stand_in_the_order_of_the_list(llama: Path) -> None:
    given = {"prompt": {"text": "{{ q }}:"}, "few_shot": {"pick": "fixed", "ids": ["y", "v"]}}
    samples = prepared(llama, **given).samples
    assert samples[2].prompt == "y: Y\n\nv: V\n\nx:"
    assert samples[3].prompt == "v: V\n\ny:"  # never its own example
    one = prepared(llama, prompt={"text": "{{ q }}:"}, few_shot={"n": 1, "pick": "fixed", "ids": ["y", "v"]}).samples
    assert [one[2].prompt, one[3].prompt] == ["y: Y\n\nx:", "v: V\n\ny:"]
    limited = prepared(llama, limit=1, **given).samples
    assert [sample.prompt for sample in limited] == ["y: Y\n\nv:"]


def test_an_id_that_no_row_has_is_said(llama: Path) -> None:
    rows = [{"id": f"row-{n}", "q": "x", "a": "y"} for n in range(9)]
    with pytest.raises(ConfigError) as caught:
        prepared(llama, rows=rows, few_shot={"pick": "fixed", "ids": ["row-1", "rov-2"]})
    problem = caught.value.problems[0]
    assert (problem.key, problem.suggestion) == ("few_shot.ids.1", "did you mean 'row-2'?")


def test_examples_written_out(llama: Path) -> None:
    few = {"pick": "fixed", "examples": [{"q": "one", "a": 1}, {"q": "v", "a": "V"}]}
    samples = prepared(llama, prompt={"text": "{{ q }}:"}, few_shot=few).samples
    assert samples[4].prompt == "one: 1\n\nv: V\n\nz:"
    with pytest.raises(ConfigError, match=r"toy's few_shot\.examples"):
        prepared(llama, few_shot={"pick": "fixed", "examples": [{"q": "one", "a": 1}, {"q": "v"}]})


def test_whole_examples_go_first_and_every_change_is_recorded(llama: Path) -> None:
    few = {"pick": "fixed", "examples": [{"q": "e" * 10, "a": "E"}] * 3}
    given = {"prompt": {"text": "{{ q }}:", "prefix": "P", "suffix": "S"}, "few_shot": few, "max_tokens": 4}
    for max_len, left in ((9 + 3 * 15, 3), (9 + 3 * 15 - 1, 2), (9 + 15, 1), (9 + 14, 0), (9, 0)):
        for sample in prepared(llama, max_len=max_len, on_overflow="drop_shots", **given).samples:
            assert sample.shots_dropped == 3 - left
            assert sample.cut_tokens == 0
            assert sample.prompt == "P" + "eeeeeeeeee: E\n\n" * left + f"{sample.input['q']}:S"
            assert len(sample.prompt_token_ids) + 4 <= max_len
    with pytest.raises(ConfigError, match="even without examples"):
        prepared(llama, max_len=9, on_overflow="drop_shots", rows=[{"id": 1, "q": "vv", "a": ""}], **given)
