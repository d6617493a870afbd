"""The page of a sweep, an ablation and a tuning: what it shows of real runs and broken ones, and that text is text."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_answers import HOSTILE

from schemas.cell_figures import Changed, Figure
from schemas.sweep import CellResult, CellSpec, CellState
from schemas.tune import Confirmation, Side, Trial, Tuned
from tasks.cells.effects import effects, figure_effects
from tasks.cells.tables import Ablated, cell_runs
from tasks.report.figures import to_png
from tasks.report.sweep import figures, queries, render, sweep_page
from tasks.report.sweep_figures import ANSWERING, forest_of, grid_of, shown_of
from tasks.report.sweep_model import Page
from tests.unit.compare.loads import Points, measured, steady
from tests.unit.compare.two_runs import FIRST as MEASURED
from tests.unit.compare.two_runs import SECOND as SLOWER
from warehouse.parquet import write_rows
from warehouse.query import query

KEPT = Path(__file__).parents[2] / "data/warehouse/v2"
FIRST = "20261128T124658-2a50ac"
SECOND = "20261128T125414-120c25"
SWEEP = "20261201T080000-abcdef"
MATRIX = {"engine.max_num_seqs": [4, 48], "engine.prefix_caching": [True, False], "engine.dtype": ["bfloat16"]}
POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')


def cell(
    index: int,
    *,
    seqs: int,
    caching: bool,
    run_id: str | None,
    repeat: int = 0,
    state: CellState = "finished",
    error: str | None = None,
    name: str | None = None,
) -> CellResult:
    settings = {"engine.max_num_seqs": seqs, "engine.prefix_caching": caching, "engine.dtype": "bfloat16"}
    spec = CellSpec(
        index=index,
        name=name or f"seqs={seqs}, caching={caching}",
        settings=settings,
        overrides=[f"{key}={value}" for key, value in settings.items()],
    )
    return CellResult(
        cell=spec,
        repeat=repeat,
        order_index=index,
        state=state,
        run_id=run_id,
        built=repeat == 0,
        seconds=20.0,
        error=error,
        started_at=f"2026-12-01T08:0{index}:00+00:00",
    )


def cells(*, text: str = "the engine said nothing for 120 s\nits log is engine.log") -> list[CellResult]:
    return [
        cell(0, seqs=4, caching=True, run_id=FIRST),
        cell(1, seqs=4, caching=False, run_id=SECOND),
        cell(2, seqs=48, caching=True, run_id=None, state="timeout", error=text),
    ]


def tuned(**changes: object) -> Tuned:
    rate, time = "throughput.output_tokens_per_s", "e2e_ms.p50"
    trials = [
        Trial(
            number=0,
            reference="plan",
            settings={},
            state="measured",
            value=30.0,
            first_value=28.0,
            figures={rate: 30.0, time: 900.0},
            rungs=2,
            run_ids=[FIRST],
        ),
        Trial(
            number=1,
            settings={"engine.max_num_seqs": 4},
            state="measured",
            value=40.0,
            first_value=35.0,
            figures={rate: 40.0, time: 700.0},
            rungs=2,
            run_ids=[SECOND],
        ),
        Trial(
            number=2,
            settings={"engine.max_num_seqs": 1},
            state="pruned",
            reason="worse than half",
            first_value=9.0,
            rungs=1,
        ),
        Trial(
            number=3,
            settings={"engine.max_num_seqs": 9},
            state="infeasible",
            why="out_of_memory",
            reason="no memory left",
        ),
    ]
    confirmation = Confirmation(
        trial=1,
        rounds=1,
        sides=[
            Side(name="winner", values=[40.0], figures=[{}], run_ids=[FIRST], reasons=[None]),
            Side(name="plan", values=[30.0], figures=[{}], run_ids=[SECOND], reasons=[None]),
            Side(name="vllm", values=[None], figures=[{}], run_ids=[None], reasons=["no memory left"]),
        ],
        against=[],
    )
    asked: dict[str, object] = {
        "run_id": SWEEP,
        "name": "t",
        "goals": {"throughput": 1.0},
        "objective": "output tokens/s",
        "direction": "higher",
        "trials": trials,
        "front": [1],
        "importances": {"engine.max_num_seqs": 0.8, "engine.dtype": 0.2},
        "importances_note": "PED-ANOVA over 17 trials",
        "winner": 1,
        "confirmation": confirmation,
        "verdict": "keep",
        "answer": "Keep the plan.",
        "ended": "trials",
        "engine": {},
    }
    return Tuned(**(asked | changes))  # type: ignore[arg-type]


class Outline(HTMLParser):
    """The tags of a page, its links, and its text by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href" and tag == "a"]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def sections(page: str) -> list[str]:
    return re.findall(r'<(?:section|header) id="([a-z]+)"', page)


