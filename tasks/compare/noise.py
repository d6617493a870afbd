"""The noise band: how far each metric moves when nothing changes but how many requests the engine runs at once.

A batch decides in which order numbers are added up, and so the last bits of a sum; where two tokens are nearly as
likely, that decides which one is taken, and from there on the text. Source: known of any engine with batches, as in
"Defeating Nondeterminism in LLM Inference" (He et al. 2025). The band of a metric is the largest difference between the
means of any two settings, over the samples that both have a value for. It is no interval: what was seen, not what can
be.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import RunError
from schemas.metric import Aggregate
from tasks.compare.model import Result, RunComparison
from tasks.compare.runs import compare_runs
from tasks.compare.save import save_comparison
from tasks.record.answers import last_attempts
from tasks.record.rows import metric_rows
from warehouse.build import ensure_fresh
from warehouse.parquet import read_rows, write_rows
from warehouse.query import query
from warehouse.schema.table import literal

PREFIX = "noise."
TEXTS = "texts_differ"
"""`noise.<dataset>.texts_differ`: the share of answers whose text is not the same at all settings."""
_HELD = (
    "max_num_batched_tokens",
    "long_prefill_token_threshold",
    "prefill_yields",
    "max_model_len",
    "dtype",
    "attention_backend",
    "device",
)
"""What of an engine must be the same at all settings for the batch size to be all that changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One setting: so many requests at once at most, and the run that was made so."""

    concurrency: int
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One metric of one arm. values: the mean at each level, None without a pair. change: at the highest level that has
    the metric less at the lowest. won, lost: samples that are better, worse, at the highest than at the lowest;
    changed: samples whose value is not the same at all levels. band: the largest difference between two levels, None
    without a pair."""

    dataset: str
    metric: str
    arm: str
    unit: str
    values: tuple[float | None, ...]
    change: float | None
    n_pairs: int
    won: int
    lost: int
    changed: int
    band: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Answers of one dataset and arm, and how many of them have not the same text at all levels."""

    dataset: str
    arm: str
    n: int
    differ: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What was measured. levels: by rising concurrency, the first being what the others are compared with."""

    levels: tuple[Level, ...]
    bands: tuple[Band, ...]
    texts: tuple[Texts, ...]
    warnings: tuple[str, ...]


def measure(home: Path, levels: Sequence[Level]) -> Noise:
    """Compares the runs, and keeps the comparisons. Raises RunError for runs with answers of an earlier run, which
    would make the noise smaller than it is, and what `compare_runs` raises."""
    ordered = tuple(sorted(levels, key=lambda level: level.concurrency))
    base = ordered[0]
    comparisons = [compare_runs(home=home, candidate=each.run_id, baseline=base.run_id) for each in ordered[1:]]
    for side in (comparisons[0].baseline, *(each.candidate for each in comparisons)):
        if side.reused:
            raise RunError(
                f"{side.reused} of {side.answers} answers of run {side.run_id} were taken from an earlier run: "
                "such a run measures no noise"
            )
    for each in comparisons:
        save_comparison(home, each)
    warnings = [*dict.fromkeys(note for each in comparisons for note in each.notes), *_engines(home, ordered)]
    return Noise(
        levels=ordered, bands=tuple(_bands(comparisons)), texts=tuple(_texts(home, ordered)), warnings=tuple(warnings)
    )


def _bands(comparisons: Sequence[RunComparison]) -> list[Band]:
    by_metric: defaultdict[tuple[str, str], list[tuple[RunComparison, Result]]] = defaultdict(list)
    for comparison in comparisons:
        for result in comparison.results:
            by_metric[result.name, result.comparison.candidate_arm].append((comparison, result))
    found = []
    for results in by_metric.values():
        by_run = {comparison.candidate.run_id: each.comparison for comparison, each in results}
        compared = [by_run.get(comparison.candidate.run_id) for comparison in comparisons]
        last = results[-1][1]
        effects = [each.comparison.effect for _, each in results]
        known = [effect for effect in effects if effect is not None]
        changed = {flip.sample_id for comparison, each in results for flip in comparison.flips_of(each)}
        own = last.comparison
        found.append(
            Band(
                dataset=own.dataset,
                metric=own.metric,
                arm=own.candidate_arm,
                unit=last.unit,
                values=(
                    results[0][1].comparison.baseline,
                    *(None if each is None else each.candidate for each in compared),
                ),
                change=own.effect,
                n_pairs=own.n_pairs,
                won=own.wins,
                lost=own.losses,
                changed=len(changed),
                band=max(0.0, *known) - min(0.0, *known) if known else None,
            )
        )
    return found


