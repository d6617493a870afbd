"""What an ablation sets in place of each choice; each of them is taken by the experiment, and changes the plan."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from schemas.engine import VllmEngine
from schemas.errors import ConfigError
from schemas.plan import DeviceFacts, EnginePlan, PlannedLoad
from tasks.cells.alternatives import KNOWN, USUAL, factors
from tasks.cells.expand import override
from tasks.config.resolve import load_experiment
from tasks.plan.engine import plan_engine

LOAD = PlannedLoad(prompt_tokens=[150] * 100 + [3_000], output_tokens=[100] * 100 + [64])
BASE = "name: small\nmodel: smollm2-135m-instruct\ndatasets: [arithmetic]\nengine: {extends: vllm}\n"


@pytest.fixture(scope="module")
def planning() -> Iterator[Any]:
    """The facts that the tests of the plan use, as a module."""
    folder = str(Path(__file__).parents[1] / "plan")
    sys.path.insert(0, folder)
    import planning

    yield planning
    sys.path.remove(folder)


def plan(planning: Any, engine: VllmEngine, device: DeviceFacts) -> EnginePlan:
    return plan_engine(
        load=LOAD, model=planning.a_model(), device=device, engine=engine, dtype="bfloat16", earlier=None
    )


def instead(planning: Any, key: str, *, gpu: bool = False, **engine: Any) -> list[Any]:
    """What the key could be in place of what this engine has."""
    asked = VllmEngine(**engine)
    device = planning.a_gpu() if gpu else planning.a_cpu()
    return [each[key] for each in factors([key], engine=asked, plan=plan(planning, asked, device))]


def test_the_values_of_each_known_key(planning: Any) -> None:
    assert instead(planning, "engine.cudagraph", gpu=True) == ["none"]
    assert instead(planning, "engine.compile") == ["full"]
    assert instead(planning, "engine.compile", gpu=True) == ["none"]
    assert instead(planning, "engine.prefill.policy") == ["off", "rule"]
    assert instead(planning, "engine.prefill.policy", prefill={"policy": "rule"}) == ["off", "auto"]
    assert instead(planning, "engine.prefill.yields", prefill={"policy": "rule"}) == [True]
    assert instead(planning, "engine.speculative") == [{"method": "ngram"}]
    assert instead(planning, "engine.speculative", speculative={"method": "ngram"}) == [{"method": "none"}]
    assert instead(planning, "engine.prefix_caching") == [False]
    assert instead(planning, "engine.prefix_caching", prefix_caching=False) == [True]
    assert instead(planning, "engine.max_num_seqs", max_num_seqs=8) == [4, 16]
    assert instead(planning, "engine.max_num_seqs", max_num_seqs=1) == [2]
    assert instead(planning, "engine.max_num_batched_tokens") == [2_048, 8_192]
    assert instead(planning, "engine.core") == ["multiprocess"]
    assert instead(planning, "engine.core", core="multiprocess") == ["inprocess"]
    assert instead(planning, "engine.grammar.backend") == ["guidance"]
    assert instead(planning, "engine.grammar.backend", grammar={"backend": "guidance"}) == ["xgrammar"]
    assert instead(planning, "engine.grammar.whitespace") == [True]
    assert instead(planning, "engine.choose") == ["vllm"]


def test_every_known_key_has_a_test_here_and_the_usual_ones_are_known() -> None:
    text = Path(__file__).read_text("utf-8")
    assert [key for key in KNOWN if f'"{key}"' not in text] == []
    assert set(USUAL) <= set(KNOWN)


def test_a_block_size_is_varied_where_the_plan_has_another_one_than_vllm(planning: Any) -> None:
    asked = VllmEngine(memory={"block_size": 64})
    planned = plan(planning, asked, planning.a_gpu())
    [option] = [each for each in planned.options if each.option == "block_size"]
    wanted = [] if option.default_value in (None, 64) else [{"engine.memory.block_size": option.default_value}]
    if not wanted:
        with pytest.raises(ConfigError, match="nothing else"):
            factors(["engine.memory.block_size"], engine=asked, plan=planned)
    else:
        assert factors(["engine.memory.block_size"], engine=asked, plan=planned) == wanted


@pytest.mark.parametrize("gpu", [False, True])
def test_each_alternative_is_another_engine_than_the_planned_one(
    planning: Any, gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    device = planning.a_gpu() if gpu else planning.a_cpu()
    control = plan(planning, VllmEngine(), device)
    own = {option.option: option.value for option in control.options}
    keys = [key for key, values in KNOWN.items() if values(VllmEngine(), control)]
    assert len(keys) >= (10 if gpu else 9)
    for setting in factors(keys, engine=VllmEngine(), plan=control):
        [(key, value)] = setting.items()
        engine = load_experiment("small.yaml", overrides=[override(key, value)]).engine
        changed = {option.option: option.value for option in plan(planning, engine, device).options}
        assert changed != own, setting


def test_without_keys_the_usual_ones_that_there_are_here(planning: Any) -> None:
    found = factors([], engine=VllmEngine(), plan=plan(planning, VllmEngine(), planning.a_cpu()))
    assert found == [
        {"engine.compile": "full"},
        {"engine.prefill.policy": "off"},
        {"engine.prefill.policy": "rule"},
        {"engine.prefix_caching": False},
        {"engine.choose": "vllm"},
    ]  # there are no CUDA graphs on a CPU


def test_values_of_your_own_are_yaml_and_kept_once(planning: Any) -> None:
    asked = VllmEngine()
    over = ["engine.max_num_seqs=8|64|8", " engine.prefill =off", "engine.memory.kv_dtype={a: 1}", "engine.core=auto"]
    assert factors(over, engine=asked, plan=plan(planning, asked, planning.a_cpu())) == [
        {"engine.max_num_seqs": 8},
        {"engine.max_num_seqs": 64},
        {"engine.prefill": "off"},
        {"engine.memory.kv_dtype": {"a": 1}},
        {"engine.core": "auto"},
    ]


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ("engine.cudagraph", r"--over engine\.cudagraph: there is nothing else that it could be here"),
        ("engine.cudagrph", r"cudagrph: has no alternatives that assay knows.*did you mean `engine\.cudagraph`"),
        ("engine.sleep_mode", r"has no alternatives that assay knows.*engine\.sleep_mode=VALUE\|VALUE"),
    ],
)  # fmt: skip
def test_a_key_without_alternatives_is_refused(planning: Any, over: str, says: str) -> None:
    asked = VllmEngine()
    with pytest.raises(ConfigError, match=says):
        factors([over], engine=asked, plan=plan(planning, asked, planning.a_cpu()))


def test_left_to_vllm_only_what_the_user_wrote_has_a_value(planning: Any) -> None:
    asked = VllmEngine(choose="vllm", max_num_seqs=8, prefill={"policy": "fixed", "threshold": 64})
    found = plan(planning, asked, planning.a_gpu())
    values = {option.option: (option.value, option.source) for option in found.options}
    assert values["max_num_seqs"] == (8, "user")
    assert values["long_prefill_token_threshold"] == (64, "user")
    for name in ("max_model_len", "max_num_batched_tokens", "block_size", "cudagraph_mode", "compile"):
        assert values[name] == (None, "default"), name
    assert values["enable_prefix_caching"] == values["gpu_memory_utilization"] == (None, "default")
    assert values["core"] == ("multiprocess", "default")
    assert values["dtype"][0] == "bfloat16"  # it changes answers
    assert values["grammar_backend"][0] == "xgrammar"
    left = [option for option in found.options if option.value is None and option.reason.startswith("Left to vLLM")]
    assert left and all("engine.choose" in option.would_change for option in left)


def test_left_to_vllm_the_prefix_cache_is_as_written(planning: Any) -> None:
    written = plan(planning, VllmEngine(choose="vllm", prefix_caching=True), planning.a_cpu())
    assert written.value("enable_prefix_caching") is True
    assert plan(planning, VllmEngine(choose="vllm"), planning.a_cpu()).value("enable_prefix_caching") is None
    assert plan(planning, VllmEngine(choose="vllm"), planning.a_cpu()).value("prefill_policy") == "vllm"


def test_a_comma_inside_of_brackets_is_part_of_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("flows.commands.ablate.run_ablation", lambda **given: asked.update(given) or 0)
    over = "engine.cudagraph.sizes=[1, 2]|[4,8], engine.core,engine.prefill={policy: fixed, threshold: 64}"
    done = CliRunner().invoke(app, ["ablate", "quickstart", "--over", over])
    assert done.exit_code == 0, done.output
    assert asked["parameters"]["over"] == [
        "engine.cudagraph.sizes=[1, 2]|[4,8]",
        "engine.core",
        "engine.prefill={policy: fixed, threshold: 64}",
    ]
