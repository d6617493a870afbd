"""Says in plain words what pydantic found, once for each fault, at the key that the user wrote."""

import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tasks.config.nearest import did_you_mean, did_you_mean_or_list
from tasks.config.yaml_file import KeyPath, printable

RUNS_CODE = frozenset(
    {
        "custom_code",
        "custom_pipeline",
        "logits_processors",
        "trust_remote_code",
        "unsafe_code",
        "worker_cls",
        "worker_extension_cls",
    }
)
"""Keys of this and other tools that make a config run code."""

NAME_RULE = "a name of letters, digits, `.`, `_` and `-`, 64 at most, beginning with a letter or a digit"

IS_MISSING = "is missing"
IS_UNKNOWN = "is not a known key"

_WORD_BOOLEANS = {"on": "true", "yes": "true", "y": "true", "off": "false", "no": "false", "n": "false"}


@dataclass(frozen=True)
class Finding:
    """One fault: where in the data, what, and what to write instead."""

    keypath: KeyPath
    message: str
    suggestion: str | None = None


@dataclass(frozen=True)
class _Traced:
    """Where an error's location leads: the user's key path, and the type that is expected there."""

    keypath: KeyPath
    annotation: Any
    value: Any


def findings(error: ValidationError, *, model: type[BaseModel], data: Any) -> list[Finding]:
    """Every fault in `data`, which failed to validate as `model`, in the order of the model's keys."""
    found: dict[tuple[KeyPath, str], Finding] = {}
    for detail in error.errors(include_url=False):
        finding = _finding(detail, model, data)
        if finding is not None:
            found.setdefault((finding.keypath, finding.message), finding)
    if not found:  # a union whose branches pydantic names in a way not known here: its own words are better than none
        first = error.errors(include_url=False)[0]
        return [Finding(first["loc"], first["msg"])]
    meant = {(*each.keypath[:-1], key) for each in found.values() for key in [_meant_key(each)] if key is not None}
    return [each for each in found.values() if not (each.message == IS_MISSING and each.keypath in meant)]


def _meant_key(finding: Finding) -> str | None:
    """The key that a misspelt one stands for, which is then not reported as missing too."""
    if finding.message != IS_UNKNOWN or finding.suggestion is None or "did you mean" not in finding.suggestion:
        return None
    return finding.suggestion.split("`")[1]


