"""How fast prompts are tokenized and profiled, beside the bare `tokenizers` package in the same run.

    python -m tests.bench.tokenize [--prompts 20000] [--gsm8k DIR]

20,000 prompts: GSM8K's questions (where they are not there, the texts of `extract`), again and again with other
numbers, in the model's chat template. assay does what a run does: valid Unicode, token ids under the BOS policy as
lists, and the profile. The control encodes the same texts by `encode_batch_fast` and takes their lengths only; in one
call and in batches. Both go twice in every pass, interleaved, and the quicker of the two counts; on the same threads,
and with Python's search for garbage as seldom as in any process of assay. Bound: at least 0.9 of the control's rate."""

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from flows import garbage
from schemas.sample import Sample
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.tokenizer import Tokenizer
from tasks.model.resolve import model_folder
from tasks.profile import profile_samples
from tests.conftest import ROOT, SMALL_MODEL
from tests.stores import SHARED_CACHE

PROMPTS = 20_000
BATCH = 1024
PAIRS = 9
BOUND = 0.9
_NUMBER = re.compile(r"\d+")


def texts(gsm8k: Path) -> tuple[str, list[str]]:
    """What is asked, and where it is from."""
    shipped = ROOT / "configs" / "datasets" / "data" / "extract.jsonl"
    file, field = (gsm8k, "question") if gsm8k.is_file() else (shipped, "text")
    with file.open(encoding="utf-8") as lines:
        return file.name, [json.loads(line)[field] for line in lines]


def prompts(asked: list[str], *, chat: ChatTemplate, many: int) -> list[str]:
    """The rendered prompts; each pass over the questions adds one to every number in them."""
    made = []
    for index in range(many):
        more = index // len(asked)
        text = _NUMBER.sub(lambda found, more=more: str(int(found.group()) + more), asked[index % len(asked)])
        made.append(chat.render([{"role": "user", "content": f"Question: {text}\nAnswer:"}]))
    return made


def samples(texts_: list[str], token_ids: list[list[int]]) -> list[Sample]:
    return [
        Sample(
            dataset="d",
            sample_id=str(index),
            row_index=index,
            raw=b"{}",
            input={},
            prompt=text,
            prompt_hash="h",
            prompt_token_ids=ids,
        )
        for index, (text, ids) in enumerate(zip(texts_, token_ids, strict=True))
    ]


def seconds(work: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    tokens = work()
    return time.perf_counter() - began, tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--gsm8k", type=Path, default=ROOT.parent / "shared" / "data" / "gsm8k")
    given = parser.parse_args()
    folder = model_folder(SMALL_MODEL, cache=SHARED_CACHE)
    tokenizer, chat = Tokenizer.from_folder(folder), ChatTemplate.from_folder(folder, choice="model")
    if chat is None:
        raise SystemExit("the model has no chat template")
    name, asked = texts(given.gsm8k / "test.jsonl")
    rendered = prompts(asked, chat=chat, many=given.prompts)
    # Samples are there before: making them is no part of tokenizing, and a run keeps them anyway.
    made = samples(rendered, tokenizer.encode_batch(rendered, add_special_tokens=False))

    def encode() -> int:
        return sum(map(len, tokenizer.encode_batch(rendered, add_special_tokens=False)))

    def profile() -> int:
        found = profile_samples(
            dataset="d", arm="free", samples=made, max_len=8192, tokenizer_fingerprint="f", tokenize_s=0.0
        )
        return found.tokens_total

    def bare(size: int) -> int:
        return sum(
            len(encoding)
            for start in range(0, len(rendered), size)
            for encoding in tokenizer.inner.encode_batch_fast(rendered[start : start + size], add_special_tokens=False)
        )

    garbage.seldom()
    encode()
    ratios = []
    print(f"{len(rendered):,} prompts of {name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for _ in range(PAIRS):
        encoded, controls, profiled = [], [], []
        for size in (len(rendered), BATCH):
            encoded.append(seconds(encode))
            controls.append(seconds(lambda size=size: bare(size)))
            profiled.append(seconds(profile))
        if len(counts := {tokens for _, tokens in encoded + controls + profiled}) > 1:
            raise SystemExit(f"the same prompts are {', '.join(f'{each:,}' for each in sorted(counts))} tokens")
        ((encode_s, tokens), (bare_s, _), (profile_s, _)) = map(min, (encoded, controls, profiled))
        ratios.append(bare_s / (encode_s + profile_s))
        print(
            f"  assay {encode_s:5.2f} s and {profile_s:5.2f} s of profile   bare {bare_s:5.2f} s   {ratios[-1]:5.2f}"
            f"   {tokens / (encode_s + profile_s):>12,.0f} against {tokens / bare_s:>12,.0f} tokens/s",
            flush=True,
        )
    ratio = statistics.median(ratios)
    print(f"rate of tokenizing with the profile, of the bare one: {ratio:.3f} (wanted: at least {BOUND})")
    if ratio < BOUND:
        sys.exit("out of bounds")


if __name__ == "__main__":
    main()
