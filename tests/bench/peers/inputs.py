"""The same two tasks, written for assay and for lm-evaluation-harness: GSM8K by generating, `choice` by
log-likelihoods. Both read the same local files, and their templates say the same prompts."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
CHOICE_ROWS = ROOT / "configs" / "datasets" / "data" / "choice.jsonl"
SHOTS = 5
MAX_TOKENS = 192
GSM8K, CHOICE = "peer_gsm8k", "peer_choice"

_OPTIONS = "{% for option in options %}- {{ option }}\n{% endfor %}"
_GSM8K_PROMPT = "Question: {{ question }}\nAnswer:"
_CHOICE_PROMPT = "{{ question }}\n" + _OPTIONS + "Answer:"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """gsm8k: the folder with train.jsonl and test.jsonl, None where it is not there."""

    model: Path
    gsm8k: Path | None
    samples: int

    @property
    def tasks(self) -> list[str]:
        return [GSM8K, CHOICE] if self.gsm8k is not None else [CHOICE]


def write_for_assay(folder: Path, inputs: Inputs) -> Path:
    """The experiment's file, with its datasets beside it."""
    if inputs.gsm8k is not None:
        dataset = {
            "source": {"kind": "jsonl", "path": str(inputs.gsm8k / "test.jsonl")},
            "prompt": {"text": _GSM8K_PROMPT},
            "target": "{{ answer }}",
            "few_shot": {
                "n": SHOTS,
                "pick": "first",
                "source": {"kind": "jsonl", "path": str(inputs.gsm8k / "train.jsonl")},
            },
            "stop": ["Question:"],
            "max_tokens": MAX_TOKENS,
            "metrics": ["gsm8k_strict", "gsm8k_flexible"],
        }
        _write(folder / f"{GSM8K}.yaml", dataset)
    dataset = {
        "source": {"kind": "jsonl", "path": str(CHOICE_ROWS)},
        "id_field": "id",
        "prompt": {"text": _CHOICE_PROMPT},
        "target": "{{ answer }}",
        "choices": "{{ options }}",
        "metrics": [{"use": name, "options": {"target": "index"}} for name in ("acc", "acc_norm")],
    }
    _write(folder / f"{CHOICE}.yaml", dataset)
    experiment = {
        "name": "peer",
        "model": {"source": {"kind": "path", "path": str(inputs.model)}, "dtype": "float32"},
        "datasets": [{"use": f"./{task}.yaml", "limit": inputs.samples} for task in inputs.tasks],
        "sampling": {"temperature": 0},
    }
    return _write(folder / "experiment.yaml", experiment)


def write_for_lm_eval(folder: Path, inputs: Inputs) -> None:
    """Its task files. GSM8K's filters and rules are those of the task that it ships."""
    if inputs.gsm8k is not None:
        files = {"train": str(inputs.gsm8k / "train.jsonl"), "test": str(inputs.gsm8k / "test.jsonl")}
        _write(
            folder / f"{GSM8K}.yaml",
            {
                "task": GSM8K,
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": files},
                "output_type": "generate_until",
                "fewshot_split": "train",
                "test_split": "test",
                "doc_to_text": _GSM8K_PROMPT,
                "doc_to_target": "{{answer}}",
                "num_fewshot": SHOTS,
                "fewshot_config": {"sampler": "first_n"},
                "generation_kwargs": {
                    "until": ["Question:"],
                    "do_sample": False,
                    "temperature": 0.0,
                    "max_gen_toks": MAX_TOKENS,
                },
                "metric_list": [
                    {
                        "metric": "exact_match",
                        "aggregation": "mean",
                        "higher_is_better": True,
                        "ignore_case": True,
                        "ignore_punctuation": False,
                        "regexes_to_ignore": [",", "\\$", "(?s).*#### ", "\\.$"],
                    }
                ],
                "filter_list": [
                    _filter("strict-match", regex_pattern="#### (\\-?[0-9\\.\\,]+)"),
                    _filter("flexible-extract", group_select=-1, regex_pattern="(-?[$0-9.,]{2,})|(-?[0-9]+)"),
                ],
            },
        )
    _write(
        folder / f"{CHOICE}.yaml",
        {
            "task": CHOICE,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(CHOICE_ROWS)}},
            "output_type": "multiple_choice",
            "test_split": "test",
            "doc_to_text": _CHOICE_PROMPT,
            "doc_to_choice": "{{options}}",
            "doc_to_target": "{{answer}}",
            "num_fewshot": 0,
            "metric_list": [
                {"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")
            ],
        },
    )


def _filter(name: str, **regex: Any) -> dict[str, Any]:
    return {"name": name, "filter": [{"function": "regex", **regex}, {"function": "take_first"}]}


def _write(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False, allow_unicode=True))
    return path
