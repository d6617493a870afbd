"""Are the lint's claims right? Each is checked by what has no part in it, over the schemas of MaskBench.

    python -m tests.bench.lint_maskbench [--sample 200] [--backend xgrammar] [--seed 0] [--json out.json]

A claim (silently wrong, or a note with an instance) is right if the `jsonschema` package has the lint's verdict on the
instance, and the backend, in a process of its own that knows nothing of the lint, has the answer that the lint says it
has. A format that `jsonschema` has no checker for leaves a claim unconfirmed: counted apart. Exit code 1 below 95 %.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for

from tasks.guide.backends import BACKENDS, Backends
from tasks.guide.backends.instances import compact, orders
from tasks.guide.check import check_schema
from tasks.guide.lint.lint import lint
from tasks.guide.lint.model import BackendLint, Finding

CASES = Path(__file__).parents[3] / "shared" / "data" / "maskbench" / "cases.jsonl"
NEEDED = 0.95


def second_verdict(schema: dict[str, Any], value: Any) -> bool:
    """What the `jsonschema` package says, by the draft that the schema names and with that draft's formats."""
    kind = validator_for(schema)
    return bool(kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(value))


def unchecked_format(schema: dict[str, Any], finding: Finding) -> bool:
    """Whether the claim is about a format that the second validator knows nothing of."""
    if not finding.path.endswith("/format"):
        return False
    node: Any = schema
    for step in finding.path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        node = node[int(key)] if isinstance(node, list) else node[key]
    return node not in validator_for(schema).FORMAT_CHECKER.checkers


def repeats(fresh: Backends, *, backend: str, schema: dict[str, Any], finding: Finding) -> bool:
    """Whether a fresh process has the backend's answer: its masks, on the text itself and, for a rejection that is
    called a fault, on it with its keys in every order."""
    compiled = fresh.compile(backend=backend, content=compact(schema))
    if compiled.status == "timed out":  # a machine with other work: once more
        compiled = fresh.compile(backend=backend, content=compact(schema))
    if compiled.status != "accepted" or finding.instance is None:
        return False
    value = json.loads(finding.instance)
    if finding.kind in ("order", "tokens"):
        return fresh.match(compiled, text=finding.instance, masks=True).accepted is False
    tried = [fresh.match(compiled, text=compact(each), masks=True).accepted for each in orders(value, most=24)]
    if finding.kind == "under-constrained":
        return True in tried
    return True not in tried and False in tried


def check(fresh: Backends, *, schema: dict[str, Any], found: BackendLint) -> list[tuple[str, Finding, str]]:
    """Each claim with `right`, `unconfirmed`, or what is wrong with it."""
    checked = []
    for finding in found.findings:
        if finding.instance is None:
            continue
        valid = finding.kind != "under-constrained"
        if unchecked_format(schema, finding):
            verdict = "unconfirmed"
        elif second_verdict(schema, json.loads(finding.instance)) is not valid:
            verdict = "the second validator disagrees"
        elif not repeats(fresh, backend=found.backend, schema=schema, finding=finding):
            verdict = "the backend's answer does not repeat"
        else:
            verdict = "right"
        checked.append((found.backend, finding, verdict))
    return checked


def main() -> int:
    """Runs it; prints a line a wrong claim, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", action="append", choices=list(BACKENDS))
    parser.add_argument("--model", type=Path, help="a model's folder; without it, a tokenizer of single bytes")
    parser.add_argument("--limit-s", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    names = asked.backend or list(BACKENDS)
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    chosen = random.Random(asked.seed).sample(cases, min(asked.sample, len(cases)))
    verdicts: dict[str, Counter[str]] = {name: Counter() for name in names}
    claims: dict[str, Counter[str]] = {name: Counter() for name in names}
    rewrites: Counter[str] = Counter()
    kept = []
    started = time.monotonic()
    with Backends(model=asked.model, names=names) as backends, Backends(model=asked.model, names=names) as fresh:
        for number, case in enumerate(chosen, 1):
            schema = case["schema"]
            if not isinstance(schema, dict) or check_schema(schema) is not None:
                continue
            given = [test["data"] for test in case["tests"]]
            report = lint(
                schema,
                backends=backends,
                names=names,
                given=given,
                seed=asked.seed,
                limit_s=asked.limit_s,
            )
            for found in report.backends:
                verdicts[found.backend][found.verdict + (" (cut)" if found.cut else "")] += 1
                for backend, finding, verdict in check(fresh, schema=schema, found=found):
                    claims[backend][verdict if finding.is_fault else f"note, {verdict}"] += 1
                    if finding.is_fault:
                        rewrites["helps" if finding.rewrite else "none found"] += 1
                    if verdict not in ("right", "unconfirmed"):
                        print(f"{case['name']} {backend} {finding.kind} {finding.path} {finding.instance}: {verdict}")
                    kept.append({"case": case["name"], "backend": backend, "verdict": verdict} | asdict(finding))
            if number % 20 == 0:
                print(f"{number} schemas, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"{len(chosen)} schemas, {time.monotonic() - started:.0f} s, rewrites {dict(rewrites)}")
    precision = 1.0
    for name in names:
        right = claims[name]["right"] + claims[name]["note, right"]
        total = sum(count for verdict, count in claims[name].items() if "unconfirmed" not in verdict)
        share = right / total if total else 1.0
        precision = min(precision, share)
        print(f"{name:<20}{dict(verdicts[name])}\n{'':<20}claims {total}, right {share:.1%}  {dict(claims[name])}")
    if asked.json is not None:
        asked.json.write_text(json.dumps(kept, ensure_ascii=False, indent=1))
    return 0 if precision >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
