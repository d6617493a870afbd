"""Small random LoRA adapters, and what a model with one of them answers, by merging its weights: no vLLM in it.

python -m tests.e2e.adapters MODEL INPUT.json OUTPUT.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

RANK, ALPHA = 4, 8
LAYERS = {"self_attn.q_proj": (576, 576), "self_attn.v_proj": (576, 192), "mlp.down_proj": (1536, 576)}
"""Inputs and outputs of the layers of SmolLM2-135M that are changed."""


def write_adapter(folder: Path, *, seed: int, rank: int = RANK) -> Path:
    """An adapter of SmolLM2-135M as PEFT saves it, strong enough to change what is written."""
    generator = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for layer in range(30):
        for name, (inputs, outputs) in LAYERS.items():
            base = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{base}.lora_A.weight"] = generator.normal(0, inputs**-0.5, (rank, inputs)).astype("float32")
            tensors[f"{base}.lora_B.weight"] = generator.normal(0, 0.08, (outputs, rank)).astype("float32")
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": ALPHA,
        "bias": "none",
        "target_modules": sorted(name.rpartition(".")[2] for name in LAYERS),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def merged_answers(model: str, given: dict[str, Any]) -> dict[str, list[list[int]]]:
    """Greedy token ids in float32 for each prompt, by adapter (`none`: the model itself)."""
    import torch
    from transformers import AutoModelForCausalLM

    found = {}
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    own = {name: layer.weight.data for name, layer in network.named_modules() if hasattr(layer, "weight")}
    for name, folder in {"none": None, **given["adapters"]}.items():
        tensors = {} if folder is None else load_file(Path(folder) / "adapter_model.safetensors")
        for module, layer in network.named_modules():
            key = f"base_model.model.{module}.lora_A.weight"
            if key in tensors:
                more = tensors[key.replace("lora_A", "lora_B")] @ tensors[key] * (ALPHA / RANK)
                layer.weight.data = own[module] + torch.from_numpy(more)
        found[name] = []
        for ids in given["prompts"]:
            out = network.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=given["max_tokens"])
            found[name].append(out[0][len(ids) :].tolist())
    return found


if __name__ == "__main__":
    content = json.loads(Path(sys.argv[2]).read_text())
    Path(sys.argv[3]).write_text(json.dumps(merged_answers(sys.argv[1], content)))
