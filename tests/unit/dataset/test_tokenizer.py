import json
from pathlib import Path

import pytest
import tokenizers
from dataset_helpers import small_model_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tasks.dataset.chat import ChatTemplate, ChatTemplateError, special_tokens
from tasks.dataset.tokenizer import Tokenizer, valid_unicode


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model_folder(tmp_path_factory.mktemp("model"))


def test_special_tokens_only_when_asked(folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.encode("ab", add_special_tokens=True) == [0, *tokenizer.encode("ab", add_special_tokens=False)]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1)
    assert tokenizer.adds_bos()
    assert tokenizer.encode_batch(["ab", ""], add_special_tokens=True) == [
        tokenizer.encode("ab", add_special_tokens=True),
        [0],
    ]


@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=30, deadline=None)
def test_text_survives(folder: Path, text: str) -> None:
    tokenizer = Tokenizer.from_folder(folder)
    ids = tokenizer.encode(text.replace("<", "("), add_special_tokens=False)
    assert tokenizer.decode(ids) == text.replace("<", "(")


def test_lone_surrogates_become_replacement_characters(folder: Path) -> None:
    assert valid_unicode("a\ud800b\udfff\U0001f600") == ("a\ufffdb\ufffd\U0001f600", 2)
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.decode(tokenizer.encode("a\ud800\0b", add_special_tokens=False)) == "a\ufffd\0b"


def test_truncation_and_padding_of_the_file_are_off(folder: Path, tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    inner.enable_truncation(4)
    inner.enable_padding(length=8)
    cut = small_model_folder(tmp_path / "cut")
    inner.save(str(cut / "tokenizer.json"))
    assert len(Tokenizer.from_folder(cut).encode("0123456789", add_special_tokens=False)) == 10
    assert len(Tokenizer.from_folder(cut).encode_batch(["0", "123"], add_special_tokens=False)[0]) == 1


def test_the_fingerprint_follows_vocabulary_and_special_tokens(folder: Path, tmp_path: Path) -> None:
    same = Tokenizer.from_folder(small_model_folder(tmp_path / "a")).fingerprint
    assert same == Tokenizer.from_folder(folder).fingerprint
    assert same != Tokenizer.from_folder(small_model_folder(tmp_path / "b", adds_bos=False)).fingerprint
    assert same != Tokenizer.from_folder(small_model_folder(tmp_path / "c", eos_token="<s>")).fingerprint


def test_special_tokens_from_both_files(tmp_path: Path) -> None:
    folder = small_model_folder(tmp_path / "m", bos_token={"__type": "AddedToken", "content": "<s>"}, pad_token=None)
    (folder / "special_tokens_map.json").write_text(json.dumps({"unk_token": {"content": "</s>"}, "eos_token": "<s>"}))
    assert special_tokens(folder) == {"bos_token": "<s>", "eos_token": "<s>", "unk_token": "</s>"}


def test_a_missing_or_broken_tokenizer_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="not a readable tokenizer"):
        Tokenizer.from_folder(tmp_path)


def test_choice_of_the_chat_template(folder: Path, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert ChatTemplate.from_folder(folder, choice="model") is None
    assert ChatTemplate.from_folder(folder, choice="none") is None
    own = tmp_path / "own.jinja"
    own.write_text("{{ bos_token }}{{ messages[0].content }}{{ missing }}")
    chat = ChatTemplate.from_folder(folder, choice=str(own))
    assert chat is not None
    assert chat.render(messages) == "<s>hi"
    with pytest.raises(ConfigError, match="does not exist"):
        ChatTemplate.from_folder(folder, choice=str(tmp_path / "none.jinja"))
    own.write_text("{{ bos_token }}\n{% if %}")
    with pytest.raises(ConfigError) as caught:
        ChatTemplate.from_folder(folder, choice=str(own))
    assert (caught.value.problems[0].file, caught.value.problems[0].line) == (own, 2)


def test_the_file_beside_goes_before_the_config_and_tools_have_their_own(tmp_path: Path) -> None:
    listed = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T{{ tools | length }}"}]
    folder = small_model_folder(tmp_path / "m", chat_template=listed)
    chat = ChatTemplate.from_folder(folder, choice="model")
    assert chat is not None
    assert (chat.render([]), chat.render([], tools=[{"type": "function"}])) == ("D", "T1")
    (folder / "chat_template.jinja").write_text("F")
    beside = ChatTemplate.from_folder(folder, choice="model")
    assert beside is not None
    assert beside.render([]) == "F"


def test_a_chat_template_cannot_run_for_ever(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.dataset.sandbox.TIME_LIMIT_S", 0.2)
    own = tmp_path / "own.jinja"
    own.write_text("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
    chat = ChatTemplate.from_folder(folder, choice=str(own))
    assert chat is not None
    with pytest.raises(ChatTemplateError, match=r"longer than 0\.2 seconds"):
        chat.render([])