def _texts(home: Path, levels: Sequence[Level]) -> list[Texts]:
    """Reasoning is text too. Requests that one of the runs has not are left out."""
    columns = ["dataset", "arm", "kind", "phase", "output", "reasoning"]
    runs = [
        {
            row["request_id"]: row
            for row in last_attempts(home, level.run_id, columns=columns)
            if row["kind"] == "generate" and row["phase"] in (None, "quality")
        }
        for level in levels
    ]
    counts: dict[tuple[str, str], list[int]] = {}
    for request_id, row in runs[0].items():
        answers = [run.get(request_id) for run in runs]
        texts = {(each["reasoning"], each["output"]) for each in answers if each is not None}
        if None not in answers:
            count = counts.setdefault((row["dataset"], row["arm"]), [0, 0])
            count[0] += 1
            count[1] += len(texts) > 1
    return [
        Texts(dataset=dataset, arm=arm, n=n, differ=differ) for (dataset, arm), (n, differ) in sorted(counts.items())
    ]


def _engines(home: Path, levels: Sequence[Level]) -> list[str]:
    engines = [read_rows(home, "engines", level.run_id, columns=[*_HELD, "revision"]) for level in levels]
    first, *others = (rows[-1] if rows else {} for rows in engines)
    return [
        f"{name} differs too, {first.get(name)} against {other.get(name)}: not the batch size alone has changed"
        for other in others
        for name in _HELD
        if first.get(name) != other.get(name)
    ]


def save(home: Path, noise: Noise) -> None:
    """Writes it among the metrics of the run with the highest concurrency, as `noise.<dataset>.<metric>` of the scope
    `run`. Raises OSError where the disk is full."""
    run_id = noise.levels[-1].run_id
    before = [int(row["revision"]) for row in read_rows(home, "metrics", run_id, columns=["revision"])]
    revision = max(before, default=-1) + 1
    write_rows(
        home=home,
        table="metrics",
        run_id=run_id,
        rows=metric_rows(aggregates(noise)),
        part=f"{revision:04d}-noise",
        revision=revision,
    )
    ensure_fresh(home)


def aggregates(noise: Noise) -> list[Aggregate]:
    """The rows of `metrics`: a band for each metric, the share of texts that differ for each dataset."""
    common: dict[str, Any] = {
        "concurrency": [level.concurrency for level in noise.levels],
        "runs": [level.run_id for level in noise.levels],
    }
    bands = [
        Aggregate(
            scope="run",
            name=f"{PREFIX}{band.dataset}.{band.metric}",
            arm=band.arm,
            value=band.band,
            unit=band.unit,
            direction="lower",
            n=band.n_pairs,
            n_failed=0,
            method="largest difference of two batch sizes",
            details=common
            | {
                "values": list(band.values),
                "change": band.change,
                "won": band.won,
                "lost": band.lost,
                "changed": band.changed,
            },
        )
        for band in noise.bands
    ]
    texts = [
        Aggregate(
            scope="run",
            name=f"{PREFIX}{each.dataset}.{TEXTS}",
            arm=each.arm,
            value=each.differ / each.n,
            unit="share",
            direction="lower",
            n=each.n,
            n_failed=0,
            method="answers whose text is not the same at all batch sizes",
            details=common | {"count": each.differ},
        )
        for each in noise.texts
    ]
    return bands + texts


def note(home: Path, comparison: RunComparison) -> str | None:
    """What was last measured for the metrics of this comparison, on the same experiment and model; None where nothing
    was, and between two arms of one run, which the engine answered together."""
    if comparison.candidate.run_id == comparison.baseline.run_id:
        return None
    wanted = {
        (f"{PREFIX}{result.name}", result.comparison.candidate_arm): result
        for result in comparison.results
        if result.comparison.candidate_arm == result.comparison.baseline_arm
    }
    rows = _latest(home, comparison)
    found = [
        f"{result.name} ({result.arms}) by up to {rows[key]['value']:.3g}"
        for key, result in wanted.items()
        if key in rows and rows[key]["value"] is not None
    ]
    if not found:
        return None
    runs = ", ".join(dict.fromkeys(str(rows[key]["run_id"]) for key in wanted if key in rows))
    return f"the batch size alone moved {', '.join(found)}, measured by assay noise (run {runs})"


def _latest(home: Path, comparison: RunComparison) -> Mapping[tuple[str, str], dict[str, Any]]:
    candidate = comparison.candidate
    if candidate.model is None:
        return {}
    sql = f"""SELECT m.run_id, m.name, m.arm, m.value FROM metrics AS m INNER JOIN runs AS r USING (run_id)
WHERE m.scope = 'run' AND starts_with(m.name, '{PREFIX}') AND r.name = {literal(candidate.name)}
    AND json_extract_string(r.config, '$.model.name') = {literal(candidate.model)}
QUALIFY row_number() OVER (PARTITION BY m.name, m.arm ORDER BY r.started_at DESC) = 1"""  # noqa: S608 - quoted
    found = query(home=home, sql=sql)
    return {(row[1], row[2]): dict(zip(("run_id", "name", "arm", "value"), row, strict=True)) for row in found.rows}
