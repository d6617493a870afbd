"""What the plan rests on beside the profile, the model's facts and the device: other files that the engine reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.adapter import AdapterFacts
from schemas.engine import VllmEngine
from schemas.experiment import NamedModel
from schemas.plan import ModelFacts
from tasks.model.adapter import read_adapter
from tasks.model.facts import read_model_facts
from tasks.model.folder import read_json
from tasks.model.resolve import model_folder


@dataclass(frozen=True, kw_only=True)
class OnDisk:
    """adapters: in the engine's order. draft: the model that speculates. compile_cache: the folder for what is
    compiled; None: vLLM's own. config: the model's config.json; empty where it was not looked at."""

    adapters: tuple[AdapterFacts, ...] = ()
    draft: ModelFacts | None = None
    compile_cache: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


def compile_cache(engine: VllmEngine, *, cache: Path) -> str:
    """The folder for what torch.compile makes. cache: assay's own."""
    return str(cache / "vllm") if engine.compile_cache == "auto" else engine.compile_cache


def read_on_disk(engine: VllmEngine, *, model: ModelFacts, cache: Path) -> OnDisk:
    """Reads them; nothing is loaded. cache: assay's own folder, for the digests of large files and converted models.

    Raises ConfigError for an adapter that does not fit the model, and what `model_folder` raises for the model that
    speculates."""
    folder = Path(model.path)
    draft = None
    if engine.speculative.model is not None:
        named = NamedModel.model_validate(engine.speculative.model)
        draft = read_model_facts(model_folder(named, cache=cache), cache=cache)
    return OnDisk(
        adapters=tuple(
            read_adapter(
                adapter.name, Path(adapter.path), model=folder, cache=cache, key=f"engine.adapters[{index}].path"
            )
            for index, adapter in enumerate(engine.adapters)
        ),
        draft=draft,
        compile_cache=compile_cache(engine, cache=cache),
        config=read_json(folder / "config.json"),
    )
