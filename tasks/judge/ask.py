"""One answer to be judged, the judge that is asked, and the row of what it said."""

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.judge import JudgementStatus, JudgeOptions
from schemas.sample import Grammar, Response, Sample
from tasks.dataset.template import Template
from tasks.guide.strict_json import parse
from tasks.guide.validate import Violation, validate
from tasks.judge.prompt import PROMPT, SYSTEM, answer_hash, prompt_template, show, verdict_grammar

FINAL = frozenset({"ok", "invalid", "truncated", "refused"})
"""The states that are not asked again: the judge, asked greedily, would say the same."""
FAILED = frozenset({"refused", "timeout", "error"})
"""The states that count against `max_failed`."""

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Judge:
    """One judge of one metric. who: what of it can change a verdict; place: what else is recorded of where it runs.

    model: as it is shown in `judge_model` until the endpoint names itself. control_tokens: of its own template."""

    metric: str
    options: JudgeOptions
    who: Mapping[str, Any]
    place: Mapping[str, Any]
    model: str
    template: Template
    grammar: Grammar
    control_tokens: frozenset[str] = frozenset()

    @property
    def system(self) -> str:
        return SYSTEM if self.options.system is None else self.options.system

    @property
    def facts(self) -> dict[str, Any]:
        """All that makes its verdicts what they are, the same for every answer."""
        scale = self.options.scale
        counts = list(scale.labels.items()) if scale.labels is not None else [scale.min, scale.max]
        return {
            **self.who,
            "system": self.system,
            "prompt": PROMPT if self.options.prompt is None else self.options.prompt,
            "scale": counts,
            "schema": self.grammar.content,
            "sampling": {"temperature": 0, "max_tokens": self.options.max_tokens},
        }

    @property
    def judge_id(self) -> str:
        """First 16 hex digits of sha256 over its facts."""
        return _sha256(self.facts)[:16]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One answer for one judge. key: of the judge and what it is shown; equal keys are asked once."""

    judge: Judge
    response: Response
    text: str
    defused: int
    key: str

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.judge.system}, {"role": "user", "content": self.text}]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back. refusal: the model's own words that it will not; error: why nothing came; timed_out: it took too
    long."""

    output: str | None = None
    refusal: str | None = None
    error: str | None = None
    timed_out: bool = False
    finish_reason: str | None = None
    model: str | None = None
    tries: int = 1
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    judge_ms: float | None = None


def make_judge(
    metric: str,
    options: JudgeOptions,
    *,
    who: Mapping[str, Any],
    place: Mapping[str, Any],
    model: str,
    control_tokens: Iterable[str] = (),
) -> Judge:
    """A judge with its template compiled. Raises ConfigError for a prompt that is no template."""
    return Judge(
        metric=metric,
        options=options,
        who=who,
        place=place,
        model=model,
        template=prompt_template(options),
        grammar=verdict_grammar(options),
        control_tokens=frozenset(control_tokens),
    )


def make_ask(judge: Judge, *, sample: Sample, response: Response) -> Ask:
    """The question about one answer. Raises ConfigError for what the template does not stand."""
    shown = show(judge.template, options=judge.options, sample=sample, response=response, tokens=judge.control_tokens)
    facts = {name: value for name, value in judge.facts.items() if name not in ("prompt", "scale")}
    return Ask(judge=judge, response=response, text=shown.text, defused=shown.defused, key=_sha256([facts, shown.text]))


def judgement_row(ask: Ask, reply: Reply) -> Row:
    """The row of `judgements`. The verdict is looked for only in an answer that obeys the whole schema."""
    response, judge = ask.response, ask.judge
    status, said, error = _read(ask, reply)
    return {
        "request_id": response.request_id,
        "metric": judge.metric,
        "dataset": response.dataset,
        "sample_id": response.sample_id,
        "arm": response.arm,
        "repeat": response.repeat,
        "judge_id": judge.judge_id,
        "judge_model": reply.model or judge.model,
        "judge": {**judge.facts, **judge.place},
        "judge_key": ask.key,
        "answer_hash": answer_hash(response.output or ""),
        "prompt": ask.text,
        "defused": ask.defused,
        "status": status,
        "verdict": None if said is None else _verdict(said["verdict"]),
        "reason": None if said is None else said.get("reason"),
        "error": error,
        "judged_at": datetime.datetime.now(datetime.UTC),
        **{
            name: value
            for name, value in dataclasses.asdict(reply).items()
            if name in ("output", "finish_reason", "tries", "prompt_tokens", "output_tokens", "judge_ms")
        },
    }


def _read(ask: Ask, reply: Reply) -> tuple[JudgementStatus, dict[str, Any] | None, str | None]:
    """(status, the verdict's object, why there is none)."""
    text = (reply.output or "").strip()
    if reply.error is not None or reply.timed_out:
        return "timeout" if reply.timed_out else "error", None, reply.error
    if reply.refusal is not None:
        return "refused", None, reply.refusal or "it refused without a word"
    checked = validate(ask.judge.grammar, text)
    if checked.valid:
        said: dict[str, Any] = parse(text)[0]
        return "ok", said, None
    status, why = _without_verdict(ask, reply, text=text, violations=checked.violations)
    return status, None, why


def _without_verdict(
    ask: Ask, reply: Reply, *, text: str, violations: Sequence[Violation]
) -> tuple[JudgementStatus, str]:
    """The status of an answer that does not obey the schema, and why it does not."""
    if reply.finish_reason == "content_filter":
        return "refused", "the server's filter stopped it"
    if reply.finish_reason == "length":
        return "truncated", f"cut after {ask.judge.options.max_tokens:,} tokens, before the verdict was whole"
    if not text:
        return "invalid", "its answer is empty"
    return "invalid", f"{violations[0].path or 'its answer'}: {violations[0].message}"


def _verdict(value: Any) -> str:
    """A label as it is, a whole number as its digits (3.0 is 3)."""
    return value if isinstance(value, str) else str(int(value))


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
