"""A whole run on a server: vLLM's own, asked for quality and measured under load by two clients."""

from pathlib import Path

import pytest

from tests.e2e.command import Done, assay, rows
from tests.e2e.servers import NAME, vllm_server

pytestmark = pytest.mark.slow

KEY = "sk-of-a-whole-run-0123456789"
FILE = """\
name: served
model: smollm2-135m-instruct
engine: {{kind: endpoint, url: "{url}", model: {name}, api_key_env: THE_KEY}}
datasets: [{{use: extract, limit: 3, max_tokens: 24}}, {{use: choice, limit: 2}}]
arms: [free, guided]
sampling: {{temperature: 0, max_tokens: 24}}
max_failed: 1.0
benchmark:
  load: {{kind: closed, concurrency: 4, requests: 8}}
  warmup: 2
  repeats: 2
  clients: 2
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    home = tmp_path_factory.mktemp("served") / "home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    return home


@pytest.fixture(scope="module")
def done(home: Path, model_dir: Path) -> Done:
    with vllm_server(model=model_dir, log_path=home.parent / "server.log", key=KEY) as url:
        file = home.parent / "served.yaml"
        file.write_text(FILE.format(url=url, name=NAME), encoding="utf-8")
        return assay("run", str(file), "--json", home=home, THE_KEY=KEY, ASSAY_PREFECT_API_URL="", PREFECT_UI_URL="")


def test_it_ends_well(done: Done) -> None:
    assert done.code == 0, done.stderr
    assert (done.json["requests"], done.json["measured"]) == (3 * 2 + 2 * (2 + 4), 2 * 2 * 8)
    assert "vllm" in done.stderr and NAME in done.stderr


def test_the_answers_are_guided_validated_and_scored(done: Done, home: Path) -> None:
    found = rows(home, "SELECT status, valid FROM requests WHERE phase = 'quality' AND arm = 'guided' AND valid")
    assert found
    assert (
        rows(home, "SELECT count(*) AS n FROM requests WHERE kind = 'loglikelihood' AND logprob_sum < 0")[0]["n"] == 8
    )
    assert rows(home, "SELECT count(*) AS n FROM scores WHERE value IS NOT NULL")[0]["n"] > 0


def test_the_engine_is_told_for_what_it_is(done: Done, home: Path) -> None:
    [engine] = rows(home, "SELECT kind, engine_version, device, weights_bytes, dtype FROM engines")
    assert engine["kind"] == "endpoint"
    assert engine["engine_version"].startswith("0.")
    assert engine["device"].startswith("server 127.0.0.1")
    assert (engine["weights_bytes"], engine["dtype"]) == (None, None)


def test_load_is_measured_with_the_servers_own_steps(done: Done, home: Path) -> None:
    names = {row["name"] for row in rows(home, "SELECT DISTINCT name FROM metrics WHERE cell_id = 'free-closed-4'")}
    assert {"perf.ttft_ms.p50", "perf.tpot_ms.p50", "perf.engine.steps"} <= names
    assert not {name for name in names if "joules" in name or name.startswith("perf.engine_")}
    lengths = rows(home, "SELECT output_tokens, len(output_token_ids) AS ids FROM requests WHERE phase = 'measure'")
    assert all(row["output_tokens"] == row["ids"] > 0 for row in lengths)


def test_the_key_is_nowhere(done: Done, home: Path) -> None:
    assert KEY not in done.stdout + done.stderr
    for path in home.rglob("*"):
        if path.is_file() and not path.is_relative_to(home / "cache"):
            assert KEY.encode() not in path.read_bytes(), path
