"""From probes with a wrong verdict to findings: the smallest instance, the keyword, a rewrite that was tried."""

from dataclasses import dataclass, field
from typing import Any

from tasks.guide.backends.instances import Taken, compact, orders
from tasks.guide.backends.parts import Place
from tasks.guide.lint.asking import Asking
from tasks.guide.lint.blame import blame
from tasks.guide.lint.edit import BRANCHED, nodes, split
from tasks.guide.lint.model import Finding, Kind, Rewrite
from tasks.guide.lint.mutate import inside, put
from tasks.guide.lint.probes import Probe
from tasks.guide.lint.refusal import same
from tasks.guide.lint.rewrite import candidates
from tasks.guide.lint.shrink import shrink
from tasks.guide.lint.values import types_of
from tasks.guide.lint.verdicts import Verdicts

_MOST_UNDER = 20
_MOST_OVER = 12
_MOST_CHECKED = 60


@dataclass
class Faults:
    """Collects probes, then explains those that were wrong."""

    asking: Asking
    verdicts: Verdicts
    found: dict[tuple[Kind, str], Finding] = field(default_factory=dict)
    _under: dict[str, Probe] = field(default_factory=dict)
    _over: list[Probe] = field(default_factory=list)
    _seen: list[Probe] = field(default_factory=list)
    _right: list[Probe] = field(default_factory=list)

    def saw(self, probe: Probe, taken: Taken) -> None:
        """Notes the backend's answer to a probe."""
        self._seen.append(probe)
        if taken.accepted is probe.valid:
            self._right.append(probe)
        elif probe.valid:
            self._over.append(probe)
        else:
            for keyword in probe.keywords[:1] or ("",):
                self._under.setdefault(keyword, probe)

    def explain(self) -> None:
        """Fills `found`: what is wrong, each keyword once. Raises OutOfTime; what was found by then is there."""
        found = self.found
        for keyword, probe in list(self._under.items())[:_MOST_UNDER]:
            finding = self._explain_under(keyword, probe)
            if finding is not None:
                found.setdefault((finding.kind, finding.path), finding)
        shown: set[str] = set()
        for probe in self._over:
            if len(shown) >= _MOST_OVER:
                break
            finding = self._explain_over(probe, shown)
            if finding is not None:
                old = found.get((finding.kind, finding.path))
                if old is None or len(finding.instance or "") < len(old.instance or ""):
                    found[finding.kind, finding.path] = finding

    def _takes(self, value: Any, *, schema: dict[str, Any] | None = None, masks: bool = False) -> bool | None:
        taken = self.asking.takes(schema or self.verdicts.schema, value, parts=self.verdicts.parts, masks=masks)
        return None if taken is None else taken.accepted

    def _explain_under(self, keyword: str, probe: Probe) -> Finding | None:
        def shows(value: Any) -> bool:
            broken = self.verdicts.keywords(value)
            return not self.verdicts.valid(value) and broken[:1] == probe.keywords[:1] and self._takes(value) is True

        value = shrink(probe.value, shows=shows)
        if self._takes(value, masks=True) is not True:
            return None  # the masks do not let a model write it
        where, name = split(keyword) if keyword else ("", "the schema")
        words = f"does not enforce {name}{self._beside(where, name)}"
        rewrite = self._rewrite(keyword, value, valid=False)
        return Finding(kind="under-constrained", path=keyword, words=words, instance=compact(value), rewrite=rewrite)

    def _beside(self, where: str, name: str) -> str:
        node = next((part.node for part in nodes(self.verdicts.schema) if part.pointer == where), None)
        if node is None:
            return ""
        beside = [key for key in BRANCHED if key in node and key != name]
        untyped = "" if (types_of(node) and "type" in node) or "enum" in node else " where no type is written"
        return f" beside {', '.join(beside)}" if beside else untyped if name not in BRANCHED else ""

    def _explain_over(self, probe: Probe, shown: set[str]) -> Finding | None:
        def shows(value: Any) -> bool:
            return self.verdicts.valid(value) and self._takes(value) is False

        value = shrink(self._bare(probe.value, shows), shows=shows)
        text = compact(value)
        if text in shown:
            return None
        shown.add(text)
        note = self._other_order(value) or self._other_tokens(value) or self._purpose(value)
        if note is not None:
            return note
        path = blame(self.verdicts.parts, value, freed=lambda schema: self._takes(value, schema=schema) is True)
        name = split(path)[1] if path else "the schema"
        words = f"rejects what {name} allows" if path else "rejects what the schema allows"
        rewrite = self._rewrite(path, value, valid=True) if path else None
        return Finding(kind="over-constrained", path=path or "", words=words, instance=text, rewrite=rewrite)

    def _other_order(self, value: Any) -> Finding | None:
        """Validity does not depend on the order of keys: an instance that is taken in another one is no fault."""
        for number, other in enumerate(orders(value)):
            if number and self._takes(other):
                words = f"takes the keys of an object only in an order of its own, here {compact(other)}"
                return Finding(kind="order", path="", words=words, instance=compact(value))
        return None

    def _other_tokens(self, value: Any) -> Finding | None:
        """A text that can be written, though not in the tokens that a model would take for it."""
        text = compact(value)
        match = self.asking.match(self.verdicts.schema, text, apart=True)
        if match is None or not match.accepted:
            return None
        words = "takes this text only in other tokens than those that the tokenizer makes of it"
        return Finding(kind="tokens", path="", words=words, instance=text)

    def _bare(self, value: Any, shows: Any) -> Any:
        """Without the keys that the schema says nothing of, where it shows a fault without them too."""
        for place in list(self.verdicts.parts.places(value)):
            for key in self._unspoken(place):
                inner = inside(value, place.path)
                if inner is None:  # its outer object is gone by now
                    continue
                fewer = put(value, place.path, {name: each for name, each in inner.items() if name != key})
                if shows(fewer):
                    value = fewer
        return value

    def _unspoken(self, place: Place) -> list[str]:
        """Keys of an object that no part of the schema has a word on."""
        if not isinstance(place.value, dict):
            return []
        rules = ("additionalProperties", "unevaluatedProperties")
        if any(rule in part.node for part in place.parts for rule in rules):
            return []
        return [key for key in place.value if not self.verdicts.parts.below(list(place.parts), place.value, key)
                and not any(key in (part.node.get("properties") or {}) for part in place.parts)]  # fmt: skip

    def _purpose(self, value: Any) -> Finding | None:
        """What a backend narrows on purpose: keys that no rule allows by name, types where none is written."""
        for place in self.verdicts.parts.places(value):
            pointer = place.parts[0].pointer if place.parts else ""
            unspoken = [key for key in self._unspoken(place) if key not in _required(place)]
            if unspoken and any(
                key in part.node for part in place.parts for key in ("properties", "patternProperties")
            ):
                fewer = put(value, place.path, {k: each for k, each in place.value.items() if k not in unspoken})
                if self.verdicts.valid(fewer) and self._takes(fewer):
                    words = "takes only the keys that the schema lists, as if additionalProperties were false"
                    return Finding(kind="closed", path=pointer, words=words, instance=compact(value))
            kinds = {kind for part in place.parts for kind in types_of(part.node)}
            untyped = not any(key in part.node for part in place.parts for key in ("type", "enum", "const", *BRANCHED))
            if untyped and kinds and _type(place.value) not in kinds:
                words = (
                    f"takes only the type that the keywords are about ({', '.join(sorted(kinds))}): no type is written"
                )
                return Finding(kind="typed", path=pointer, words=words, instance=compact(value))
        return None

    def _rewrite(self, path: str, value: Any, *, valid: bool) -> Rewrite | None:
        """The first rewrite with which the backend is right on the instance, and as right as before on the others."""
        for words, schema in candidates(self.verdicts.schema, path, drop=valid):
            if self._takes(value, schema=schema) is not valid:
                continue
            exact = same(schema, self._seen)
            if not exact and not valid:
                continue
            again = self._right[:: max(1, len(self._right) // _MOST_CHECKED)]
            kept = [probe for probe in again if probe.valid or exact]
            if all(self._takes(probe.value, schema=schema) is probe.valid for probe in kept):
                return Rewrite(words=words, schema=schema, exact=exact)
        return None


def _required(place: Place) -> set[str]:
    return {name for part in place.parts for name in part.node.get("required") or () if isinstance(name, str)}


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return {str: "string", list: "array", dict: "object"}[type(value)]