def test_a_sweep_shows_its_matrix_its_cells_and_why_some_did_not_finish(tmp_path: Path) -> None:
    page = sweep_page(home=KEPT, run_id=SWEEP, title="my sweep", results=cells(), matrix=MATRIX)
    assert sections(page) == ["top", "results", "cells", "failures", "sql"]
    assert "3 cells, 3 runs: 2 finished, 1 over their time limit." in page
    assert 'id="heat-t"' in page and 'id="dots-t"' not in page and 'id="forest-t"' not in page
    text = Outline(page).text
    assert "30.3" in text and "5.18" in text and "timeout" in text and "excluded" in text
    assert "its log is engine.log" in text and "engine.prefix_caching=True" in text
    assert "most tokens/s: 30.3, seqs=4, caching=True" in text


def test_a_cell_links_to_its_own_report_where_there_is_one(tmp_path: Path) -> None:
    page = Page(kind="sweep", run_id=SWEEP, title="t", runs=cell_runs(KEPT, cells()), reports=[FIRST])
    links = [link for link in Outline(render(page)).links if not link.startswith("#")]
    assert links == [f"../{FIRST}/report.html"]
    report = tmp_path / "runs" / FIRST / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("x")
    found = sweep_page(home=tmp_path, run_id=SWEEP, title="t", results=cells())
    assert [link for link in Outline(found).links if not link.startswith("#")] == links


def test_a_matrix_of_another_shape_is_drawn_as_dots_and_so_are_repeats() -> None:
    runs = cell_runs(KEPT, cells())
    assert grid_of(runs, {"engine.max_num_seqs": [4, 48]}) is None
    assert grid_of(runs, MATRIX | {"engine.dtype": ["bfloat16", "float32"]}) is None
    doubled = [*runs, *cell_runs(KEPT, [cell(9, seqs=4, caching=True, run_id=FIRST)])]
    assert grid_of(doubled, MATRIX) is None
    grid = grid_of(runs, MATRIX)
    assert grid is not None and (grid.rows, grid.columns) == (["4", "48"], ["true", "false"])
    assert set(figures(Page(kind="sweep", run_id=SWEEP, title="t", runs=runs))) == {"dots"}
    again = cell_runs(KEPT, [cell(0, seqs=4, caching=True, run_id=SECOND, repeat=1)])
    drawn = figures(Page(kind="sweep", run_id=SWEEP, title="t", runs=[*runs, *again], matrix=MATRIX))
    assert set(drawn) == {"heat", "dots"} and to_png(drawn["heat"]).startswith(b"\x89PNG")


def test_long_names_of_cells_are_told_apart_in_the_figure() -> None:
    same = "datasets=[arithmetic, choice, extract, needle], "
    names = [f"{same}max_num_seqs={seqs}, max_tokens=24" for seqs in (4, 16)]
    results = [cell(place, seqs=4, caching=True, run_id=FIRST, name=name) for place, name in enumerate(names)]
    page = sweep_page(home=KEPT, run_id=SWEEP, title="t", results=results)
    svg = page.partition('<svg xmlns="http://www.w3.org/2000/svg"')[2].partition("</svg>")[0]
    assert all(f">…max_num_seqs={seqs}, max_tokens=24</text>" in svg for seqs in (4, 16))


def test_an_ablation_has_a_forest_of_ratios_and_the_answers_that_changed() -> None:
    changed = Changed(samples=24, changed=3, left_out=0, arms={})
    ablation = [
        Ablated(name="seqs=4", effects=effects(KEPT, control=[FIRST], candidate=[SECOND]), changed=changed),
        Ablated(name="caching=False", failed=["no memory left"]),
    ]
    page = sweep_page(home=KEPT, run_id=SWEEP, title="a", results=cells(), ablation=ablation)
    text = Outline(page).text
    assert 'id="forest-t"' in page and "ablation" in sections(page)
    assert "None of 2 settings can be told apart from the control" in text
    assert "0.17×" in text and "3 of 24" in text and "no memory left" in text


def test_a_tuning_shows_every_trial_and_the_winner_against_the_others() -> None:
    page = sweep_page(home=KEPT, run_id=SWEEP, title="t", results=cells(), tuned=tuned())
    assert {"tuning", "confirmation", "cells"} <= set(sections(page)) and "results" not in sections(page)
    assert all(f'id="{name}-t"' in page for name in ("pareto", "importances", "history"))
    text = Outline(page).text
    assert "Keep the plan." in text and "no memory left" in text and "worse than half" in text
    assert "5.85×" in text  # of the rows of the two runs: the winner over the plan
    assert "No round in which both the winner and vLLM's defaults finished" in text


def test_a_tuning_of_which_nothing_ran_says_so() -> None:
    nothing = tuned(
        trials=[], front=[], winner=None, confirmation=None, importances={}, importances_note="too few trials"
    )
    page = sweep_page(home=KEPT, run_id=SWEEP, title="t", results=[], tuned=nothing)
    assert sections(page) == ["top", "tuning", "sql"] and "too few trials" in page


