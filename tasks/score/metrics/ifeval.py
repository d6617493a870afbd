"""ifeval: whether an answer follows the instructions of its prompt (IFEval), all of them or their share.

Formula: `level: prompt` is 1 if every instruction is followed, else 0; `level: instruction` is followed / all, of each
sample, and its mean weighs samples alike, where the paper pools the instructions of all samples. `extracted` holds the
counts of both modes as JSON, from which the pooled figure follows. `mode: strict` reads the answer as it is, `loose`
accepts an instruction that one of 8 variants of the answer follows. Unit: share, higher is better. Source: Zhou et al.
2023 and the definitions of its program; where ours differs is in docs/metrics-math-ifeval.md. The sample's target, or
else its row, has the data set's two fields: `instruction_id_list` and `kwargs`.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.ifeval.arguments import BadInstruction
from tasks.score.ifeval.instructions import Asked, read_instructions
from tasks.score.metric import Metric, scored, why_unscored

INFO = MetricInfo(name="ifeval", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """Which of IFEval's four figures is the value."""

    level: Literal["prompt", "instruction"] = "prompt"
    """prompt: all instructions or nothing. instruction: the share that is followed."""
    mode: Literal["strict", "loose"] = "strict"
    """strict: the answer as it is. loose: without its first or last line, or its asterisks, if that helps."""


def _asked(sample: Sample) -> list[Asked]:
    for source in (sample.target, sample.input):
        if isinstance(source, Mapping) and "instruction_id_list" in source:
            names, arguments = source["instruction_id_list"], source.get("kwargs")
            if not isinstance(names, list) or not isinstance(arguments, list):
                raise BadInstruction("instruction_id_list and kwargs have to be lists")
            if not names:
                raise BadInstruction("instruction_id_list is empty")
            return read_instructions(names=names, arguments=arguments)
    raise BadInstruction("neither the target nor the row has instruction_id_list")


def _told(asked: list[Asked], *, strict: list[bool], loose: list[bool]) -> str:
    counts: dict[str, Any] = {"instructions": len(asked), "strict": sum(strict), "loose": sum(loose)}
    return json.dumps(counts)


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    try:
        asked = _asked(sample)
    except BadInstruction as error:
        return scored(info=INFO, response=response, value=None, reason=str(error))
    strict = [one.followed(response.output) for one in asked]
    loose = [done or one.followed_loosely(response.output) for one, done in zip(asked, strict, strict=True)]
    followed = strict if options.mode == "strict" else loose
    value = float(all(followed)) if options.level == "prompt" else sum(followed) / len(followed)
    missed = [one.name for one, done in zip(asked, followed, strict=True) if not done]
    return scored(
        info=INFO,
        response=response,
        value=value,
        extracted=_told(asked, strict=strict, loose=loose),
        reason=f"not followed: {', '.join(missed)}" if missed else None,
    )


METRIC = Metric(info=INFO, Options=Options, score=score)
