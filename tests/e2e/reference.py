"""The bare libraries, in a process of their own: what assay's answers are held against.

python -m tests.e2e.reference MODEL INPUT.json OUTPUT.json

The input has what is given to each by the names `transformers` and `vllm`, the output what each gave.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def bare_vllm(model: str, given: dict[str, Any]) -> list[str]:
    """Texts of `LLM.generate` on the given token ids: greedy, float32, all at once."""
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    llm = LLM(
        model=model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=given["max_model_len"],
        kv_cache_memory_bytes=512 << 20,
    )
    prompts = [TokensPrompt(prompt_token_ids=ids) for ids in given["prompts"]]
    parameters = SamplingParams(temperature=0.0, max_tokens=given["max_tokens"])
    return [output.outputs[0].text for output in llm.generate(prompts, parameters, use_tqdm=False)]


def plain_transformers(model: str, given: dict[str, Any]) -> list[float]:
    """The summed log-likelihood of each continuation, by a plain forward pass in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    sums = []
    with torch.no_grad():
        for ids, start in zip(given["prompts"], given["starts"], strict=True):
            logprobs = network(torch.tensor([ids])).logits[0, start - 1 :].log_softmax(-1)
            sums.append(sum(float(row[token]) for row, token in zip(logprobs, ids[start:], strict=False)))
    return sums


if __name__ == "__main__":
    os.environ.update(
        VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR"
    )
    folder, source, target = sys.argv[1:]
    content = json.loads(Path(source).read_text())
    # The forward pass first, while nothing of vLLM is in the process.
    found = {"transformers": plain_transformers(folder, content["transformers"])}
    found["vllm"] = bare_vllm(folder, content["vllm"])
    Path(target).write_text(json.dumps(found))
