"""A model: where its weights lie and how it is spoken to."""

from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Config

DType = Literal["auto", "bfloat16", "float16", "float32"]


class GgufSource(Config):
    """A GGUF file, from disk or out of an installed Python package; it is turned once into a Hugging Face folder."""

    kind: Literal["gguf"]
    """A GGUF file."""
    file: str
    """The file's path, or its name inside `package`."""
    package: str | None = None
    """The name of an installed distribution that carries the file."""


class HubSource(Config):
    """A model on the Hugging Face hub, or in its local cache."""

    kind: Literal["hf"]
    """A repository on the hub."""
    id: str
    """The repository, as `owner/name`."""
    revision: str = "main"
    """A branch, a tag or a commit; a commit is what cannot change."""


class PathSource(Config):
    """A Hugging Face model folder on disk: config.json, tokenizer.json and safetensors weights."""

    kind: Literal["path"]
    """A folder on disk."""
    path: str
    """The folder, from the YAML file's own folder."""


RealSource = Annotated[GgufSource | HubSource | PathSource, Field(discriminator="kind")]


class DummySource(Config):
    """A model of any shape without weights: the engine fills them with random numbers, the same ones each time. Its
    speed, memory and start are those of a real model of that shape; its answers mean nothing."""

    kind: Literal["dummy"]
    """A shape without weights."""
    config: dict[str, Any]
    """What the model's config.json would hold: `architectures`, `hidden_size`, `num_hidden_layers` and so on. Models
    that are built like Llama are taken: their size can be told from their shape."""
    tokenizer: RealSource
    """Another model, whose tokenizer and chat template are used. It may have fewer tokens than `config.vocab_size`."""


ModelSource = Annotated[GgufSource | HubSource | PathSource | DummySource, Field(discriminator="kind")]


class Model(Config):
    """configs/models/<name>.yaml"""

    source: ModelSource
    """Where the weights are."""
    dtype: DType = "auto"
    """The number format of the weights and of the computation; `auto` takes the one that the weights are stored in."""
    chat_template: str = "model"
    """`model` (its own), `none` (messages are refused, prompts go as they are), or the path of a Jinja file."""
    reasoning_parser: str | None = None
    """What tells the reasoning in an answer's text from the answer: `think_tags`, or the name of a plugin's parser.
    `none`, as without it: the whole text is the answer."""
    license: str | None = None
    """For the reader."""
    description: str | None = None
    """For the reader; `assay models` shows it."""
