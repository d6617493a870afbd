"""`assay score`: answers of other programs joined to a dataset's rows, scored and kept."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from offline_files import CITIES, assay, cities, last_object, write_lines

from schemas.errors import ConfigError
from tasks.predictions.offline import Asked, score_file
from warehouse.parquet import read_rows
from warehouse.query import query

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
RIGHT = [{"id": city, "output": land} for city, land in CITIES]


def value(asked: Asked, name: str = "cities.exact_match") -> float | None:
    return next(row.value for row in score_file(asked).metrics if row.name == name)


def refused(asked: Asked) -> str:
    with pytest.raises(ConfigError) as caught:
        score_file(asked)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("task", ["date_understanding", "logical_deduction_three_objects"])
@pytest.mark.parametrize(("style", "after"), [("direct", None), ("cot", "the answer is")])
def test_published_outputs_give_the_published_accuracy(
    tmp_path: Path, task: str, style: str, after: str | None
) -> None:
    stem = DATA / "bbh" / "published_outputs" / f"code-davinci-002-{style}" / f"{task}_few_shot_template_0-255000"
    if not stem.with_suffix(".json").exists():
        pytest.skip("the published BIG-Bench Hard outputs are not here")
    published = json.loads(stem.with_name(stem.name + "_eval_metrics.jsonl").read_text().splitlines()[0])["accuracy"]
    outputs = json.loads(stem.with_suffix(".json").read_text())["outputs"]
    write_lines(tmp_path / "rows.jsonl", ({"id": n, "q": o["input"], "a": o["target"]} for n, o in enumerate(outputs)))
    write_lines(tmp_path / "out.jsonl", ({"id": n, "output": o["prediction"]} for n, o in enumerate(outputs)))
    options = {} if after is None else {"after": after}
    (tmp_path / "bbh.yaml").write_text(
        'source: {kind: jsonl, path: rows.jsonl}\nid_field: id\nprompt: {text: "{{ q }}"}\ntarget: "{{ a }}"\n'
        f"metrics: [{{use: exact_match, options: {json.dumps(options)}}}]\n"
    )
    done = assay(
        "score", "--dataset", str(tmp_path / "bbh.yaml"), "--predictions", str(tmp_path / "out.jsonl"),
        "--no-save", "--json", home=tmp_path,
    )  # fmt: skip
    said = last_object(done)
    assert (said["scored"], said["missing"], said["unknown"]) == (len(outputs), 0, 0)
    assert 100 * said["metrics"][0]["value"] == pytest.approx(published, abs=0.01)


def test_a_run_is_kept_that_can_be_asked(tmp_path: Path) -> None:
    answers = write_lines(tmp_path / "out.jsonl", [*RIGHT[:3], {"id": "rom", "output": "Italy"}])
    home = tmp_path / "home"
    done = assay("score", "--dataset", str(cities(tmp_path)), "--predictions", str(answers), home=home)
    assert done.returncode == 0, done.stderr
    assert "4 rows, 3 scored, 1 missing, 1 unknown" in done.stdout
    assert "1 row without an answer: cities:zürich" in done.stderr
    assert "1 answer to no row: rom" in done.stderr
    [run] = read_rows(home, "runs", parse_json=True)
    assert (run["flow"], run["status"], run["name"]) == ("score", "finished", "cities")
    assert run["config"]["predictions"]["missing"] == 1
    assert len(run["config"]["predictions"]["sha256"]) == 64
    [row] = query(home=home, sql="SELECT metric, arm, value, n, n_failed FROM leaderboard").rows
    assert tuple(row) == ("exact_match", "free", 1.0, 3, 1)
    requests = read_rows(home, "requests")
    assert {(r["status"], r["ttft_ms"], r["e2e_ms"], r["output_tokens"], r["engine_id"]) for r in requests} == {
        ("ok", None, None, None, None)
    }
    samples = {row["sample_id"]: row for row in read_rows(home, "samples", parse_json=True)}
    assert samples["cities:riga"]["prompt"] == "In which country lies riga?"
    assert samples["cities:riga"]["prompt_hash"] is None
    assert samples["cities:riga"]["target"] == "Latvia"
    assert [row["rows_used"] for row in read_rows(home, "datasets")] == [4]
    page = (home / "runs" / run["run_id"] / "report.html").read_text()
    assert "exact_match" in page
    assert assay("show", "last", home=home).returncode == 0


def test_no_save_writes_nothing(tmp_path: Path) -> None:
    answers = write_lines(tmp_path / "out.jsonl", RIGHT)
    done = assay(
        "score", "--dataset", str(cities(tmp_path)), "--predictions", str(answers), "--no-save", home=tmp_path / "home"
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "home" / "tables").exists()


def test_gzip_empty_lines_bom_and_odd_characters(tmp_path: Path) -> None:
    text = '\ufeff{"id": "zürich", "output": "Switzerland"}\n\n  \n{"id": "riga", "output": "Lat\\ud800via"}\r\n'
    path = tmp_path / "out.gz"
    path.write_bytes(gzip.compress(text.encode()))
    done = score_file(Asked(dataset=str(cities(tmp_path)), predictions=path))
    assert {answer.response.output for answer in done.answers} == {"Switzerland", "Lat\ufffdvia"}
    assert "1 character of 1 output no valid Unicode, replaced by U+FFFD" in done.warnings
    assert done.joined.missing == ["cities:oslo", "cities:bern"]


def test_other_fields_and_deeper_ones(tmp_path: Path) -> None:
    records = [{"custom_id": r["id"], "response": {"choices": [{"text": r["output"]}]}} for r in RIGHT]
    path = write_lines(tmp_path / "out.jsonl", records)
    asked = Asked(
        dataset=str(cities(tmp_path)), predictions=path, id_field="custom_id", output_field="response.choices.0.text"
    )
    assert value(asked) == 1


def test_repeats_are_averaged_within_a_row(tmp_path: Path) -> None:
    records = [RIGHT[0] | {"repeat": 0}, RIGHT[0] | {"repeat": 1, "output": "no"}, *RIGHT[1:2]]
    done = score_file(Asked(dataset=str(cities(tmp_path)), predictions=write_lines(tmp_path / "o.jsonl", records)))
    [row] = [row for row in done.metrics if row.name == "cities.exact_match"]
    assert (row.value, row.n, row.n_failed, row.details["repeats"]) == (0.75, 2, 2, 2)
    assert len({answer.response.request_id for answer in done.answers}) == 3
    assert "between 1 and 2 repeats" in " ".join(done.warnings)


def test_null_is_an_answer_that_was_never_had(tmp_path: Path) -> None:
    records = [*RIGHT[:3], {"id": "zürich", "output": None}]
    done = score_file(Asked(dataset=str(cities(tmp_path)), predictions=write_lines(tmp_path / "o.jsonl", records)))
    [row] = done.metrics
    assert (row.value, row.n, row.n_failed) == (1, 3, 1)
    assert done.joined.missing == []


def test_by_order(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "o.jsonl", [{"output": land} for _, land in CITIES])
    dataset = str(cities(tmp_path, extra=""))
    assert value(Asked(dataset=dataset, predictions=path, id_field=None)) == 1
    assert value(Asked(dataset=dataset, predictions=path, id_field=None, limit=2)) == 1
    assert "there is no field 'id'" in (said := refused(Asked(dataset=dataset, predictions=path)))
    assert f"{path}:1:" in said
    assert "--by-order" in said
    short = write_lines(tmp_path / "s.jsonl", [{"output": "x"}] * 3)
    assert "it has 3 answers, cities has 4 rows" in refused(Asked(dataset=dataset, predictions=short, id_field=None))


def test_the_ids_of_the_tables_join_too(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "o.jsonl", [r | {"id": f"cities:{r['id']}"} for r in RIGHT])
    assert value(Asked(dataset=str(cities(tmp_path)), predictions=path)) == 1


def test_answers_beyond_the_limit_are_not_unknown(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "o.jsonl", RIGHT)
    done = score_file(Asked(dataset=str(cities(tmp_path)), predictions=path, limit=1))
    assert (len(done.samples), done.joined.unknown, done.joined.unused) == (1, [], 3)


def test_form_is_judged_where_the_dataset_has_a_guide(tmp_path: Path) -> None:
    dataset = cities(tmp_path, extra="id_field: id\nguide: {kind: choice, options: [Latvia, Norway, Switzerland]}\n")
    records = [*RIGHT[:2], {"id": "bern", "output": "It is Switzerland"}]
    asked = Asked(dataset=str(dataset), predictions=write_lines(tmp_path / "o.jsonl", records))
    done = score_file(asked)
    assert [answer.response.status for answer in done.answers] == ["ok", "ok", "invalid"]
    assert value(asked, "cities.form.compliance") == pytest.approx(2 / 3)
    assert not any("length_finishes" in row.name or "refused" in row.name for row in done.metrics)


def test_reasoning_is_taken_off(tmp_path: Path) -> None:
    records = [{"id": "riga", "output": "<think>Riga …</think>Latvia"}, {"id": "oslo", "output": "<think>Oslo"}]
    path = write_lines(tmp_path / "o.jsonl", records)
    done = score_file(Asked(dataset=str(cities(tmp_path)), predictions=path, parser="think_tags"))
    assert [(a.reasoning, a.response.output, a.response.status) for a in done.answers] == [
        ("Riga …", "Latvia", "ok"),
        ("Oslo", None, "truncated"),
    ]
    [row] = [row for row in done.metrics if row.name == "cities.exact_match"]
    assert (row.value, row.n, row.n_failed) == (1.0, 1, len(done.samples) - 1)
    assert "cut before the reasoning ended" in {score.reason for score in done.scores}
    assert "1 answer cut before the reasoning ended: not scored" in done.warnings


def test_a_dataset_may_name_the_parser_and_the_command_line_may_take_it_off(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "o.jsonl", [{"id": "riga", "output": "<think>Riga …</think>Latvia"}])
    dataset = str(cities(tmp_path, extra="id_field: id\nreasoning_parser: think_tags\n"))
    outputs = [
        score_file(Asked(dataset=dataset, predictions=path, parser=parser)).answers[0].response.output
        for parser in (None, "none")
    ]
    assert outputs == ["Latvia", "<think>Riga …</think>Latvia"]


def test_metrics_of_likelihoods_are_left_out_or_refused(tmp_path: Path) -> None:
    extra = "id_field: id\nchoices: [Latvia, Norway, Switzerland]\n"
    path = write_lines(tmp_path / "o.jsonl", RIGHT)
    both = str(cities(tmp_path, extra=extra, metrics="[choice, acc]"))
    done = score_file(Asked(dataset=both, predictions=path))
    assert [row.name for row in done.metrics] == ["cities.choice"]
    assert "acc needs log-likelihoods and is left out" in " ".join(done.warnings)
    assert "reads log-likelihoods" in refused(Asked(dataset=both, predictions=path, metrics=["acc"]))


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (["exact_mach"], "there is no such metric (did you mean exact_match?)"),
        (["exact_match:{"], "the options of exact_match are no JSON"),
        (['exact_match:{"comapre": 1}'], "exact_match has no such option (did you mean compare?)"),
        (["contains", "contains"], "contains stands there twice"),
        (["choice"], "needs `choices`"),
    ],
)
def test_metrics_that_cannot_be(tmp_path: Path, metrics: list[str], said: str) -> None:
    path = write_lines(tmp_path / "o.jsonl", RIGHT)
    assert said in refused(Asked(dataset=str(cities(tmp_path)), predictions=path, metrics=metrics))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('{"id": "riga", "output": "x"}\n{"id": "riga", "output": "y"}', 2, "second answer to 'riga', the first is in"),
        ('{"id": "riga", "output": "x"}\n{"id": "oslo"', 2, "broken JSON"),
        ("[1]", 1, "must be a JSON object, this one is a list"),
        ('{"id": "riga", "ouput": "x"}', 1, "there is no field 'output' (did you mean 'ouput'?)"),
        ('{"id": "riga", "output": {"a": 1}}', 1, "the output is an object"),
        ('{"id": 1.5, "output": "x"}', 1, "the id is the number 1.5"),
        ('{"id": "riga", "output": "x", "repeat": -1}', 1, "the repeat is the number -1"),
        ('{"id": "r1", "output": "x"}', 1, "no answer finds its row: the ids here begin with 'r1', those"),
        ('{"id": "riga", "output": "x"}\n{"id": "cities:riga", "output": "y"}', 2, "a second answer to cities:riga"),
        ("", None, "there is no answer in it"),
    ],
)  # fmt: skip
def test_bad_files_say_where(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(text)
    found = refused(Asked(dataset=str(cities(tmp_path)), predictions=path))
    assert said in found
    assert (f"{path}:{line}:" if line else f"{path}:") in found


def test_bytes_that_are_no_text_and_gzip_that_breaks_off(tmp_path: Path) -> None:
    dataset = str(cities(tmp_path))
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b'{"id": "riga", "output": "\xff"}\n')
    assert "not UTF-8" in refused(Asked(dataset=dataset, predictions=bad))
    whole = gzip.compress(b'{"id": "riga", "output": "x"}\n' * 50)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    assert "breaks off or is damaged" in refused(Asked(dataset=dataset, predictions=cut))


def test_the_command_says_what_is_wrong_and_ends_with_2(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "out.jsonl", RIGHT)
    for arguments, said in (
        (["--dataset", "arithmetc", "--predictions", str(path)], "--dataset: there is no dataset `arithmetc`"),
        (
            ["--dataset", str(cities(tmp_path)), "--predictions", str(tmp_path / "ot.jsonl")],
            "there is no such file (did you mean `out.jsonl`?)",
        ),
    ):
        done = assay("score", *arguments, home=tmp_path / "home")
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_targets_keep_their_type(tmp_path: Path) -> None:
    write_lines(tmp_path / "rows.jsonl", [{"id": 1, "a": "1.10"}, {"id": 2, "a": "2"}])
    yaml = tmp_path / "prices.yaml"
    yaml.write_text(
        'source: {kind: jsonl, path: rows.jsonl}\nid_field: id\nprompt: {text: "?"}\ntarget: "{{ a }}"\n'
        "metrics: [{use: exact_match, options: {normalize: strip}}]\n"
    )
    answers: list[dict[str, Any]] = [{"id": 1, "output": "1.10"}, {"id": "2", "output": "2"}]
    path = write_lines(tmp_path / "o.jsonl", answers)
    assert value(Asked(dataset=str(yaml), predictions=path), "prices.exact_match") == 1
