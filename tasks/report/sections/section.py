"""What a section of the report is made of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple


class Section(NamedTuple):
    """One section of the page.

    anchor: its id on the page; title: its heading, and its name in the list of contents unless `short` is given;
    template: a file of `tasks/report`; context: what the template needs of its own; count: a number beside its name in
    the list of contents; frame: the element it becomes (`header` and `footer` bring no heading of their own); data:
    what the page's script unpacks, base64 by element id, put at the end of the page so that it holds up nothing.
    """

    anchor: str
    title: str
    template: str
    context: Mapping[str, Any]
    short: str | None = None
    count: int | None = None
    frame: Literal["header", "section", "footer"] = "section"
    data: Mapping[str, str] = MappingProxyType({})
