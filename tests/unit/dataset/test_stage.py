"""The first step of a run, on real files and a real tokenizer: what it hands on, what it writes, what it refuses."""

from pathlib import Path
from typing import Any

import pytest
from dataset_helpers import jsonl, small_model_folder

from schemas.errors import ConfigError
from schemas.plan import ModelFacts
from schemas.summary import DatasetsSummary
from tasks.config.resolve import load_experiment
from tasks.dataset.stage import check_datasets, load_datasets, profile_datasets
from tasks.record.open import open_run
from tasks.session import Session
from warehouse.parquet import read_rows

SUMS = """\
source: {kind: jsonl, path: sums.jsonl}
id_field: id
prompt: {text: "{{ q }}"}
target: "{{ a }}"
guide: {kind: regex, pattern: "[0-9]+"}
cluster: by
license: CC0-1.0
few_shot: {n: 1, seed: 3}
metrics: [exact_match]
max_tokens: 4
"""
CHOICE = """\
source: {kind: jsonl, path: choice.jsonl}
prompt: {text: "{{ q }}"}
target: "{{ a }}"
choices: ["yes", "no"]
metrics: [acc, exact_match]
max_tokens: 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two datasets and a model folder; the current one."""
    small_model_folder(tmp_path / "model")
    jsonl(tmp_path / "sums.jsonl", [{"id": f"s{n}", "q": f"{n}+1=", "a": n + 1, "by": n % 2} for n in range(6)])
    jsonl(tmp_path / "choice.jsonl", [{"q": f"Is {n} even?", "a": ("yes", "no")[n % 2]} for n in range(3)])
    (tmp_path / "sums.yaml").write_text(SUMS)
    (tmp_path / "choice.yaml").write_text(CHOICE)
    (tmp_path / "x.yaml").write_text(
        "name: two\nmodel: smollm2-135m-instruct\ndatasets: [sums, choice]\narms: [free, guided]\n"
        "sampling: {temperature: 0}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def facts(folder: Path, **changes: Any) -> ModelFacts:
    values: dict[str, Any] = {"path": str(folder / "model"), "architecture": "LlamaForCausalLM", "layers": 2}
    values |= {"kv_heads": 1, "head_dim": 8, "hidden_size": 8, "vocab_size": 258, "dtype": "float32"}
    values |= {"weights_bytes": 1024, "fingerprint": "f", "eos_token_ids": [1], "bos_token_id": 0}
    return ModelFacts(**(values | {"max_position_embeddings": 64} | changes))


def session(folder: Path, **more: Any) -> Session:
    return Session(open_run(home=folder / "home", file=None if more.get("resume") else "x.yaml", **more))


def loaded(session: Session, folder: Path) -> DatasetsSummary:
    return load_datasets(session, model=facts(folder), folder=folder / "model")


def test_what_a_run_reads_is_handed_on_and_written(folder: Path) -> None:
    begun = session(folder)
    found = loaded(begun, folder)
    sums, choice = found.datasets
    assert (sums.needs, sums.arms, sums.rows_used, sums.max_len) == (["generate"], ["free", "guided"], 6, 64)
    assert (choice.needs, choice.arms) == (["generate", "loglikelihood"], ["free"])
    assert choice.warnings == ["choice has no guide, so it has no guided arm"]

    stored = {row["dataset"]: row for row in read_rows(begun.run.home, "datasets", begun.run.run_id)}
    assert Path(stored["sums"]["source"]).name == "sums.jsonl"
    assert [stored["sums"][name] for name in ("license", "few_shot", "few_shot_seed")] == ["CC0-1.0", 1, 3]
    assert [stored["choice"][name] for name in ("license", "few_shot", "few_shot_seed")] == [None, 0, None]
    assert stored["choice"]["warnings"] == choice.warnings

    # What the next step reads is what was encoded, whether it is the same process or another one.
    again = Session(begun.run).samples()
    assert again == begun.samples()
    rows = {row["sample_id"]: row for row in read_rows(begun.run.home, "samples", begun.run.run_id, parse_json=True)}
    assert len(rows) == len(again) == 9
    for sample in again:
        assert rows[sample.sample_id]["prompt_tokens"] == len(sample.prompt_token_ids)
        assert rows[sample.sample_id]["input"] == sample.input
    assert {sample.cluster for sample in again if sample.dataset == "sums"} == {"0", "1"}


def test_the_profile_is_of_the_prompts_that_were_made(folder: Path) -> None:
    begun = session(folder)
    found = profile_datasets(begun, loaded(begun, folder))
    lengths = [len(sample.prompt_token_ids) for sample in begun.samples() if sample.dataset == "sums"]
    rows = {(row["dataset"], row["arm"]): row for row in read_rows(begun.run.home, "profiles", begun.run.run_id)}
    assert set(rows) == {("sums", "free"), ("sums", "guided"), ("choice", "free")}
    assert len(found.profiles) == 3
    for arm in ("free", "guided"):
        assert [rows["sums", arm][name] for name in ("n", "tokens_total", "tokens_max")] == [
            6,
            sum(lengths),
            max(lengths),
        ]


def test_a_resumed_run_wants_the_data_that_it_began_with(folder: Path) -> None:
    begun = session(folder)
    first = loaded(begun, folder)
    begun.store.write("runs", [_run_row(begun)])
    resumed = session(folder, resume=begun.run.run_id)
    assert loaded(resumed, folder).datasets[0].fingerprint == first.datasets[0].fingerprint

    (folder / "sums.jsonl").write_text((folder / "sums.jsonl").read_text().replace('"2+1="', '"2+7="'))
    with pytest.raises(ConfigError, match=r"the data of sums is not what run .* began with"):
        loaded(session(folder, resume=begun.run.run_id), folder)


def _run_row(begun: Session) -> dict[str, Any]:
    config = begun.run.experiment.model_dump(mode="json", by_alias=True)
    return {"name": "two", "status": "cancelled", "started_at": begun.run.started_at, "config": config}


def test_half_a_character_is_replaced_in_text_and_kept_in_the_raw_row(folder: Path) -> None:
    line = '{"id": "s9", "q": "a\\ud800b", "a": "\\udfff", "by": 1}\n'
    (folder / "sums.jsonl").write_text(line + '{"id": "s1", "q": "1+1=", "a": 2, "by": 0}\n')
    begun = session(folder)
    loaded(begun, folder)
    [row] = [
        row
        for row in read_rows(begun.run.home, "samples", begun.run.run_id, parse_json=True)
        if row["sample_id"] == "sums:s9"
    ]
    assert (row["input"]["q"], row["target"]) == ("a\ufffdb", "\ufffd")
    assert row["replaced_characters"] > 0
    assert row["raw"].decode() == line.rstrip("\n")


def test_everything_wrong_with_the_data_is_said_at_once(folder: Path) -> None:
    broken = SUMS.replace("{{ q }}", "{{ question }}").replace('"[0-9]+"', '"[0-9"')
    (folder / "sums.yaml").write_text(broken)
    (folder / "choice.jsonl").write_text('{"q": "Is 1 even?", "a": "no"}\n{"q": \n')
    with pytest.raises(ConfigError) as refused:
        check_datasets(load_experiment("x.yaml"))
    told = {(Path(str(each.file)).name, each.key): each for each in refused.value.problems}
    pattern = told["sums.yaml", "guide.pattern"]
    assert "not a valid regular expression" in pattern.message
    assert broken.splitlines()[pattern.line - 1].startswith("guide:")
    assert any("question" in each.message for each in refused.value.problems)
    assert any(each.line == 2 and Path(str(each.file)).name == "choice.jsonl" for each in refused.value.problems)
