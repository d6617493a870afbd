"""Which cells can share an engine, and in which order a sweep's runs are made. Plans are real ones, of the small
model; no engine is started."""

from pathlib import Path
from typing import Any

import pytest

from tasks.cells.expand import cells_of
from tasks.cells.group import PlannedCell, Planner, turns

BASE = """\
name: small
model: smollm2-135m-instruct
engine: {extends: vllm, core: inprocess}
datasets: [{use: arithmetic, limit: 3, max_tokens: 16}]
arms: [free]
"""


@pytest.fixture
def planner(home: Path, tmp_path: Path) -> Planner:
    (tmp_path / "small.yaml").write_text(BASE)
    return Planner(base=str(tmp_path / "small.yaml"), home=home, limit=None, on_progress=lambda text: None)


def groups(planner: Planner, *settings: dict[str, Any]) -> list[str | None]:
    return [planner.plan(cell).group for cell in cells_of(settings)]


def test_cells_that_differ_only_in_the_prefill_threshold_are_one_group(planner: Planner) -> None:
    found = groups(
        planner,
        {"engine.prefill.policy": "off"},
        {"engine.prefill": {"policy": "fixed", "threshold": 64}},
        {"engine.prefill": {"policy": "fixed", "threshold": 128}},
        {"engine.prefill.policy": "rule"},
    )
    assert found[0] is not None and len(set(found)) == 1


def test_in_a_core_of_its_own_the_threshold_is_part_of_the_engine(planner: Planner) -> None:
    own = {"engine.core": "multiprocess"}
    off, low, same = groups(
        planner,
        own | {"engine.prefill.policy": "off"},
        own | {"engine.prefill": {"policy": "fixed", "threshold": 64}},
        own | {"engine.prefill": {"policy": "fixed", "threshold": 64}},
    )
    assert off != low == same


@pytest.mark.parametrize(
    "changed",
    [
        {"engine.max_num_seqs": 2},
        {"engine.max_model_len": 512},
        {"engine.prefix_caching": False},
        {"engine.core": "multiprocess"},
        {"engine.grammar.backend": "guidance"},
        {"engine.memory.kv_cache_bytes": 1 << 27},
        {"model.dtype": "float32"},
        {"engine.choose": "vllm"},
        {"engine.compile": "full"},  # known to the process before it is built
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_any_other_change_of_the_engine_is_another_group(planner: Planner, changed: dict[str, Any]) -> None:
    plain, other, again = groups(planner, {}, changed, changed)
    assert plain != other == again


def test_what_is_asked_and_not_of_the_engine_leaves_the_group(planner: Planner) -> None:
    fixed: dict[str, Any] = {
        "engine.max_model_len": 512,
        "engine.max_num_seqs": 4,
        "engine.max_num_batched_tokens": 512,
    }
    fixed["engine.memory.kv_cache_bytes"] = 1 << 27  # else as much as the requests need
    found = groups(
        planner,
        fixed,
        fixed | {"sampling.temperature": 0.5},
        fixed | {"arms": ["free", "guided"]},
        fixed | {"datasets": ["choice"]},
        fixed | {"tags.note": "x"},
    )
    assert found[0] is not None and len(set(found)) == 1


def test_a_cell_that_cannot_be_planned_says_why_and_has_no_group(planner: Planner) -> None:
    [cell] = cells_of([{"engine.max_model_len": 16}])
    found = planner.plan(cell)
    assert found.group is None and found.plan is None
    assert found.error is not None and "max_tokens" in found.error and "16" in found.error


def planned(index: int, group: str | None) -> PlannedCell:
    [cell] = cells_of([{"engine.max_num_seqs": index + 1}])
    return PlannedCell(
        cell=cell.model_copy(update={"index": index}),
        experiment=None,  # type: ignore[arg-type] - the order does not ask for it
        plan=None,
        group=group,
    )


CELLS = [planned(0, "a"), planned(1, "b"), planned(2, "a"), planned(3, None), planned(4, None)]


def places(*, repeats: int, order: Any) -> list[tuple[int, int]]:
    found = turns(CELLS, repeats=repeats, order=order)
    assert [turn.order_index for turn in found] == list(range(len(CELLS) * repeats))
    return [(turn.planned.cell.index, turn.repeat) for turn in found]


def test_grouped_each_engine_is_used_up_before_the_next_one_is_built() -> None:
    assert places(repeats=1, order="grouped") == [(0, 0), (2, 0), (1, 0), (3, 0), (4, 0)]
    assert places(repeats=3, order="grouped") == [
        *[(0, 0), (2, 0), (2, 1), (0, 1), (0, 2), (2, 2)],
        *[(1, 0), (1, 1), (1, 2)],
        *[(3, 0), (3, 1), (3, 2)],  # those without a plan share nothing
        *[(4, 0), (4, 1), (4, 2)],
    ]


def test_interleaved_every_second_repeat_goes_backwards() -> None:
    forwards = [0, 1, 2, 3, 4]
    assert places(repeats=3, order="interleaved") == [
        *((index, 0) for index in forwards),
        *((index, 1) for index in reversed(forwards)),
        *((index, 2) for index in forwards),
    ]
