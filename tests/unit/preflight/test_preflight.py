"""The preflight of grammars: compiled and linted in a child process, kept for other runs, and what is done with it."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from schemas.engine import Grammar as GrammarOptions
from schemas.engine import Preflight
from schemas.preflight import Examined, LintFinding, PreflightSummary
from schemas.sample import Request
from tasks.dataset.guide import make_grammar
from tasks.preflight.examine import Bench, Examination
from tasks.preflight.known import FOLDER, Known
from tasks.preflight.quarantine import quarantined
from tasks.preflight.used import used_grammars
from tasks.preflight.warm import worth_warming
from tasks.preflight.words import compile_metrics, disagreements, in_a_line, warnings_of
from tasks.record.rows import grammar_rows

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
BESIDE_ANY_OF = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
}
UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
HANGS = {"type": "object", "properties": {f"p{at:06d}": {"type": "string"} for at in range(2000)}}
HOARDS = {"enum": [f"p{at:06d}" * 5 for at in range(60_000)]}
SMALL = Preflight(compile_limit_s=3)


def request(name: str, kind: Any, content: Any, **more: Any) -> Request:
    text = content if isinstance(content, str) else json.dumps(content)
    return Request(
        request_id=name,
        dataset="d",
        sample_id=name,
        arm="guided",
        kind="generate",
        prompt_token_ids=[1],
        max_tokens=8,
        stop=[],
        grammar=make_grammar(kind=kind, content=text),
        **more,
    )


def bench(cache: Path, model: Path, **changes: Any) -> Bench:
    told: dict[str, Any] = {"backend": "xgrammar", "version": "1", "whitespace": False, "options": SMALL}
    told |= {"model": model, "python": None, "variables": {}, "cache": cache, "rests_on": {"tokenizer": "t"}}
    return Bench(**told | changes)


def examine(requests: list[Request], made_with: Bench) -> PreflightSummary:
    used = used_grammars(requests, backend=made_with.backend, whitespace=made_with.whitespace)
    return Examination(made_with).run(used)


def examined(request: Request, **facts: Any) -> Examined:
    assert request.grammar is not None
    told: dict[str, Any] = {"status": "accepted", "message": None, "compile_s": 0.012, "cached": False}
    return Examined(grammar_id=request.grammar.grammar_id, after=request.grammar_after, **told | facts)


def test_each_grammar_gets_a_verdict_and_a_second_run_starts_nothing(tmp_path: Path, model_dir: Path) -> None:
    requests = [
        request("right", "json_schema", POINT),
        request("wrong", "json_schema", BESIDE_ANY_OF),
        request("again", "json_schema", POINT),
        request("refused", "json_schema", UNIQUE),
        request("hangs", "json_schema", HANGS),
        request("pattern", "regex", "[0-9]{1,3}"),
        request("none", "tool_calls", {"tools": [], "calls": "tags", "parallel": True, "tool_choice": "required"}),
    ]
    made_with = bench(tmp_path, model_dir)
    first = examine(requests[:-1], made_with)
    by_id = {each.grammar_id: each for each in first.examined}
    found = {r.request_id: by_id[r.grammar.grammar_id] for r in requests[:-1] if r.grammar is not None}
    assert len(first.examined) == 5 and first.lost is None and first.notes == []
    statuses = {name: each.status for name, each in found.items()}
    assert statuses == {
        "right": "accepted", "wrong": "accepted", "again": "accepted", "refused": "refused", "hangs": "timeout",
        "pattern": "accepted",
    }  # fmt: skip
    assert found["hangs"].quarantine == "quarantined: the compiler took more than 3 s"
    assert "not supported by xgrammar" in str(found["refused"].message) and found["refused"].quarantine is None
    assert all(0 < (each.compile_s or 0) < 2 for each in first.examined if each.status == "accepted")
    assert found["wrong"].keywords == ["anyOf", "properties", "required", "type"]
    assert found["right"].faults == [] and found["right"].lint is not None and found["pattern"].lint is None
    (fault,) = [fault for fault in found["wrong"].faults if fault.path == "/required"]
    assert "under-constrained" in fault.problem and "name" not in json.loads(str(fault.instance))
    assert first.start_s is not None

    second = examine(requests[:-1], made_with)
    assert second.start_s is None and second.wall_s < 1, "all is known: no process is started"
    assert all(each.cached for each in second.examined)
    assert [each.model_copy(update={"cached": False}) for each in second.examined] == first.examined


def test_what_a_verdict_rests_on_makes_it_another(tmp_path: Path) -> None:
    asked = {"form": "regex", "content": "a"}
    known = Known(tmp_path, facts={"vllm": "0.32.0"})
    known.put({"status": "accepted"}, what="compile", asked=asked)
    assert Known(tmp_path, facts={"vllm": "0.32.0"}).get(what="compile", asked=asked) == {"status": "accepted"}
    assert known.get(what="lint", asked=asked) is None
    assert known.get(what="compile", asked=asked | {"content": "b"}) is None
    assert Known(tmp_path, facts={"vllm": "0.33.0"}).get(what="compile", asked=asked) is None
    (file,) = (tmp_path / FOLDER).rglob("*.json")
    file.write_text('{"status": "acc')
    assert known.get(what="compile", asked=asked) is None
    assert not list((tmp_path / FOLDER).rglob("*.part"))


def test_it_ends_when_the_run_does(tmp_path: Path, model_dir: Path) -> None:
    examination = Examination(bench(tmp_path, model_dir, options=Preflight(compile_limit_s=120.0)))
    told: list[PreflightSummary] = []
    used = used_grammars([request("hangs", "json_schema", HANGS)], backend="xgrammar", whitespace=False)
    thread = threading.Thread(target=lambda: told.append(examination.run(used)))
    thread.start()
    deadline = time.monotonic() + 60
    while examination._start_s is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert examination._backends is not None and examination._backends._child.process is not None
    child = examination._backends._child.process.pid
    time.sleep(0.5)
    examination.stop()
    thread.join(10)
    assert not thread.is_alive() and told[0].examined == [] and told[0].unexamined == 1
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not (tmp_path / FOLDER).exists(), "what it was stopped in the middle of is no verdict"


@pytest.mark.slow
def test_a_death_from_outside_is_no_verdict_and_want_of_memory_is_one(tmp_path: Path, model_dir: Path) -> None:
    examination = Examination(bench(tmp_path, model_dir, options=Preflight(memory_gb=0.3)))

    def kill_the_fork() -> None:
        deadline = time.monotonic() + 60
        while examination._start_s is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert examination._backends is not None and examination._backends._child.process is not None
        pid = examination._backends._child.process.pid
        time.sleep(0.15)
        os.kill(int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]), signal.SIGKILL)

    killer = threading.Thread(target=kill_the_fork)
    killer.start()
    hoards = request("hoards", "json_schema", HOARDS)
    found = examination.run(used_grammars([hoards], backend="xgrammar", whitespace=False))
    killer.join()
    assert [each.status for each in found.examined] == ["crashed"]
    assert "took more than 0.3 GiB: std::bad_alloc" in str(found.examined[0].message), "the second answer counts"


def test_requests_in_quarantine_keep_their_place() -> None:
    good, bad = request("good", "regex", "a"), request("bad", "regex", "b")
    after = request("after", "regex", "b", grammar_after="</think>")
    own = request("own", "regex", "b", refused="no pattern")
    free = Request(
        request_id="free", dataset="d", sample_id="free", arm="free", kind="generate", prompt_token_ids=[1],
        max_tokens=8, stop=[],
    )  # fmt: skip
    facts = [examined(good), examined(bad, status="timeout", message="the compiler took more than 30 s")]
    asked = [free, bad, good, after, own]
    kept = quarantined(asked, facts)
    assert [each.request_id for each in kept] == [each.request_id for each in asked]
    assert [each.refused for each in kept] == [
        None, "quarantined: the compiler took more than 30 s", None, None, "no pattern",
    ]  # fmt: skip
    assert quarantined(asked, facts[:1]) == asked


def test_the_rows_say_what_was_found_and_what_the_engine_did() -> None:
    asked = [request(name, "json_schema", {"const": name}) for name in ("a", "b", "c", "d", "e")]
    finding = LintFinding(path="/x", problem="under-constrained: y", instance="1", fault=True)
    facts = [
        examined(asked[0], lint=[finding], keywords=["const"], cached=True),
        examined(asked[1], status="crashed", message="the compiler crashed: SIGSEGV", compile_s=None),
        examined(asked[2], status="refused", message="no", compile_s=None),
        examined(asked[3], status="accepted"),
    ]
    statuses = {"a": "ok", "b": "refused", "c": "refused", "e": "ok"}
    rows = grammar_rows(
        asked, statuses, {"b": "quarantined", "c": "no!"}, backend="xgrammar", version="1", examined=facts
    )
    assert [(row["status"], row["message"], row.get("compile_s"), row.get("cached")) for row in rows] == [
        ("accepted", None, 0.012, True),
        ("crashed", "the compiler crashed: SIGSEGV", None, False),
        ("refused", "no!", None, False),
        ("accepted", None, 0.012, False),  # not answered before the run was stopped
        ("accepted", None, None, None),  # not looked at
    ]
    assert rows[0]["lint"] == [{"path": "/x", "problem": "under-constrained: y", "instance": "1"}]
    assert rows[1]["lint"] is None


def test_what_is_said_of_it() -> None:
    asked = [request(str(at), "json_schema", {"const": at}) for at in range(4)]
    fault = LintFinding(path="/properties/a", problem="under-constrained: x", instance='{"a":1}', fault=True)
    found = PreflightSummary(
        backend="xgrammar",
        backend_version="0.2.8",
        examined=[
            examined(asked[0], keywords=[], lint=[fault], cached=True),
            examined(asked[1], keywords=[], compile_s=0.030),
            examined(
                asked[2], keywords=[], status="timeout", message="the compiler took more than 30 s", compile_s=None
            ),
        ],
        unexamined=1,
    )
    assert in_a_line(found) == (
        "3 schemas, compiled p50 21 ms, max 30 ms (1 cached), 1 timed out, 1 not examined; "
        "xgrammar gets 1 silently wrong: /properties/a (see `assay grammar lint`)"
    )
    said = "\n".join(warnings_of(found, asked))
    assert "1 of 4 grammars were not compiled beforehand" in said
    assert "1 grammar is quarantined, and 1 request refused for it" in said
    assert 'of d silently wrong: /properties/a: under-constrained: x, as {"a":1} shows' in said
    values = {each.name: (each.value, each.n, each.n_failed) for each in compile_metrics(found)}
    assert values["grammar.compile_ms.p50"] == (21.0, 2, 1) and values["grammar.compile_ms.max"] == (30.0, 2, 1)
    assert disagreements(found, asked, statuses={"0": "ok", "1": "refused", "2": "refused"}) == [
        f"the engine refused the grammar {found.examined[1].grammar_id}, which compiled beforehand"
    ]


def test_preflight_off_is_short_for_disabled() -> None:
    assert GrammarOptions.model_validate({"preflight": "off"}).preflight == Preflight(enabled=False)
    assert GrammarOptions.model_validate({"preflight": False}).preflight.enabled is False
    assert GrammarOptions.model_validate({"preflight": {"lint": False}}).preflight == Preflight(lint=False)


def test_the_engine_warms_what_is_good_the_slowest_first_as_far_as_the_time_goes() -> None:
    asked = [request(name, "regex", f"[a-z]{name[1:]}") for name in ("r1", "r2", "r3", "r4", "r5")]
    times = {"r1": 0.1, "r2": 0.4, "r3": 0.2}
    known = [examined(each, compile_s=times[each.request_id]) for each in asked[:3]]
    known.append(examined(asked[3], status="refused", message="no"))
    found = PreflightSummary(backend="xgrammar", backend_version="1", examined=known)
    chosen = [each.content for each in worth_warming(found, [*asked, asked[1]], limit_s=9)]
    assert chosen == ["[a-z]2", "[a-z]3", "[a-z]1"]
    assert [each.content for each in worth_warming(found, asked, limit_s=0.55)] == ["[a-z]2", "[a-z]1"]
    assert worth_warming(found, asked[3:], limit_s=9) == []
    guidance = found.model_copy(update={"backend": "guidance"})
    assert [each.content for each in worth_warming(guidance, asked, limit_s=9)] == ["[a-z]1"]