def _finding(detail: ErrorDetails, model: type[BaseModel], data: Any) -> Finding | None:
    unknown = detail["type"] == "extra_forbidden"
    missing = detail["type"] == "missing"
    location = detail["loc"][:-1] if unknown or missing else detail["loc"]
    traced = _trace(model, data, location)
    if traced is None:
        return None
    if unknown:
        return _unknown_key(str(detail["loc"][-1]), traced)
    if missing:
        return Finding((*traced.keypath, detail["loc"][-1]), IS_MISSING)
    if detail["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_kind(traced)
    return Finding(traced.keypath, *_in_words(detail, traced))


def _trace(model: type[BaseModel], data: Any, location: Sequence[str | int]) -> _Traced | None:
    """Follows pydantic's location; None where it leads into a branch of a union that the user did not mean."""
    annotation: Any = model
    value = data
    path: list[str | int] = []
    parts = list(location)
    while True:
        annotation = _bare(annotation)
        members = _members(annotation)
        if members and _is_tagged(members):
            if not parts:
                break
            annotation = _tagged_member(members, str(parts.pop(0)))
        elif members:
            meant = [member for member in members if _fits(member, value)]
            if not meant:
                break  # no branch takes such a value: one finding for the whole union
            if not parts:
                break
            label = str(parts.pop(0))
            annotation = meant[0]
            if not _is_label_of(annotation, label):
                return None
        elif not parts:
            break
        elif _is_model(annotation):
            name = str(parts.pop(0))
            annotation = _field(annotation, name)
            if isinstance(value, dict):
                path.append(name)
                value = value.get(name)
        else:
            part = parts.pop(0)
            arguments = get_args(_core(annotation))
            annotation = arguments[-1] if arguments else Any
            path.append(part)
            value = _entry(value, part)
    return _Traced(tuple(path), annotation, value)


def _entry(value: Any, part: str | int) -> Any:
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return value.get(part) if isinstance(value, dict) else None


def _bare(annotation: Any) -> Any:
    """Without Annotated where it only carries a discriminator, and without `| None`."""
    while True:
        if get_origin(annotation) is Annotated and _members(get_args(annotation)[0]):
            annotation = get_args(annotation)[0]
        elif _is_union(annotation) and types.NoneType in get_args(annotation):
            rest = [member for member in get_args(annotation) if member is not types.NoneType]
            annotation = rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007 - built from a list
        else:
            return annotation


def _core(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _members(annotation: Any) -> list[Any]:
    if not _is_union(annotation):
        return []
    return [member for member in get_args(annotation) if member is not types.NoneType]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_tagged(members: list[Any]) -> bool:
    return len(members) > 1 and all(_is_model(member) and "kind" in member.model_fields for member in members)


def _tags(members: list[Any]) -> dict[str, Any]:
    return {tag: member for member in members for tag in get_args(member.model_fields["kind"].annotation)}


def _tagged_member(members: list[Any], tag: str) -> Any:
    return _tags(members).get(tag, members[0])


def _field(model: Any, name: str) -> Any:
    for key, info in model.model_fields.items():
        if name in (key, info.alias):
            return Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return Any


def known_keys(model: Any) -> list[str]:
    """The keys of one block, as a user writes them."""
    return [info.alias or key for key, info in model.model_fields.items()]


def _fits(annotation: Any, value: Any) -> bool:
    """Whether a value has the shape that this branch of a union is for."""
    core = _core(annotation)
    if _is_model(core) or get_origin(core) is dict:
        return isinstance(value, dict)
    if get_origin(core) is list:
        return isinstance(value, list)
    if get_origin(core) is Literal:
        return value in get_args(core)
    if core is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(core, type) and isinstance(value, core)


def _is_label_of(annotation: Any, label: str) -> bool:
    """Whether pydantic's name for a branch of a union names this one."""
    core = _core(annotation)
    if _is_model(core):
        return label == core.__name__ or label.endswith(f", {core.__name__}]")  # the latter with validators of its own
    if get_origin(core) is Literal:
        return label.startswith("literal[")
    origin = get_origin(core)
    if origin is not None:
        return label.startswith(f"{origin.__name__}[")
    return str(core.__name__) in label


def _unknown_key(name: str, traced: _Traced) -> Finding:
    path = (*traced.keypath, name)
    if name.replace("-", "_").lower() in RUNS_CODE:
        return Finding(path, "is refused: nothing in a config runs code")
    if not _is_model(traced.annotation):
        return Finding(path, IS_UNKNOWN)
    return Finding(path, IS_UNKNOWN, key_hint(name, traced.annotation))


def key_hint(name: str, model: type[BaseModel]) -> str | None:
    """The nearest right key: the same word one block deeper, else one alike here, else all that are known here."""
    for key, info in model.model_fields.items():
        inner = _core(_bare(info.annotation))
        if _is_model(inner) and name in known_keys(inner):
            return f"did you mean `{info.alias or key}.{name}`?"
    return did_you_mean_or_list(name, known_keys(model))


def _wrong_kind(traced: _Traced) -> Finding:
    tags = list(_tags(_members(traced.annotation)))
    path = (*traced.keypath, "kind")
    given = traced.value.get("kind") if isinstance(traced.value, dict) else None
    if given is None:
        return Finding(path, f"is missing: must be {one_of(tags)}")
    return Finding(path, f"must be {one_of(tags)}, not {shown(given)}", did_you_mean(str(given), tags))


def _in_words(detail: ErrorDetails, traced: _Traced) -> tuple[str, str | None]:
    kind = detail["type"]
    context = detail.get("ctx", {})
    value = traced.value
    if kind == "value_error":
        return str(context["error"]), None
    if kind == "string_pattern_mismatch":
        return f"must be {NAME_RULE}, not {shown(value)}", None
    if kind == "too_short":
        return "must have at least one entry", None
    for error, words, bound in (
        ("greater_than_equal", "at least", "ge"),
        ("greater_than", "more than", "gt"),
        ("less_than_equal", "at most", "le"),
        ("less_than", "less than", "lt"),
    ):
        if kind == error:
            return f"must be {words} {context[bound]:g}, not {shown(value)}", None
    return f"must be {expected(traced.annotation)}, not {shown(value)}", _value_hint(traced.annotation, value)


def _value_hint(annotation: Any, value: Any) -> str | None:
    if not isinstance(value, str):
        if isinstance(value, int | float) and _core(annotation) is str:
            return "put it in quotes"
        return None
    if _core(annotation) is bool and value.lower() in _WORD_BOOLEANS:
        return f"did you mean `{_WORD_BOOLEANS[value.lower()]}`?"
    words = [
        word
        for member in (_members(annotation) or [annotation])
        if get_origin(_core(member)) is Literal
        for word in get_args(_core(member))
    ]
    return did_you_mean(value, words)


def expected(annotation: Any) -> str:
    """What a key takes, in plain words."""
    members = _members(_bare(annotation))
    if members and _is_tagged(members):
        return "a block of keys"
    if members:
        phrases = [expected(member) for member in members]
        return f"{', '.join(phrases[:-1])} or {phrases[-1]}"
    core = _core(annotation)
    if get_origin(core) is Literal:
        return one_of(get_args(core))
    if get_origin(core) is list:
        inner = get_args(core)[0]
        return f"a list{_plural(inner)}"
    if _is_model(core) or get_origin(core) is dict:
        return "a block of keys"
    names = {str: "text", int: "a whole number", float: "a number", bool: "`true` or `false`"}
    return names.get(core, "another value") + _bounds(annotation)


def _plural(annotation: Any) -> str:
    return {str: " of texts", int: " of whole numbers", float: " of numbers"}.get(_core(annotation), "")


def _bounds(annotation: Any) -> str:
    if get_origin(annotation) is not Annotated:
        return ""
    marks: list[Any] = []
    for mark in get_args(annotation)[1:]:
        marks += mark.metadata if isinstance(mark, FieldInfo) else [mark]
    words = []
    for mark in marks:
        if isinstance(mark, Ge):
            words.append(f"at least {mark.ge}")
        elif isinstance(mark, Gt):
            words.append(f"more than {mark.gt}")
        elif isinstance(mark, Le):
            words.append(f"at most {mark.le}")
    return f" ({', '.join(words)})" if words else ""


def one_of(words: Iterable[Any]) -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def shown(value: Any) -> str:
    """A user's value, short enough for a message."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return "a block of keys"
    if isinstance(value, list):
        return "a list"
    if value == "":
        return "an empty text"
    text = printable(str(value))
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return f"the text `{short}`" if isinstance(value, str) else f"`{short}`"
