"""How much memory a large dataset takes: what is used of it, and not what it holds."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from dataset_helpers import jsonl, named
from tokenizers import models, pre_tokenizers

from schemas.errors import ConfigError
from tasks.dataset.load import load_rows, survey_rows, used_rows
from tasks.dataset.prepare import prepare_samples
from tasks.dataset.profiled import profile_dataset
from tasks.dataset.tokenizer import Tokenizer
from tasks.profile import profile_samples

WORDS = [f"w{number:03}" for number in range(500)]

CHILD = """
import json, sys
from pathlib import Path
from dataset_helpers import named
from tasks.dataset.load import load_rows, survey_rows
from tasks.dataset.profiled import profile_dataset
from tasks.dataset.tokenizer import Tokenizer
from tasks.plan.engine import plan_engine
import tasks.dataset.stage, numpy

def memory(name):
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith(name))

path, what = Path(sys.argv[1]), sys.argv[2]
tokenizer = Tokenizer.from_folder(path.parent)
Path("/proc/self/clear_refs").write_text("5")
idle = memory("VmRSS")
config = json.loads(sys.argv[3])
dataset = named(path, target="{{ a }}", **config)
if what == "profile":
    found = profile_dataset(
        dataset, tokenizer=tokenizer, chat=None, max_len=4096, needs=["generate"], arms=["free"]
    )
    counted = [found.profile.n, found.profile.tokens_total, found.profile.duplicates, len(found.load.prompt_tokens)]
elif what == "survey":
    counted = [survey_rows(dataset).rows_total]
else:
    loaded = load_rows(dataset)
    counted = [len(loaded.rows), loaded.rows_total]
