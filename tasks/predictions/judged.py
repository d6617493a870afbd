"""Judges for answers that are there already."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from schemas.engine import VllmEngine
from tasks.judge.ask import Row
from tasks.judge.judging import Answers, Judged, OwnEngine, Slot, judge_answers, judges_in


def judge_offline(
    answers: Answers,
    *,
    home: Path | None,
    before: Iterable[Mapping[str, Any]] = (),
    write: Callable[[Sequence[Row]], None] | None = None,
    ask: bool = True,
    engine: VllmEngine | None = None,
    slot: Slot = nullcontext,
) -> Judged:
    """What the judges of the answers' metrics say; nothing is asked where there is none.

    home: ASSAY_HOME; a judge that assay runs itself keeps its model and its log there. before, write, ask: as in
    `judge_answers`, whose errors it raises; an endpoint that cannot be used is one of them. engine: the settings of the
    run that the answers are from. slot: held while a judge's own engine runs."""
    if not judges_in(answers.metrics):
        return Judged()
    if home is None:
        raise ValueError("a judge needs the ASSAY_HOME that its model is kept in")
    return judge_answers(
        [answers],
        before=before,
        write=write or (lambda _: None),
        own=OwnEngine(
            cache=home / "cache", engine=engine or VllmEngine(), log_path=home / "judge-engine.log", slot=slot
        ),
        ask=ask,
        strict=True,
    )
