"""How fast stored outputs are scored, against its bound and against bare loops in the same run: `make bench`.

100,000 made-up outputs (a line of reasoning that ends in a number, a short free text, an object with six leaves) go
through tasks.score.stage.score_dataset, as the scoring step does it, each on one core. The control does the least that
could give the number, with the standard library alone: no reasons, no extracted text, no rule for what is broken.
"""

import argparse
import json
import os
import re
import string
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas.dataset import Dataset, MetricUse, NamedDataset
from schemas.engine import Sampling
from schemas.metric import Score
from schemas.prompt import Prompt
from schemas.sample import Response, Sample
from schemas.source import JsonlSource
from tasks.score.stage import score_dataset

OUTPUTS = 100_000
SECONDS = 10
"""The bound for exact_match, token_f1 and json_fields together."""
REPEATS = 3
TEXT = (
    "the a river stone of seven bridges crosses Old Town in winter and an engineer counted 18 boats, twice; "
    "then she paid $29.00 for it (so she said) because every lamp was lit at Noon."
)
WORDS = TEXT.split()
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def reasoning(number: int) -> tuple[str, Any]:
    """About 60 words with a few numbers, the last one being the answer; every fourth is wrong."""
    words = [WORDS[(number * 7 + step * 5) % len(WORDS)] for step in range(56)]
    target = number % 1_000
    said = target + (number % 4 == 0)
    return f"{' '.join(words)}\nSo {number % 13} + 5 = {said:,}. The answer is {said}.", target


def phrase(number: int) -> tuple[str, Any]:
    """A few words, and two targets that share some of them."""
    words = [WORDS[(number + step * 3) % len(WORDS)] for step in range(3 + number % 12)]
    return " ".join(words), [" ".join(words[1:]), " ".join(reversed(words))]


def short_text(number: int) -> tuple[str, Any]:
    """A short answer as text; every third is wrong."""
    answer = f"the {WORDS[number % len(WORDS)]} {number % 977}"
    return f"{answer.title()}.", answer if number % 3 else "another"


def record(number: int) -> tuple[str, Any]:
    """An object with six leaves, one of them wrong in every second; every fifth stands in a fence."""
    target = {
        "name": WORDS[number % len(WORDS)],
        "count": number % 977,
        "price": number % 100 / 4,
        "paid": number % 2 == 0,
        "place": {"town": "Old Town", "lamps": [number % 7, 2]},
    }
    answer = target | {"count": number % 977 + number % 2}
    text = json.dumps(answer, indent=2 if number % 3 == 0 else None)
    return (f"Here it is:\n```json\n{text}\n```\n" if number % 5 == 0 else text), target


def _squad(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def bare_number(output: str, target: Any) -> float:
    found = _NUMBER.findall(output)
    return float(bool(found) and float(found[-1].replace(",", "")) == float(target))


def bare_text(output: str, target: Any) -> float:
    return float(_squad(output) == _squad(target))


def bare_f1(output: str, target: Any) -> float:
    answer = Counter(_squad(output).split())
    best = 0.0
    for text in target:
        wanted = Counter(_squad(text).split())
        best = max(best, 2 * (answer & wanted).total() / (answer.total() + wanted.total()))
    return best


def bare_fields(output: str, target: Any) -> float:
    fence = re.search(r"```json\n(.*?)```", output, re.DOTALL)
    answer = dict(_leaves(json.loads(fence.group(1) if fence else output)))
    wanted = dict(_leaves(target))
    return sum(path in answer and answer[path] == leaf for path, leaf in wanted.items()) / len(wanted)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for index, item in enumerate(value) for leaf in _leaves(item, (*path, index))]
    return [(path, value)]


CASES: dict[str, tuple[MetricUse, Callable[[int], tuple[str, Any]], Callable[[str, Any], float]]] = {
    "exact_match (number)": (MetricUse(use="exact_match", options={"compare": "number"}), reasoning, bare_number),
    "exact_match (text)": (MetricUse(use="exact_match"), short_text, bare_text),
    "token_f1": (MetricUse(use="token_f1"), phrase, bare_f1),
    "json_fields": (MetricUse(use="json_fields"), record, bare_fields),
}
BOUNDED = ("exact_match (number)", "token_f1", "json_fields")


def made_up(make: Callable[[int], tuple[str, Any]], *, outputs: int) -> tuple[list[Sample], list[Response]]:
    samples, responses = [], []
    for number in range(outputs):
        output, target = make(number)
        name = f"s{number}"
        samples.append(
            Sample(
                dataset="d",
                sample_id=name,
                row_index=number,
                raw=b"{}",
                input={},
                prompt="p",
                prompt_hash="h",
                prompt_token_ids=[],
                target=target,
            )
        )
        responses.append(
            Response(
                request_id=name, dataset="d", sample_id=name, arm="free", kind="generate", status="ok", output=output
            )
        )
    return samples, responses


def _best(work: Callable[[], list[Any]]) -> tuple[float, float, list[Any]]:
    """The least wall time and the least CPU time of several; other programs only ever make them more."""
    taken, spent, result = [], [], []
    for _ in range(REPEATS):
        began, cpu = time.perf_counter(), time.process_time()
        result = work()
        taken.append(time.perf_counter() - began)
        spent.append(time.process_time() - cpu)
    return min(taken), min(spent), result


def measure(name: str, *, outputs: int) -> tuple[float, float, float]:
    """Seconds for all outputs, seconds of CPU, and those over the control's, which must agree on every value."""
    use, make, bare = CASES[name]
    samples, responses = made_up(make, outputs=outputs)
    config = Dataset(source=JsonlSource(kind="jsonl", path="x"), prompt=Prompt(text="x"), metrics=[use])
    dataset = NamedDataset(name="d", config=config, sampling=Sampling())

    def ours() -> list[Score]:
        return score_dataset(dataset=dataset, samples=samples, responses=responses, arms=["free"])

    def control() -> list[float]:
        return [bare(str(one.output), sample.target) for one, sample in zip(responses, samples, strict=True)]

    seconds, cpu, scores = _best(ours)
    _, bare_cpu, values = _best(control)
    wrong = [score for score, value in zip(scores, values, strict=True) if score.value != value]
    if wrong:
        raise SystemExit(f"{name}: {len(wrong)} values differ from the control's, as in {wrong[0]}")
    return seconds, cpu, cpu / bare_cpu


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=int, default=OUTPUTS, help="made-up outputs for each metric")
    outputs = parser.parse_args().outputs
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{_cpu()}, one core of {os.cpu_count()}, {load}; {outputs:,} outputs, best of {REPEATS}")
    together = cpu_together = 0.0
    for name in CASES:
        seconds, cpu, ratio = measure(name, outputs=outputs)
        if name in BOUNDED:
            together, cpu_together = together + seconds, cpu_together + cpu
        rate = f"{outputs / seconds:>10,.0f} outputs/s"
        print(f"{name:<24}{rate}  {seconds:6.2f} s  {cpu:6.2f} s of CPU  {ratio:5.2f}x of a bare loop", flush=True)
    bound = SECONDS * outputs / OUTPUTS
    verdict = "pass" if together <= bound else "FAIL"
    print(f"{' + '.join(BOUNDED)}: {together:.2f} s  <= {bound:g} s  {verdict}  ({cpu_together:.2f} s of CPU)")
    if together > bound:
        sys.exit("out of bounds")


if __name__ == "__main__":
    main()
