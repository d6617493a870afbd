"""Reads what lm-evaluation-harness 0.4 wrote with `--log_samples`: results_*.json and samples_*.jsonl beside it.

Its numbers keep names of their own (`lm_eval.exact_match`, with a filter `lm_eval.exact_match,strict-match`): they are
not the metrics that assay has under the same words. Values of samples that are numbers become scores, and their mean
is compared with the one in the results.
"""

import datetime
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.metric import Aggregate, Score
from tasks.dataset.rows import canonical_json, sha256_hex
from tasks.dataset.unicode import valid_values
from tasks.predictions.imported import Imported
from tasks.predictions.read import records
from tasks.record.rows import metric_rows, score_rows
from tasks.requests import request_id
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.wilson import rate_interval

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?")
_SAME = 1e-9
_SHOWN = 5

Row = dict[str, Any]


def read_lm_eval(path: Path) -> Imported:
    """The run of a results file, or of a folder that holds one. Raises ConfigError, with file and line: none or several
    there, no samples beside it, content that is not as the harness writes it."""
    file = _results_file(path)
    try:
        content = file.read_bytes()
        results = json.loads(content)
        started_at = datetime.datetime.fromtimestamp(float(results["date"]), tz=datetime.UTC)
        named: Mapping[str, Mapping[str, Any]] = results["results"]
        model = str(results.get("model_name") or results["config"]["model"])
    except OSError as error:
        raise ConfigError.one(f"cannot be read: {error.strerror}", file=file) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError.one(
            f"not a results file of lm-evaluation-harness 0.4: {type(error).__name__}: {error}", file=file
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    config = {
        "name": model,
        "model": {"name": model},
        "arms": ["free"],
        "imported": {"from": "lm-eval", "file": str(file), "sha256": digest},
        "lm_eval": {key: results.get(key) for key in ("config", "versions", "n-shot", "git_hash", "lm_eval_version")},
    }
    versions = {"lm_eval": results.get("lm_eval_version"), "transformers": results.get("transformers_version")}
    made = Imported(
        run_id=f"{started_at:%Y%m%dT%H%M%S}-{digest[:6]}",
        started_at=started_at,
        ended_at=started_at + datetime.timedelta(seconds=_seconds(results.get("total_evaluation_time_seconds"))),
        config=config,
        packages={name: str(version) for name, version in versions.items() if version},
    )
    samples = _sample_files(file)
    for task in named:
        if task in samples:
            _Task(task, file=samples[task], results=results, into=made).read()
        elif any("," in key for key in named[task]):
            made.warnings.append(f"{task}: no file of samples, so it is left out (a group, or --log_samples was off)")
    made.tables["metrics"] = metric_rows(made.metrics)
    return made


def _results_file(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise ConfigError.one("there is no such file or folder", file=path)
    found = sorted(path.rglob("results_*.json"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError.one("no results_*.json in it", file=path, suggestion="name the harness's --output_path")
    names = ", ".join(str(each.relative_to(path)) for each in found[:_SHOWN])
    raise ConfigError.one(f"{len(found)} results in it: {names}", file=path, suggestion="name one of them")


def _sample_files(file: Path) -> dict[str, Path]:
    date = _DATE.search(file.name)
    if date is None:
        raise ConfigError.one("its name has no date, as in results_2026-01-31T12-00-00.123456.json", file=file)
    found: dict[str, Path] = {}
    for suffix in (".jsonl", ".jsonl.gz"):
        end = f"_{date[0]}{suffix}"
        for each in sorted(file.parent.glob("samples_*")):
            if each.name.endswith(end):
                found[each.name.removeprefix("samples_").removesuffix(end)] = each
    if not found:
        raise ConfigError.one(f"no samples_*_{date[0]}.jsonl beside it", file=file, suggestion="use --log_samples")
    return found


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return 0.0
    return seconds if math.isfinite(seconds) and seconds >= 0 else 0.0


class _Task:
    """One task: its lines as samples, requests and scores."""

    def __init__(self, task: str, *, file: Path, results: Mapping[str, Any], into: Imported) -> None:
        self.task, self.file, self.results, self.into = task, file, results, into
        self.samples: dict[str, Row] = {}
        self.requests: list[Row] = []
        self.scores: dict[tuple[str, str], Score] = {}
        self.hashes: list[str] = []

    def read(self) -> None:
        for line, record in records(self.file):
            try:
                self._line(valid_values(record), line=line)
            except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
                raise ConfigError.one(
                    f"not a sample as lm-evaluation-harness 0.4 logs it: {type(error).__name__}: {error}",
                    file=self.file,
                    line=line,
                ) from error
        tables = self.into.tables
        tables.setdefault("datasets", []).append(self._dataset())
        tables.setdefault("samples", []).extend(self.samples.values())
        tables.setdefault("requests", []).extend(self.requests)
        tables.setdefault("scores", []).extend(score_rows(self.scores.values(), scored_at=self.into.ended_at))
        self.into.metrics += self._metrics()

    def _line(self, record: Row, *, line: int) -> None:
        sample_id = f"{self.task}:{record['doc_id']}"
        if sample_id not in self.samples:
            self._sample(record, sample_id=sample_id)
        name_of = record.get("filter", "none")
        values = {name: record[name] for name in record["metrics"]}
        for name, value in values.items():
            if not isinstance(value, bool | int | float) or not math.isfinite(value):
                continue
            metric = f"lm_eval.{name}" if name_of == "none" else f"lm_eval.{name},{name_of}"
            if (sample_id, metric) in self.scores:
                raise ConfigError.one(f"a second line for {sample_id} and {metric}", file=self.file, line=line)
            self.scores[sample_id, metric] = Score(
                dataset=self.task,
                sample_id=sample_id,
                arm="free",
                repeat=0,
                metric=metric,
                metric_version=1,
                value=float(value),
                extracted=_extracted(record.get("filtered_resps")),
            )

    def _sample(self, record: Row, *, sample_id: str) -> None:
        asked = [list(each.values()) for each in record["arguments"].values()]
        prompt = asked[0][0] if isinstance(asked[0][0], str) else canonical_json(asked[0][0])
        options = [
            str(each[1]) for each in asked if len(each) > 1 and isinstance(each[1], str) and each[0] == asked[0][0]
        ]
        self.hashes.append(str(record.get("doc_hash") or sha256_hex(canonical_json(record["doc"]))))
        self.samples[sample_id] = {
            "dataset": self.task,
            "sample_id": sample_id,
            "row_index": record["doc_id"],
            "raw": canonical_json(record["doc"]).encode("ascii"),
            "input": record["doc"] if isinstance(record["doc"], dict) else {"doc": record["doc"]},
            "prompt": prompt,
            "prompt_hash": sha256_hex(prompt)[:16],
            "target": json.dumps(record["target"]),
            "choices": options or None,
        }
        for index, (each, answers) in enumerate(zip(asked, record["resps"], strict=True)):
            self.requests += self._answers(sample_id, index, each, answers)

    def _answers(self, sample_id: str, index: int, asked: Sequence[Any], answers: Sequence[Any]) -> Iterator[Row]:
        generated = len(asked) > 1 and isinstance(asked[1], dict)
        for repeat, answer in enumerate(answers):
            kind = "generate" if generated else "loglikelihood"
            choice = None if generated else index
            row = {
                "request_id": request_id(sample_id, "free", kind, choice, repeat),
                "attempt": 0,
                "dataset": self.task,
                "sample_id": sample_id,
                "arm": "free",
                "kind": kind,
                "choice_index": choice,
                "repeat": repeat,
                "phase": "quality",
                "status": "ok",
            }
            if generated:
                yield row | {"output": str(answer), "sampling": asked[1]}
            else:
                yield row | {"logprob_sum": float(answer[0] if isinstance(answer, list) else answer)}

    def _metrics(self) -> Iterator[Aggregate]:
        """The numbers of the results; where the samples have the values, with our own interval over them."""
        better = (self.results.get("higher_is_better") or {}).get(self.task) or {}
        published: Mapping[str, Any] = self.results["results"][self.task]
        by_metric: dict[str, list[float]] = {}
        for (_, metric), score in self.scores.items():
            by_metric.setdefault(metric, []).append(score.value if score.value is not None else math.nan)
        for key, value in published.items():
            name, comma, filtered = key.partition(",")
            if not comma or name.endswith("_stderr") or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            metric = f"lm_eval.{name}" if filtered == "none" else f"lm_eval.{name},{filtered}"
            values = by_metric.get(metric, [])
            rate = bool(values) and all(each in (0, 1) for each in values)
            own = (rate_interval(values) if rate else mean_stderr(values)) if values else None
            same = own is not None and own.value is not None and abs(own.value - value) <= _SAME * max(1, abs(value))
            if own is not None and not same:
                text = f"{self.task}.{metric}: the results say {value:.6g}, the mean of its samples is {own.value}"
                self.into.warnings.append(f"{text}: it is no mean, or samples are missing")
            stderr = published.get(f"{name}_stderr,{filtered}")
            yield Aggregate(
                scope="dataset",
                name=f"{self.task}.{metric}",
                arm="free",
                value=float(value),
                unit="share" if rate else "the metric's",
                direction="lower" if better.get(name) is False else "higher",
                n=len(values) or len(self.samples),
                n_failed=0,
                stderr=own.stderr if own is not None and same else stderr if isinstance(stderr, float) else None,
                lo=own.lo if own is not None and same else None,
                hi=own.hi if own is not None and same else None,
                method=own.method if own is not None and same else "lm-eval",
                details={"metric_version": 1, "stderr_lm_eval": stderr},
            )

    def _dataset(self) -> Row:
        config = (self.results.get("configs") or {}).get(self.task) or {}
        counts = (self.results.get("n-samples") or {}).get(self.task) or {}
        names = (str(config[key]) for key in ("dataset_path", "dataset_name") if config.get(key))
        return {
            "dataset": self.task,
            "source": "/".join(names) or None,
            "fingerprint": sha256_hex("".join(self.hashes)),
            "rows_total": counts.get("original"),
            "rows_used": len(self.samples),
            "few_shot": (self.results.get("n-shot") or {}).get(self.task),
        }


def _extracted(filtered: Any) -> str | None:
    """What a filter took from the answer, where it is a text."""
    first = filtered[0] if isinstance(filtered, list) and filtered else None
    return first if isinstance(first, str) else None
