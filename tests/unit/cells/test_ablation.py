"""Candidates are held against the control of the same round, and only where both finished. The runs are kept ones of a
real engine."""

from pathlib import Path

import pytest
from real_runs import FIRST, SECOND, result, written

from flows.ablation import planned_ablation
from schemas.errors import ConfigError
from schemas.sweep import CellResult
from tasks.cells.ablation import ablated

BASE = """\
name: small
model: smollm2-135m-instruct
engine: {extends: vllm, core: inprocess}
datasets: [{use: arithmetic, limit: 3, max_tokens: 16}]
arms: [free]
"""


def slower(times: float) -> dict[str, object]:
    """Every answer took so many times as long."""

    def change(row: dict[str, object]) -> dict[str, object]:
        timed = {name: row[name] * times for name in ("ttft_ms", "e2e_ms") if row.get(name) is not None}  # type: ignore[operator]
        return row | timed

    return {"requests": change}


def control(repeat: int, run_id: str | None, **more: object) -> CellResult:
    return result(0, repeat=repeat, run_id=run_id, role="control", name="as configured", settings={}, **more)


def candidate(index: int, repeat: int, run_id: str | None, **more: object) -> CellResult:
    return result(index, repeat=repeat, run_id=run_id, role="candidate", name=f"c{index}", **more)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for name in ("control0", "control1", "control2"):
        written(home, name, of=FIRST)
    for name, times in (("slow0", 2.0), ("slow1", 2.2), ("slow2", 1.9)):
        written(home, name, of=FIRST, changes=slower(times))  # type: ignore[arg-type]
    return home


def test_each_round_is_held_against_its_own_control(home: Path) -> None:
    found = ablated(
        home,
        [
            *(control(repeat, f"control{repeat}") for repeat in range(3)),
            *(candidate(1, repeat, f"slow{repeat}") for repeat in (2, 0, 1)),
        ],
    )
    assert [each.name for each in found] == ["c1"]
    effects = {effect.figure: effect for effect in found[0].effects}
    e2e = effects["e2e_ms.p50"]
    assert e2e.rounds == 3 and e2e.ratio == pytest.approx((2.0 * 2.2 * 1.9) ** (1 / 3), rel=0.02)
    assert e2e.lo is not None and e2e.hi is not None and 1 < e2e.lo < e2e.ratio < e2e.hi
    assert found[0].changed is not None and found[0].changed.changed == 0 and found[0].failed == []


def test_a_round_counts_where_both_finished(home: Path) -> None:
    found = ablated(
        home,
        [
            control(0, "control0"),
            control(1, "control1", state="failed", error="died"),
            control(2, "control2"),
            candidate(1, 0, "slow0"),
            candidate(1, 1, "slow1"),
            candidate(1, 2, "slow2", state="timeout"),
            candidate(2, 0, None, state="failed", error="out of memory\nand more"),
            candidate(2, 1, None, state="waiting"),
            candidate(2, 2, "slow2"),
        ],
    )
    first, second = found
    assert {effect.rounds for effect in first.effects} == {1}
    timed = [effect for effect in first.effects if not effect.figure.startswith("quality.")]
    assert timed and all(effect.lo is None for effect in timed)  # of one round there is no interval
    assert first.failed == ["timeout"]
    assert {effect.rounds for effect in second.effects} == {1} and second.failed == ["out of memory\nand more"]


def test_a_candidate_that_never_finished_has_no_effects(home: Path) -> None:
    [found] = ablated(home, [control(0, "control0"), candidate(1, 0, None, state="failed", error="x")])
    assert found.effects == [] and found.changed is None and found.failed == ["x"]
    assert ablated(home, [control(0, "control0")]) == []


def test_without_a_control_nothing_is_said(home: Path) -> None:
    [found] = ablated(home, [control(0, None, state="failed", error="x"), candidate(1, 0, "slow0")])
    assert found.effects == [] and found.changed is None
    assert SECOND not in str(found)


def asked(home: Path, *over: str, overrides: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    file = home.parent / "small.yaml"
    file.write_text(BASE)
    found = planned_ablation(
        str(file),
        over=over,
        limit=None,
        overrides=overrides,
        home=home,
        on_progress=lambda text: None,
        rounds=2,
        engines_at_once=1,
        cell_time_limit_s=60,
    )
    assert found.name == "small-ablation"
    return [(cell.role, cell.name) for cell in found.cells]


class TestPlanned:
    """On the small model; `home` is the one of tests/conftest.py."""

    @pytest.fixture
    def home(self, tmp_path: Path, model_dir: Path) -> Path:
        folder = tmp_path / "home"
        (folder / "cache").mkdir(parents=True)
        (folder / "cache" / "models").symlink_to(model_dir.parent)
        return folder

    def test_the_control_comes_first_and_each_candidate_changes_one_key(self, home: Path) -> None:
        assert asked(home, "engine.max_num_seqs=8|64", "engine.choose", overrides=("model.dtype=float32",)) == [
            ("control", "as configured"),
            ("candidate", "max_num_seqs=8"),
            ("candidate", "max_num_seqs=64"),
            ("candidate", "choose=vllm"),
        ]

    def test_what_the_engine_cannot_be_is_refused_before_anything_runs(self, home: Path) -> None:
        with pytest.raises(ConfigError, match=r"engine\.max_num_seqs.*at least 1"):
            asked(home, "engine.max_num_seqs=0")
        with pytest.raises(ConfigError, match="max_tokens"):
            asked(home, "engine.choose", overrides=("engine.max_model_len=16",))
        with pytest.raises(ConfigError, match="no alternatives"):
            asked(home, "engine.sleep_mode")
