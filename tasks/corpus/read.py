"""Reads a corpus: a file of schemas, each with instances whose verdict is known, or with none."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.corpus import Case, CorpusFields, CorpusFile, Instance
from schemas.errors import ConfigError, Problem
from tasks.config.disk import is_file
from tasks.config.json_faults import json_faults
from tasks.config.layers import Layer, Layers
from tasks.config.locate import Place, find_config, is_path, path_from, relative_to_here
from tasks.config.nearest import did_you_mean_or_list
from tasks.config.yaml_file import read_yaml

DATA = (".jsonl", ".json")
_NO_SPLIT = "all"
_BETWEEN = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A corpus as it is asked. fingerprint: sha256 of its file, in hex. of: how many schemas the file has."""

    name: str
    path: Path
    fingerprint: str
    description: str | None
    license: str | None
    cases: tuple[Case, ...]
    of: int

    @property
    def splits(self) -> list[str]:
        """In the order in which the file has them."""
        return list(dict.fromkeys(case.split for case in self.cases))


def read_corpus(reference: str, *, splits: Sequence[str] = (), limit: int | None = None, seed: int = 0) -> Corpus:
    """Reads a corpus: the path of its data (.jsonl, .json) or of its YAML file, or a name in configs/corpora.

    splits: only these; none: all. limit: at most so many schemas of each split, drawn by the seed. Raises ConfigError
    with the line for what is no schema's line, and for a split that is not there."""
    file, data, name = _found(reference)
    if not is_file(data):
        raise ConfigError.one("there is no such file", file=data, suggestion="assay grammars CORPUS.jsonl")
    raw = data.read_bytes()
    fingerprint = hashlib.sha256(raw).hexdigest()
    if file.revision not in (None, f"sha256:{fingerprint}"):
        raise ConfigError.one(
            f"is another file than the corpus names: its revision is sha256:{fingerprint}",
            file=data,
            suggestion="put back the file that it names, or name this one",
        )
    cases = _cases(raw, file=data, fields=file.fields)
    chosen = _chosen(cases, splits=splits, limit=limit, seed=seed)
    return Corpus(
        name=file.name or name,
        path=data,
        fingerprint=fingerprint,
        description=file.description,
        license=file.license,
        cases=tuple(chosen),
        of=len(cases),
    )


def _found(reference: str) -> tuple[CorpusFile, Path, str]:
    """The corpus's own file, or what a bare file of data stands for; the data; its name."""
    if Path(reference).suffix in DATA:
        path = relative_to_here(Path(reference))
        name = path.parent.name if path.stem in ("cases", "schemas") else path.stem
        return CorpusFile(path=str(path)), path, name
    if is_path(reference) or is_file(Path(reference)):
        path = relative_to_here(Path(reference))
    else:
        path = find_config("corpus", reference, base=Path(), beside=None, at=Place())
    yaml = read_yaml(path)
    layers, problems = Layers([Layer(yaml.data, yaml)]), list[Problem]()
    file = layers.validated(CorpusFile, yaml.data, problems)
    if file is None:
        raise ConfigError(problems)
    return file, relative_to_here(path_from(file.path, base=yaml.path.parent, at=layers.place(("path",)))), path.stem


def _cases(raw: bytes, *, file: Path, fields: CorpusFields) -> list[Case]:
    cases = []
    for line, row in _rows(raw, file=file):
        cases.append(_case(row, fields=fields, index=len(cases), file=file, line=line))
    if not cases:
        raise ConfigError.one("holds no schema", file=file)
    return cases


def _rows(raw: bytes, *, file: Path) -> Iterator[tuple[int | None, Any]]:
    """Each row with its line; None in a file that is one JSON list."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as wrong:
        line = raw[: wrong.start].count(b"\n") + 1
        raise ConfigError.one(f"is not UTF-8 (byte {wrong.start})", file=file, line=line) from wrong
    if file.suffix == ".json":
        with json_faults(file=file):
            whole = json.loads(text)
        if not isinstance(whole, list):
            raise ConfigError.one("is no list of schemas", file=file, suggestion="one JSON list, or a .jsonl file")
        yield from ((None, row) for row in whole)
        return
    for number, line_text in enumerate(text.split("\n"), 1):
        if line_text.strip():
            with json_faults(file=file, line=number, suggestion="one JSON object a line"):
                row = json.loads(line_text)
            yield number, row


def _case(row: Any, *, fields: CorpusFields, index: int, file: Path, line: int | None) -> Case:
    def wrong(message: str, suggestion: str | None = None) -> ConfigError:
        at = "" if line is not None else f"number {index + 1} "
        return ConfigError.one(f"{at}{message}", file=file, line=line, suggestion=suggestion)

    if not isinstance(row, dict) or fields.schema_ not in row:
        known = ", ".join(f"`{key}`" for key in row) if isinstance(row, dict) else "no keys"
        raise wrong(
            f"has no `{fields.schema_}` (it has {known})", "name the keys in a corpus's YAML file: fields: {schema: …}"
        )
    schema = row[fields.schema_]
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as broken:
            raise wrong(f"`{fields.schema_}` is a text that is no JSON: {broken}") from broken
    if not isinstance(schema, dict | bool):
        raise wrong(f"`{fields.schema_}` is no JSON Schema: it must be an object, true or false")
    name = str(row.get(fields.name, f"line {line}" if line is not None else f"number {index + 1}"))
    before, between, _ = name.partition(_BETWEEN)
    return Case(
        case_id=f"{index:05d}-{_hash(schema)[:8]}",
        split=str(row.get(fields.split, before if between else _NO_SPLIT)),
        name=name,
        content=schema,
        tests=tuple(_tests(row, fields=fields, wrong=wrong)),
    )


def _tests(row: dict[str, Any], *, fields: CorpusFields, wrong: Any) -> Iterator[Instance]:
    tests = row.get(fields.tests)
    if tests is None:
        return
    if not isinstance(tests, list):
        raise wrong(f"`{fields.tests}` is no list")
    for number, test in enumerate(tests, 1):
        fits = isinstance(test, dict) and fields.data in test and isinstance(test.get(fields.valid), bool)
        if not fits:
            raise wrong(
                f"test {number} is not of the form {{`{fields.data}`: …, `{fields.valid}`: true or false}}",
                "name the keys in a corpus's YAML file: fields: {data: …, valid: …}",
            )
        yield Instance(data=test[fields.data], valid=test[fields.valid])


def _chosen(cases: Sequence[Case], *, splits: Sequence[str], limit: int | None, seed: int) -> list[Case]:
    known = list(dict.fromkeys(case.split for case in cases))
    for split in splits:
        if split not in known:
            raise ConfigError.one(
                f"there is no split `{split}` in the corpus",
                key="--split",
                suggestion=did_you_mean_or_list(split, known),
            )
    asked = [case for case in cases if not splits or case.split in splits]
    if limit is None:
        return asked
    draw = random.Random(seed)  # noqa: S311 - no secret
    kept: set[str] = set()
    for split in known:
        own = [case.case_id for case in asked if case.split == split]
        kept.update(own if len(own) <= limit else draw.sample(own, limit))
    return [case for case in asked if case.case_id in kept]


def _hash(schema: Any) -> str:
    return hashlib.sha256(json.dumps(schema, separators=(",", ":")).encode()).hexdigest()
