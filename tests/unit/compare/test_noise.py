"""The noise band: of runs that were never made, kept, shown in the report, told by a later comparison."""

from pathlib import Path

import pytest

from flows.commands.compare import Asked, compared
from schemas.errors import ConfigError, RunError
from tasks.compare.noise import Level, Texts, measure, note, save
from tasks.compare.noise_plan import checked
from tasks.compare.noise_table import table
from tasks.compare.runs import compare_runs
from tasks.report.build import render
from tasks.report.data import load_report_data
from tests.unit.compare.two_runs import FIRST, SECOND, THIRD, Made, binary, write
from warehouse.parquet import read_rows

KEY = ("d", "exact_match", "free")


def values(**made: int) -> dict[str, float]:
    return binary(n=20, right=10, **made)


def run(home: Path, run_id: str, scores: dict[str, float], **more: object) -> str:
    same = dict.fromkeys(scores, "the same")
    return write(home, Made(run_id=run_id, values={KEY: scores}, **({"outputs": same} | more)))  # type: ignore[arg-type]


def levels() -> list[Level]:
    return [Level(concurrency=16, run_id=SECOND), Level(concurrency=1, run_id=FIRST)]


def test_flips_both_ways_and_texts_are_counted_and_the_band_is_the_change(tmp_path: Path) -> None:
    run(tmp_path, FIRST, values())
    texts = {sample_id: "another" if sample_id < "s0005" else "the same" for sample_id in values()}
    run(tmp_path, SECOND, values(flipped_up=3, flipped_down=1), outputs=texts)
    noise = measure(tmp_path, levels())
    [band] = noise.bands
    assert [level.concurrency for level in noise.levels] == [1, 16]
    assert band.values == (0.5, 0.6) and (band.won, band.lost, band.changed, band.n_pairs) == (3, 1, 4, 20)
    assert band.change == pytest.approx(0.1) and band.band == pytest.approx(0.1)
    assert noise.texts == (Texts(dataset="d", arm="free", n=20, differ=5),)
    [kept] = read_rows(tmp_path, "comparisons", SECOND)
    assert (kept["baseline_run_id"], kept["wins"], kept["losses"]) == (FIRST, 3, 1)
    assert [row["band"] for row in table(noise)] == ["0.100", "5 (25.0%)"]


def test_flips_that_cancel_out_are_seen_and_a_third_setting_widens_the_band(tmp_path: Path) -> None:
    run(tmp_path, FIRST, values())
    run(tmp_path, SECOND, values(flipped_up=2, flipped_down=2))
    run(tmp_path, THIRD, values(flipped_down=3))
    [band] = measure(tmp_path, levels()).bands
    assert (band.band, band.changed, band.won, band.lost) == (0.0, 4, 2, 2)
    [band] = measure(tmp_path, [*levels(), Level(concurrency=64, run_id=THIRD)]).bands
    assert band.values == (0.5, 0.5, 0.35) and band.band == pytest.approx(0.15) and band.changed == 5


def test_a_setting_without_scores_of_a_metric_is_a_gap_at_its_own_place(tmp_path: Path) -> None:
    other = ("d", "contains", "free")
    for run_id, flipped in ((FIRST, 0), (SECOND, None), (THIRD, 4)):
        scores = {KEY: values()} | ({} if flipped is None else {other: values(flipped_up=flipped)})
        write(tmp_path, Made(run_id=run_id, values=scores, outputs=dict.fromkeys(values(), "the same")))
    noise = measure(tmp_path, [*levels(), Level(concurrency=64, run_id=THIRD)])
    [band] = [each for each in noise.bands if each.metric == "contains"]
    assert band.values == (0.5, None, 0.7) and band.won == 4
    assert any("no scores of d.contains" in warning for warning in noise.warnings)
    [row] = [each for each in table(noise) if each["metric"] == "d.contains"]
    assert (row["at 1"], row["at 16"], row["at 64"]) == ("0.500", "–", "0.700")


