"""A smaller instance that still shows the same."""

from collections.abc import Callable, Iterator
from typing import Any

from tasks.guide.backends.instances import compact
from tasks.guide.lint.mutate import put

_MOST_TRIES = 250
_LARGE = 1_000


def shrink(value: Any, *, shows: Callable[[Any], bool]) -> Any:
    """The smallest instance found by taking away keys, items and characters, for which `shows` still holds. The same
    for the same input."""
    tries = 0
    smaller = True
    while smaller and tries < _MOST_TRIES:
        smaller = False
        for candidate in _smaller(value):
            tries += 1
            if shows(candidate):
                value, smaller = candidate, True
                break
            if tries >= _MOST_TRIES:
                break
    return value


def _smaller(value: Any) -> Iterator[Any]:
    """Instances a step smaller, the largest steps first; for a large instance, the outermost first."""
    size = len(compact(value))
    if size > _LARGE:
        yield from _halves(value)
        yield from _steps(value)
        return
    found = [(len(compact(each)), number, each) for number, each in enumerate(_steps(value))]
    yield from (each for length, _, each in sorted(found, key=lambda one: one[:2]) if length < size)


def _halves(value: Any) -> Iterator[Any]:
    """Of an object: half its keys."""
    if isinstance(value, dict) and len(value) > 3:
        names = list(value)
        middle = len(names) // 2
        yield from ({name: value[name] for name in half} for half in (names[:middle], names[middle:]))


def _steps(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Any]:
    """Whole instances: `value` with one of its parts smaller."""
    yield from _replaced(value, value, path)


def _replaced(whole: Any, value: Any, path: tuple[str | int, ...]) -> Iterator[Any]:
    for simpler in _simpler(value):
        yield put(whole, path, simpler)
    if isinstance(value, dict):
        for key in value:
            yield from _replaced(whole, value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _replaced(whole, item, (*path, index))


def _simpler(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield {}
        yield from ({key: inner for key, inner in value.items() if key != left_out} for left_out in value)
    elif isinstance(value, list):
        yield []
        yield value[: len(value) // 2]
        yield from (value[:index] + value[index + 1 :] for index in range(len(value)))
    elif isinstance(value, str):
        yield from ("", value[:1], value[: len(value) // 2], value[:-1], value[1:])
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield from (each for each in (0, 1, -1) if each != value)
        if isinstance(value, float) and value.is_integer():
            yield int(value)