print(json.dumps({"counted": counted, "above_idle_mb": memory("VmHWM") - idle}))
"""


def word_model(folder: Path) -> Path:
    """One token a word, so that tokens are quick to make."""
    inner = tokenizers.Tokenizer(models.WordLevel({word: n for n, word in enumerate([*WORDS, "?"])}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir(parents=True, exist_ok=True)
    inner.save(str(folder / "tokenizer.json"))
    return folder


def big_file(path: Path, rows: int, *, words: int = 400) -> Path:
    """Rows of about 5 bytes a word, every one different."""
    pieces = [" ".join(random.Random(n).choices(WORDS, k=words - 3)) for n in range(97)]
    with path.open("w") as stream:
        for n in range(rows):
            text = f"{WORDS[n % 500]} {WORDS[n // 500 % 500]} {WORDS[n // 250_000]} {pieces[n % 97]}"
            stream.write(f'{{"id":"row-{n}","a":"{n % 7}","q":"{text}"}}\n')
    return path


def measured(path: Path, what: str, **config: Any) -> tuple[list[int], float]:
    helpers = str(Path(__file__).parent)
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), what, json.dumps(config)],
        env={"PYTHONPATH": f"{helpers}:{root}", "PATH": "/usr/bin:/bin", "TOKENIZERS_PARALLELISM": "true"},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    return told["counted"], told["above_idle_mb"]


CASES: list[tuple[str, dict[str, Any], Callable[[int], list[int]]]] = [
    ("profile", {"id_field": "id"}, lambda n: [n, n * 400, 0, n]),
    ("survey", {}, lambda n: [n]),
    ("load", {"sample": {"n": 1000, "seed": 3}}, lambda n: [1000, n]),
    ("load", {"limit": 1000, "few_shot": {"n": 5}, "id_field": "id"}, lambda n: [1000, n]),
]


@pytest.mark.parametrize(("what", "config", "expected"), CASES, ids=["profile", "survey", "sample", "first"])
def test_rows_are_let_go(
    tmp_path_factory: pytest.TempPathFactory,
    what: str,
    config: dict[str, Any],
    expected: Callable[[int], list[int]],
) -> None:
    folder = word_model(tmp_path_factory.getbasetemp() / "streaming")
    path = folder / "rows.jsonl"
    if not path.exists():
        big_file(path, 12_000)  # 24 MB, which would be more than 100 as samples
    counted, above_idle = measured(path, what, **config)
    assert counted == expected(12_000)
    assert above_idle < 60


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_rows_take_half_a_gigabyte(tmp_path: Path) -> None:
    path = big_file(word_model(tmp_path) / "rows.jsonl", 1_000_000)
    try:
        assert path.stat().st_size > 2_000_000_000
        for what, config, expected in CASES:
            counted, above_idle = measured(path, what, **config)
            print(f"{what} {config}: {above_idle:.0f} MB above the idle process")
            assert counted == expected(1_000_000)
            assert above_idle < 500
    finally:
        path.unlink()


def test_a_stream_gives_what_a_whole_load_gives(tmp_path: Path) -> None:
    path = big_file(word_model(tmp_path) / "rows.jsonl", 1300, words=20)
    tokenizer = Tokenizer.from_folder(tmp_path)
    for config in (
        {"id_field": "id"},
        {"limit": 700},
        {"sample": {"n": 600}, "id_field": "id"},
        {"few_shot": {"n": 2, "pick": "random"}, "limit": 50},
    ):
        dataset = named(path, target="{{ a }}", **config)
        loaded = load_rows(dataset)
        surveyed = survey_rows(dataset)
        assert surveyed.rows == []
        assert list(used_rows(dataset)) == loaded.rows
        assert (surveyed.fingerprint, surveyed.columns, surveyed.rows_total, surveyed.shot_pool) == (
            loaded.fingerprint,
            loaded.columns,
            loaded.rows_total,
            loaded.shot_pool,
        )
        samples = prepare_samples(dataset=dataset, loaded=loaded, tokenizer=tokenizer, chat=None, max_len=100).samples
        given = {"tokenizer": tokenizer, "chat": None, "max_len": 100, "needs": ["generate"], "arms": ["free"]}
        streamed = profile_dataset(dataset, **given).profile
        whole = profile_samples(
            dataset="toy",
            arm="free",
            samples=samples,
            max_len=100,
            tokenizer_fingerprint=tokenizer.fingerprint,
            tokenize_s=streamed.tokenize_s,
        )
        assert streamed == whole


def test_prompts_that_do_not_fit_are_counted_by_a_profile(tmp_path: Path) -> None:
    path = big_file(word_model(tmp_path) / "rows.jsonl", 30, words=20)
    tokenizer = Tokenizer.from_folder(tmp_path)
    given: dict[str, Any] = {"tokenizer": tokenizer, "chat": None, "needs": ["generate"], "arms": ["free"]}
    found = profile_dataset(named(path), max_len=23, **given)
    assert (found.profile.n, found.profile.over_limit, found.changed) == (30, 30, 0)
    assert profile_dataset(named(path), max_len=24, **given).profile.over_limit == 0
    cut = profile_dataset(named(path, on_overflow="cut_middle"), max_len=14, **given)
    assert (cut.profile.tokens_max, cut.profile.cut_tokens, cut.changed) == (10, 300, 30)
    assert cut.warnings == ["toy: 300 tokens cut from the middle of 30 prompts"]
    with pytest.raises(ConfigError, match="all rows are skipped"):
        profile_dataset(named(path, on_overflow="skip"), max_len=14, **given)


# a random part


def drawn(path: Path, n: int, *, seed: int = 0, **config: Any) -> list[str]:
    return [row.sample_id for row in load_rows(named(path, sample={"n": n, "seed": seed}, **config)).rows]


def test_a_sample_depends_on_seed_and_row_alone(tmp_path: Path) -> None:
    rows = [{"id": n, "q": str(n)} for n in range(300)]
    path = jsonl(tmp_path / "a.jsonl", rows)
    first = drawn(path, 20, id_field="id")
    assert len(first) == len(set(first)) == 20
    assert first == sorted(first, key=lambda each: int(each.split(":")[1]))  # in the order of the source
    assert first == drawn(path, 20, id_field="id")
    assert first != drawn(path, 20, id_field="id", seed=1)
    # held, so that another process or another day draws the same
    assert first[:4] == ["toy:0", "toy:26", "toy:42", "toy:60"]
    # a larger sample holds the smaller one; a limit makes it smaller; rows in another order are the same rows
    assert set(first) < set(drawn(path, 50, id_field="id"))
    assert set(drawn(path, 20, id_field="id", limit=5)) < set(first)
    shuffled = jsonl(tmp_path / "b.jsonl", random.Random(1).sample(rows, 300))
    assert set(drawn(shuffled, 20, id_field="id")) == set(first)
    # other rows have no say but by being drawn themselves
    fewer = jsonl(tmp_path / "c.jsonl", rows[:150])
    assert {each for each in first if int(each.split(":")[1]) < 150} <= set(drawn(fewer, 20, id_field="id"))
    assert len(drawn(path, 1000)) == 300


def test_a_sample_is_even(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"id": n} for n in range(1000)])
    times = dict.fromkeys(range(10), 0)
    for seed in range(30):
        for sample_id in drawn(path, 100, id_field="id", seed=seed):
            times[int(sample_id.split(":")[1]) // 100] += 1
    assert all(230 <= number <= 370 for number in times.values())  # 300 each, 4 standard deviations


# ids


def test_equal_ids_are_found_without_holding_any(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    ids = [*range(500), "7", *range(600, 700)]
    jsonl(path, [{"id": each, "q": "x"} for each in ids])
    for read in (load_rows, survey_rows):
        with pytest.raises(ConfigError, match=r"row 7 \(line 8\) and row 500 \(line 501\) have the same id: '7'"):
            read(named(path, id_field="id", limit=3))


def test_ids_whose_hashes_are_equal_are_not_taken_for_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"id": f"{n}", "q": "x"} for n in range(50)])
    numbers = count()
    monkeypatch.setattr("tasks.dataset.load.hash", lambda text: next(numbers) // 2, raising=False)
    assert len(load_rows(named(path, id_field="id")).rows) == 50
