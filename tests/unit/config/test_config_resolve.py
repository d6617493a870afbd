"""Names, paths, engines that extend each other, datasets as a run uses them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from schemas.experiment import Experiment
from schemas.model import GgufSource, HubSource, PathSource
from tasks.config.resolve import known_config_files, list_names, load_experiment

VALID = Path(__file__).parents[2] / "configs" / "valid"
DATASET = (
    'source: {kind: jsonl, path: rows.jsonl}\nprompt: {text: "{{ q }}"}\ntarget: "{{ a }}"\nmetrics: [exact_match]\n'
)
BASE = "name: base\nmodel: smollm2-135m-instruct\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a user's own: an empty folder that is the working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(path: str, text: str) -> str:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return path


def refusal(path: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, overrides=overrides)
    return str(caught.value)


def valid(name: str) -> Experiment:
    return load_experiment(VALID / name)


def test_the_packaged_quickstart_is_found_by_name_from_anywhere(project: Path) -> None:
    experiment = load_experiment("quickstart")
    limits = {dataset.name: dataset.config.limit for dataset in experiment.datasets}
    assert limits == {"arithmetic": 60, "extract": 60, "choice": 60, "needle": 8}
    assert experiment.arms == ["free", "guided"]
    assert isinstance(experiment.model.config.source, GgufSource)


def test_a_project_file_hides_the_packaged_one_and_one_beside_hides_both(project: Path) -> None:
    put("rows.yaml", DATASET)
    put("configs/models/smollm2-135m-instruct.yaml", "source: {kind: hf, id: project/model}\n")
    put("mine/a.yaml", BASE + "datasets: [../rows.yaml]\n")
    source = load_experiment("mine/a.yaml").model.config.source
    assert isinstance(source, HubSource)
    assert source.id == "project/model"
    put("mine/smollm2-135m-instruct.yaml", "source: {kind: hf, id: beside/model}\n")
    source = load_experiment("mine/a.yaml").model.config.source
    assert isinstance(source, HubSource)
    assert source.id == "beside/model"


def test_an_experiment_of_the_project_is_found_by_name(project: Path) -> None:
    put("configs/datasets/rows.yaml", DATASET)
    put("configs/experiments/mine.yaml", BASE + "datasets: [rows]\n")
    experiment = load_experiment("mine")
    assert experiment.datasets[0].config.source.path == str(project / "configs/datasets/rows.jsonl")
    assert refusal("mien").startswith("there is no experiment `mien` in configs/experiments or in assay's own")


def test_a_name_never_stands_for_the_file_it_is_in(project: Path) -> None:
    put("configs/datasets/rows.yaml", DATASET)
    put("rows.yaml", BASE + "datasets: [rows]\n")
    assert load_experiment("rows.yaml").datasets[0].name == "rows"
    put("vllm.yaml", "extends: vllm\nmax_num_seqs: 3\n")
    assert load_experiment("rows.yaml").engine.max_num_seqs == 3


def test_a_model_may_be_a_folder_or_a_hub_id(project: Path) -> None:
    put("d.yaml", DATASET)
    Path("weights/tiny").mkdir(parents=True)
    put("a.yaml", "name: a\nmodel: weights/tiny\ndatasets: [d.yaml]\n")
    model = load_experiment("a.yaml").model
    assert model.name == "tiny"
    assert isinstance(model.config.source, PathSource)
    assert model.config.source.path == str(project / "weights/tiny")
    put("a.yaml", "name: a\nmodel: organisation/tiny\ndatasets: [d.yaml]\n")
    model = load_experiment("a.yaml").model
    assert isinstance(model.config.source, HubSource)
    assert model.config.source.id == "organisation/tiny"


def test_paths_of_an_inline_model_start_from_the_experiment() -> None:
    model = valid("inline-model.yaml").model
    assert isinstance(model.config.source, PathSource)
    assert model.config.source.path == str(VALID / "parts/weights")
    assert model.name == "weights"
    assert model.config.dtype == "float32"


def test_a_chat_template_file_is_found_beside_the_model(project: Path) -> None:
    put("d.yaml", DATASET)
    put("models/chat.jinja", "{{ messages }}")
    put("models/m.yaml", "source: {kind: hf, id: a/b}\nchat_template: chat.jinja\n")
    put("a.yaml", "name: a\nmodel: models/m.yaml\ndatasets: [d.yaml]\n")
    assert load_experiment("a.yaml").model.config.chat_template == str(project / "models/chat.jinja")


def test_engines_extend_each_other_key_by_key() -> None:
    engine = valid("extends-chain.yaml").engine
    assert engine.max_num_seqs == 4
    assert engine.max_num_batched_tokens == 512
    assert engine.cudagraph.mode == "none"
    assert engine.memory.gpu_share == 0.5
    assert engine.memory.kv_cache_bytes == 268435456


def test_the_short_form_of_cudagraph_keeps_the_sizes_below_it(project: Path) -> None:
    put("d.yaml", DATASET)
    put("e.yaml", "cudagraph: {mode: full, sizes: [1, 2]}\n")
    put("a.yaml", BASE + "engine: {extends: e.yaml, cudagraph: piecewise}\ndatasets: [d.yaml]\n")
    cudagraph = load_experiment("a.yaml").engine.cudagraph
    assert cudagraph.mode == "piecewise"
    assert cudagraph.sizes == [1, 2]


def test_without_an_engine_it_is_the_packaged_one() -> None:
    assert valid("minimal.yaml").engine == valid("hub-model.yaml").engine
    assert valid("minimal.yaml").engine.prefill.policy == "auto"


def test_off_and_on_are_words() -> None:
    experiment = valid("words.yaml")
    assert experiment.engine.prefill.policy == "off"
    assert experiment.name == "off"
    assert experiment.description == "no"
    assert experiment.tags == {"on": "yes", "y": "n", "day": "2026-01-31", "time": "12:30:45", "null_word": "Nil"}


def test_a_dataset_has_the_experiments_sampling_with_its_own_ends() -> None:
    sums, facts = valid("full.yaml").datasets
    assert (sums.name, facts.name) == ("sums", "facts")
    assert (sums.sampling.temperature, sums.sampling.seed) == (0.7, 7)
    assert sums.sampling.max_tokens == 12  # the experiment's use of it
    assert sums.sampling.stop == ["Question:"]
    assert facts.sampling.max_tokens == 40  # the dataset's own
    assert facts.sampling.stop == ["\n\n"]
    assert sums.config.limit == 1
    assert valid("minimal.yaml").datasets[0].sampling.max_tokens == 256


def test_paths_in_a_dataset_start_from_its_file() -> None:
    facts = valid("full.yaml").datasets[1]
    assert facts.config.source.path == str(VALID / "parts/facts.csv")
    assert facts.config.few_shot.source is not None
    assert facts.config.few_shot.source.path == str(VALID / "parts/shots.csv")
    assert facts.config.guide is not None
    assert facts.config.guide.schema_ == str(VALID / "parts/fact.json")
    assert facts.path == str(VALID / "parts/facts.yaml")


def test_a_schema_may_lie_in_the_folder_above_the_datasets(project: Path) -> None:
    put("configs/grammars/fact.json", "{}")
    put("configs/datasets/d.yaml", DATASET + "guide: {kind: json_schema, schema: grammars/fact.json}\n")
    put("a.yaml", BASE + "datasets: [d]\n")
    guide = load_experiment("a.yaml").datasets[0].config.guide
    assert guide is not None
    assert guide.schema_ == str(project / "configs/grammars/fact.json")


@pytest.mark.parametrize(
    ("own", "use", "given", "expected"),
    [(9, None, None, 9), (9, 5, None, 5), (5, 9, 7, 7), (None, None, 4, 4), (2, None, 4, 2)],
)
def test_the_least_limit_counts(
    project: Path, own: int | None, use: int | None, given: int | None, expected: int
) -> None:
    put("d.yaml", DATASET + f"limit: {'null' if own is None else own}\n")
    put("a.yaml", BASE + f"datasets: [{{use: d.yaml, limit: {'null' if use is None else use}}}]\n")
    assert load_experiment("a.yaml", limit=given).datasets[0].config.limit == expected


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^--limit: must be at least 1, not 0$"):
        load_experiment(VALID / "minimal.yaml", limit=0)


def test_faults_of_all_files_come_together_and_in_order(project: Path) -> None:
    put("d.yaml", DATASET.replace("target", "tarqet"))
    put("e.yaml", "extends: vllm\nmax_num_seqs: -1\n")
    put("m.yaml", "source: {kind: gguf}\n")
    put("a.yaml", "name: a\nmodel: m.yaml\nengine: e.yaml\ndatasets: [d.yaml]\nmax_faild: 1\n")
    assert refusal("a.yaml").splitlines() == [
        "a.yaml:5: max_faild: is not a known key (did you mean `max_failed`?)",
        "m.yaml:1: source.file: is missing",
        "e.yaml:2: max_num_seqs: must be at least 1, not `-1`",
        "d.yaml:3: tarqet: is not a known key (did you mean `target`?)",
    ]


@pytest.mark.parametrize("name", ["x\\0", "x\\n", "\\ud800"])
def test_what_can_be_no_path_is_refused(project: Path, name: str) -> None:
    put("a.yaml", f'name: a\nmodel: "./{name}"\ndatasets: ["{name}/d.yaml"]\n')
    message = refusal("a.yaml")
    assert "a.yaml:2: model: must be a path" in message
    assert "a.yaml:3: datasets[0]: must be a path" in message


def test_a_path_too_long_for_any_file_is_not_found(project: Path) -> None:
    put("a.yaml", BASE + f"datasets: [{'x' * 5000}/d.yaml]\n")
    assert "a.yaml:3: datasets[0]: there is no file" in refusal("a.yaml")


def test_what_a_message_repeats_commands_no_terminal(project: Path) -> None:
    put("d.yaml", DATASET.replace("exact_match", '"\\e[31mred"'))
    put("a.yaml", BASE + 'datasets: [d.yaml]\n"\\e[2J": 1\nname2: 1\n')
    message = refusal("a.yaml")
    assert "there is no metric `\\x1b[31mred`" in message
    assert "\x1b" not in message


def test_a_dataset_file_whose_name_could_not_be_a_folder_is_refused(project: Path) -> None:
    put("..d.yaml", DATASET)
    put("a.yaml", BASE + "datasets: [..d.yaml]\n")
    assert "the dataset's file must have a name of letters" in refusal("a.yaml")


def test_names_are_listed_with_their_descriptions(project: Path) -> None:
    put("configs/models/mine.yaml", "description: My own\nsource: {kind: hf, id: a/b}\n")
    put("configs/models/broken.yaml", "description: [\n")
    listed = {each.name: each for each in list_names("model")}
    assert listed["mine"].description == "My own"
    assert listed["mine"].path == Path("configs/models/mine.yaml")
    assert "smollm2-135m-instruct" in listed
    assert str(listed["broken"].description).startswith("cannot be read: configs/models/broken.yaml:")
    assert Path("configs/models/mine.yaml") in known_config_files("model")


def test_a_projects_file_is_listed_instead_of_the_packaged_one(project: Path) -> None:
    put("configs/engines/vllm.yaml", "description: tuned\n")
    assert [each.description for each in list_names("engine") if each.name == "vllm"] == ["tuned"]


def test_reading_configs_loads_nothing_heavy() -> None:
    heavy = ["torch", "vllm", "transformers", "numpy", "pyarrow", "duckdb", "mlflow", "prefect", "matplotlib", "scipy"]
    code = f"import sys, tasks.config.resolve; print([name for name in {heavy} if name in sys.modules])"
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"