def test_a_sweep_of_which_no_cell_finished_is_a_page_all_the_same() -> None:
    lost = [cell(0, seqs=4, caching=True, run_id=None, state="failed", error="no")]
    page = sweep_page(home=KEPT, run_id=SWEEP, title="t", results=lost, matrix=MATRIX)
    assert (
        "No cell finished" in page
        and figures(Page(kind="sweep", run_id=SWEEP, title="t", runs=cell_runs(KEPT, lost))) == {}
    )
    assert sections(sweep_page(home=KEPT, run_id=SWEEP, title="t", results=[])) == ["top", "sql"]


def _encodable(text: str) -> bool:
    """Whether it can be in a config or an error at all: pydantic takes no half characters."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def test_hostile_text_makes_no_element_and_the_policy_admits_only_the_style() -> None:
    texts = [*(text for text in HOSTILE if _encodable(text)), "</svg><script>alert(1)</script>"]
    hostile = [
        cell(index, seqs=4, caching=True, run_id=FIRST, name=text, error=text, state="failed")
        for index, text in enumerate(texts)
    ]
    hostile.append(cell(7, seqs=4, caching=True, run_id=FIRST, name=texts[-1]))
    trial = Trial(
        number=0, settings={texts[-1]: texts[-1]}, state="infeasible", reason=texts[0], why="failed", run_ids=["../x"]
    )
    page = sweep_page(
        home=KEPT,
        run_id=SWEEP,
        title=texts[-1],
        results=hostile,
        matrix={texts[-1]: [texts[-1], 2], "engine.max_num_seqs": [4, 5]},
        ablation=[Ablated(name=texts[-1], failed=texts)],
        tuned=tuned(trials=[trial], front=[], winner=None, answer=texts[-1]),
        notes=texts,
    )
    tame = sweep_page(home=KEPT, run_id=SWEEP, title="t", results=cells(), tuned=tuned())
    outline = Outline(page)
    assert outline.tags.count("script") == Outline(tame).tags.count("script") == 1
    assert "img" not in outline.tags and outline.tags.count("style") == 1
    assert not outline.handlers and not [link for link in outline.links if "x/" in link]
    found = POLICY.search(page)
    assert found is not None
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert found[1].replace("&#39;", "'") == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_the_questions_on_the_page_can_be_asked(tmp_path: Path) -> None:
    row = {"cell_index": 0, "repeat": 0, "name": "a", "state": "finished", "order_index": 0}
    write_rows(home=tmp_path, table="sweep_cells", run_id=SWEEP, rows=[row], part="p")
    asked = queries(Page(kind="sweep", run_id=SWEEP, title="t"))
    assert [len(query(home=tmp_path, sql=sql.rstrip(";")).rows) for _, sql in asked] == [1, 0, 0]


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_the_trials_are_listed_from_the_best(direction: str) -> None:
    page = sweep_page(
        home=KEPT, run_id=SWEEP, title="t", results=[], tuned=tuned(direction=direction, confirmation=None)
    )
    table = page.partition('aria-label="Trials"')[2]
    order = [int(number) for number in re.findall(r'<tr><td class="n">(\d)</td>', table)]
    assert order == ([1, 0, 2, 3] if direction == "higher" else [0, 1, 2, 3])


def test_of_a_sweep_under_load_the_busiest_point_is_drawn(tmp_path: Path) -> None:
    for run_id, factor in ((MEASURED, 1.0), (SLOWER, 1.5)):
        points: Points = {
            f"free-closed-{n}": {"output_tokens_per_s": steady(n / factor), "ttft_ms.p50": steady(factor)}
            for n in (1, 8)
        }
        measured(tmp_path, run_id, points)
    runs = cell_runs(
        tmp_path,
        [
            cell(0, seqs=4, caching=True, run_id=MEASURED),
            cell(1, seqs=48, caching=True, run_id=SLOWER),
        ],
    )
    busiest = ("load.free-closed-8.output_tokens_per_s", "load.free-closed-8.ttft_ms.p50")
    assert shown_of(runs) == busiest and shown_of([]) == ANSWERING
    page = render(Page(kind="sweep", run_id=SWEEP, title="t", runs=runs))
    assert "nothing to draw" not in page and "tokens/s at free-closed-8" in page
    assert "most tokens/s at free-closed-8" in page


def test_an_ablation_under_load_is_drawn_by_point() -> None:
    name = "load.free-closed-8.ttft_ms.p50"
    sides = [{name: Figure(name=name, value=value, unit="ms", direction="lower")} for value in (50.0, 60.0)]
    found = figure_effects(control=sides[:1], candidate=sides[1:])
    assert forest_of([Ablated(name="off", effects=found)])[-1] == name
    page = Page(kind="ablate", run_id=SWEEP, title="t", ablation=[Ablated(name="off", effects=found)])
    assert "ttft p50 at free-closed-8" in render(page)