def test_no_pair_gives_no_band(tmp_path: Path) -> None:
    run(tmp_path, FIRST, {"a": 1.0, "b": None})  # type: ignore[dict-item]
    run(tmp_path, SECOND, {"a": None, "b": 1.0})  # type: ignore[dict-item]
    noise = measure(tmp_path, levels())
    assert noise.bands[0].band is None and noise.bands[0].n_pairs == 0
    assert table(noise)[0]["band"] == "–"


def test_answers_of_an_earlier_run_measure_nothing(tmp_path: Path) -> None:
    run(tmp_path, FIRST, values())
    run(tmp_path, SECOND, values(), reused=True)
    with pytest.raises(RunError, match=r"20 of 20 answers .* were taken from an earlier run"):
        measure(tmp_path, levels())
    assert read_rows(tmp_path, "comparisons", SECOND) == []


def test_whatever_else_differs_between_the_engines_is_said(tmp_path: Path) -> None:
    run(tmp_path, FIRST, values(), engine={"max_num_batched_tokens": 512})
    run(tmp_path, SECOND, values(), engine={"max_num_batched_tokens": 4096})
    warnings = measure(tmp_path, levels()).warnings
    assert "max_num_batched_tokens differs too, 512 against 4096: not the batch size alone has changed" in warnings


def test_it_is_kept_shown_in_the_report_and_told_by_the_next_comparison(tmp_path: Path) -> None:
    model = {"model": {"name": "tiny"}}
    run(tmp_path, FIRST, values(), config=model)
    run(tmp_path, SECOND, values(flipped_up=1), config=model)
    before = compare_runs(home=tmp_path, candidate=SECOND, baseline=FIRST)
    assert note(tmp_path, before) is None
    save(tmp_path, measure(tmp_path, levels()))
    rows = {row["name"]: row for row in read_rows(tmp_path, "metrics", SECOND, parse_json=True)}
    assert rows["noise.d.exact_match"]["value"] == pytest.approx(0.05)
    assert rows["noise.d.exact_match"]["details"]["concurrency"] == [1, 16]
    assert (rows["noise.d.texts_differ"]["value"], rows["noise.d.texts_differ"]["scope"]) == (0.0, "run")

    page = render(load_report_data(home=tmp_path, run_id=SECOND), drawn={})
    assert '<section id="noise"' in page and f"{FIRST} at 1, {SECOND} at 16" in page
    assert '<section id="noise"' not in render(load_report_data(home=tmp_path, run_id=FIRST), drawn={})

    run(tmp_path, THIRD, values(flipped_down=2), config=model)
    asked = Asked(candidate=THIRD, baseline=FIRST, metrics=[], margin=0.02, save=False)
    said = f"the batch size alone moved d.exact_match (free) by up to 0.05, measured by assay noise (run {SECOND})"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(tmp_path))
        assert said in compared(asked).notes
    run(tmp_path, THIRD, values(), config={"model": {"name": "another"}})
    assert note(tmp_path, compare_runs(home=tmp_path, candidate=THIRD, baseline=FIRST)) is None


@pytest.mark.parametrize(
    ("concurrency", "overrides", "said"),
    [
        ([1], [], "takes two or more different batch sizes of at least 1, not 1 (1,16)"),
        ([4, 4], [], "not 4,4"),
        ([0, 4], [], "not 0,4"),
        ([1, 16], ["engine.max_num_seqs=8"], "which `concurrency` does here"),
        (
            [1, 16],
            ["sampling.temperature=0.7"],
            "--set sampling.temperature: noise of the batch size is measured greed",
        ),
    ],
)
def test_what_measures_no_noise_is_refused(concurrency: list[int], overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked("quickstart", concurrency=concurrency, overrides=overrides)
    assert said in str(caught.value)


def test_a_temperature_is_found_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "warm.yaml"
    file.write_text("name: warm\nmodel: smollm2-135m-instruct\ndatasets: [arithmetic]\nsampling:\n  temperature: 0.7\n")
    with pytest.raises(ConfigError, match=r"warm\.yaml:5: sampling\.temperature: .* at temperature 0\.7"):
        checked(str(file), concurrency=[1, 16])
    assert checked(str(file), concurrency=[1, 16], overrides=["sampling.temperature=0"]).name == "warm"
