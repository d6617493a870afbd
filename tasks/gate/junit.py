"""Gates as JUnit XML, which CI systems show as tests: one suite a run, one case a gate and what it was held against.

failed is a `failure`, refused an `error`, skipped and an undecided gate that only warns are `skipped` with their
reason. Characters that XML 1.0 cannot hold are shown as their escapes.
"""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from schemas.gate import GateVerdict
from tasks.gate import words
from tasks.gate.model import Evaluation

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FLIPS = 20


def junit(evaluation: Evaluation) -> str:
    """The whole file."""
    counts = {"tests": len(evaluation.verdicts), "failures": 0, "errors": 0, "skipped": 0}
    suites = Element("testsuites", name="assay")
    suite = SubElement(suites, "testsuite", name=_plain(f"{evaluation.name} gates"))
    suite.set("timestamp", f"{evaluation.decided_at:%Y-%m-%dT%H:%M:%S}")
    properties = SubElement(suite, "properties")
    for name, value in (("run_id", evaluation.run_id), ("model", evaluation.model), ("gates", evaluation.word)):
        if value is not None:
            SubElement(properties, "property", name=name, value=_plain(value))
    for verdict in evaluation.verdicts:
        case = SubElement(suite, "testcase", classname=_plain(f"assay.{evaluation.name}.{verdict.metric}"))
        case.set("name", _plain(words.claim(verdict)))
        kind = _kind(verdict)
        if kind is not None:
            counts[{"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]] += 1
            word = "" if verdict.verdict == "skipped" else f"{verdict.verdict}: "
            told = SubElement(case, kind, message=_plain(f"{word}{words.because(verdict)}"))
            if kind != "skipped":
                told.set("type", verdict.verdict)
                told.text = _plain(_evidence(evaluation, verdict))
        else:
            SubElement(case, "system-out").text = _plain(words.because(verdict))
    for element in (suites, suite):
        for name, number in counts.items():
            if element is suite or name != "skipped":
                element.set(name, str(number))
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _kind(verdict: GateVerdict) -> str | None:
    if verdict.fails:
        return "failure"
    return {"refused": "error", "skipped": "skipped", "undecided": "skipped"}.get(verdict.verdict)


def _evidence(evaluation: Evaluation, verdict: GateVerdict) -> str:
    """The numbers, then the samples that were lost."""
    lines = [f"{words.claim(verdict)}", f"against {words.against(verdict)}", words.because(verdict)]
    comparison = evaluation.comparison(verdict)
    if comparison is not None and verdict.verdict != "refused" and verdict.cell_id is None:
        lost = [
            flip
            for flip in comparison.flips
            if flip.change == "lost"
            and flip.candidate_arm == verdict.arm
            and (f"{flip.dataset}.{flip.metric}" == verdict.metric or not _of_a_dataset(evaluation, verdict))
        ]
        lines.append(f"{len(lost)} samples lost{', the first:' if len(lost) > _FLIPS else ':' if lost else ''}")
        lines += [f"  {flip.sample_id}: {flip.baseline:g} -> {flip.candidate:g}" for flip in lost[:_FLIPS]]
    return "\n".join(lines)


def _of_a_dataset(evaluation: Evaluation, verdict: GateVerdict) -> bool:
    comparison = evaluation.comparison(verdict)
    return comparison is not None and any(result.name == verdict.metric for result in comparison.results)


def _plain(text: str) -> str:
    return _NOT_XML.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
