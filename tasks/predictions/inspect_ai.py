"""Turns a log of Inspect into a run: each sample and epoch as a request, each of its scores as a number.

Its numbers keep names of their own (`inspect.includes`; `inspect.style.polite` where a scorer gives several), since
they are not the metrics that assay has under the same words. What no table has a column for goes into details.
"""

import datetime
import gzip
import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError
from schemas.metric import Score
from schemas.run import RunStatus
from tasks.dataset.rows import canonical_json, jsonable, sha256_hex
from tasks.dataset.unicode import valid_values
from tasks.predictions.imported import Imported, Row
from tasks.predictions.inspect_log import InspectLog, content_reasoning, content_text, log_file, resolved
from tasks.predictions.inspect_scores import log_metrics, named_values, unreadable
from tasks.record.rows import metric_rows, score_rows
from tasks.requests import request_id

_STATUS: dict[str, RunStatus] = {"success": "finished", "error": "failed", "cancelled": "cancelled"}
_CUT = ("max_tokens", "model_length")
_MAPPED = ("id", "input", "choices", "target", "metadata")
_LEFT_IN_THE_LOG = ("events", "events_data", "timelines", "attachments", "transcript")
"""What would make a run as large as the log; the run names the log and its sha256."""
_NOT_ASKED = ("eval_id", "run_id", "eval_set_id", "created", "task_id", "tags", "viewer")
"""What differs between any two evals. With the results it is in the details' last line."""
_ASKED = ("temperature", "top_p", "top_k", "max_tokens", "seed")


def read_inspect(path: Path, *, name: str | None = None) -> Imported:
    """The run of a log, or of a folder that holds one.

    name: the dataset's; the task's if left out. A sample's id here is `<name>:<id>`, so that it pairs with the samples
    of any run that has a dataset of this name and these ids. Raises ConfigError, with the file and where in it: no log,
    one without samples, a sample that is there twice, content that is not as Inspect writes it."""
    file = log_file(path)
    log = InspectLog(file)
    made = _Samples(log, name=name)
    where = ""
    for where, sample in log.samples():
        try:
            made.add(valid_values(jsonable(resolved(sample, sample.get("attachments") or {}))))
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise _not_inspect(error, file=file, where=where) from error
    try:
        return made.imported()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _not_inspect(error, file=file, where="header") from error


def _not_inspect(error: Exception, *, file: Path, where: str) -> ConfigError:
    return ConfigError.one(f"{where}: not as Inspect writes its logs: {type(error).__name__}: {error}", file=file)


class _Samples:
    """Gathers the samples of one log. The dataset's name may come last, so it is put in at the end."""

    def __init__(self, log: InspectLog, *, name: str | None) -> None:
        self.log, self.name = log, name
        self.samples: dict[str, Row] = {}
        self.answers: dict[tuple[str, int], list[Row]] = {}
        self.values: dict[tuple[str, int], dict[str, Row]] = {}
        self.unreadable: Counter[str] = Counter()
        self.packed = io.BytesIO()
        self.details = gzip.GzipFile(fileobj=self.packed, mode="wb", mtime=0)

    def add(self, sample: Row) -> None:
        own, repeat = str(sample["id"]), int(sample["epoch"]) - 1
        if (own, repeat) in self.answers:
            raise ConfigError.one(f"sample {own!r} is there twice in epoch {repeat + 1}", file=self.log.file)
        if own not in self.samples:
            self.samples[own] = _sample(sample, index=len(self.samples))
        self.answers[own, repeat] = list(_attempts(sample, model=self._model()))
        scores = sample.get("scores")
        if scores is None and sample.get("score") is not None:  # logs of 2024
            scores = {"score": sample["score"]}
        self.values[own, repeat] = named_values(scores or {})
        self.unreadable.update(unreadable(scores or {}))
        left = {key: value for key, value in sample.items() if key not in _MAPPED and key not in _LEFT_IN_THE_LOG}
        for each in left.get("error_retries") or []:
            each.pop("events", None)
        left = {key: value for key, value in left.items() if value not in (None, [], {})}
        line = canonical_json({"sample_id": own, "repeat": repeat, **left})
        self.details.write(line.encode("ascii") + b"\n")

    def _model(self) -> str | None:
        return (self.log.header.get("eval") or {}).get("model")

    def imported(self) -> Imported:
        header = valid_values(jsonable(self.log.header))
        spec = header["eval"]
        if not self.samples:
            raise ConfigError.one("no samples in the log", file=self.log.file, suggestion="log them: --log-samples")
        dataset = self.name or str(spec["task"]).rsplit("/", 1)[-1]
        stats = header.get("stats") or {}
        started_at = _time(stats.get("started_at") or spec["created"])
        digest = _sha256(self.log.file)
        status = _STATUS.get(header.get("status", "started"), "crashed") if self.log.finished else "crashed"
        error = (header.get("error") or {}).get("message")
        made = Imported(
            run_id=f"{started_at:%Y%m%dT%H%M%S}-{digest[:6]}",
            started_at=started_at,
            ended_at=_time(stats["completed_at"]) if stats.get("completed_at") else started_at,
            config=_config(header, file=self.log.file, digest=digest, dataset=dataset, samples=self.samples),
            packages={name: str(version) for name, version in (spec.get("packages") or {}).items()},
            status=status,
            error=error or (None if status == "finished" else f"Inspect says: {header.get('status', 'started')}"),
            tags={str(tag): "true" for tag in [*(spec.get("tags") or []), *(header.get("tags") or [])]},
        )
        order = {str(own): index for index, own in enumerate((spec.get("dataset") or {}).get("sample_ids") or [])}
        self._tables(made, header, dataset=dataset, order=order)
        self.details.write(canonical_json({"header": header}).encode("ascii") + b"\n")
        self.details.close()
        made.details = self.packed.getvalue()
        return made

    def _tables(self, made: Imported, header: Row, *, dataset: str, order: Mapping[str, int]) -> None:
        """order: each id's place in the dataset, as far as the log says it."""
        scores = list(self._scores(dataset))
        sorted_ids = sorted(self.samples, key=lambda own: (order.get(own, len(order)), self.samples[own]["row_index"]))
        samples = []
        for index, own in enumerate(sorted_ids):
            row_index = order.get(own, index if not order else len(order) + index)
            samples.append(self.samples[own] | _names(dataset, own) | {"row_index": row_index})
        requests = []
        for (own, repeat), attempts in self.answers.items():
            sample_id = f"{dataset}:{own}"
            named = _names(dataset, own) | {
                "request_id": request_id(sample_id, "free", "generate", repeat=repeat),
                "arm": "free",
                "kind": "generate",
                "repeat": repeat,
                "phase": "quality",
                "sampling": made.config["sampling"] or None,
            }
            requests += [named | answer | {"attempt": attempt} for attempt, answer in enumerate(attempts)]
        source = header["eval"].get("dataset") or {}
        made.tables = {
            "datasets": [
                {
                    "dataset": dataset,
                    "source": source.get("location") or source.get("name") or dataset,
                    "fingerprint": sha256_hex("".join(sha256_hex(row["raw"]) for row in samples)),
                    "rows_total": source.get("samples"),
                    "rows_used": len(samples),
                }
            ],
            "samples": samples,
            "requests": requests,
            "scores": score_rows(scores, scored_at=made.ended_at),
        }
        made.metrics, warnings = log_metrics(header.get("results") or {}, scores=scores, dataset=dataset)
        made.warnings = warnings + [
            f"{dataset}.{metric}: {count:,} values are no numbers, such as {json.loads(value)!r}, and are left out"
            for (metric, value), count in _one_each(self.unreadable).items()
        ]
        if made.status != "finished":
            made.warnings.append(f"the eval did not finish: {made.error}")
        made.tables["metrics"] = metric_rows(made.metrics)

    def _scores(self, dataset: str) -> Iterator[Score]:
        """A score of every metric for every answer: one that the log does not have has no value, and says why."""
        metrics = list(dict.fromkeys(metric for values in self.values.values() for metric in values))
        for (own, repeat), values in self.values.items():
            last = self.answers[own, repeat][-1]
            for metric in metrics:
                known = values.get(metric) or {"value": None, "reason": last["error"] or "the log has no such score"}
                yield Score(
                    dataset=dataset,
                    sample_id=f"{dataset}:{own}",
                    arm="free",
                    repeat=repeat,
                    metric=metric,
                    metric_version=1,
                    request_id=request_id(f"{dataset}:{own}", "free", "generate", repeat=repeat),
                    **known,
                )


def _names(dataset: str, own: str) -> dict[str, str]:
    return {"dataset": dataset, "sample_id": f"{dataset}:{own}"}


def _sample(sample: Row, *, index: int) -> Row:
    """What was asked. The row's identity is of the dataset's own fields, so that it is the same in every log."""
    asked = sample["input"]
    listed = asked if isinstance(asked, list) else [{"role": "user", "content": asked}]
    target = sample["target"][0] if isinstance(sample["target"], list) and len(sample["target"]) == 1 else None
    fields = {
        "id": sample["id"],
        "input": "\n\n".join(content_text(message["content"]) for message in listed),
        "target": sample["target"] if target is None else target,
    }
    if isinstance(asked, list):
        fields["messages"] = [_message(message) for message in asked]
    for name in ("choices", "metadata"):
        if sample.get(name):
            fields[name] = sample[name]
    sent = [_message(message) for message in _first_request(sample.get("messages") or listed)]
    prompt = "\n\n".join(message["content"] for message in sent)
    return {
        "row_index": index,
        "raw": canonical_json(fields).encode("ascii"),
        "input": fields,
        "prompt": prompt,
        "prompt_hash": sha256_hex(canonical_json(sent))[:16],
        "messages": sent,
        "target": fields["target"],
        "choices": sample.get("choices") or None,
    }


def _first_request(messages: list[Row]) -> list[Row]:
    """The messages before the model's first answer: what a solver had made of the input."""
    for index, message in enumerate(messages):
        if message.get("role") == "assistant" and message.get("source") == "generate":
            return messages[:index]
    return messages


def _message(message: Row) -> Row:
    return {"role": message["role"], "content": content_text(message["content"])}


def _attempts(sample: Row, *, model: str | None) -> Iterator[Row]:
    """An answer's attempts: those that failed and were made again, then the one that counts."""
    for each in sample.get("error_retries") or []:
        yield {"status": "error", "error": str(each["message"])}
    output = sample.get("output") or {}
    first: Row = next(iter(output.get("choices") or []), {})
    content = (first.get("message") or {}).get("content")
    reason, limit = first.get("stop_reason"), sample.get("limit")
    row: Row = {"status": "ok", "error": None, "output": None, "finish_reason": _finish_reason(reason)}
    if first:
        completion = output.get("completion")
        row["output"] = content_text(content) if completion is None else completion
        row["reasoning"] = content_reasoning(content)
    if sample.get("error") is not None:
        row |= {"status": "error", "error": str(sample["error"]["message"])}
    elif limit is not None:
        row |= {"status": "truncated", "finish_reason": "abort", "error": _limit(limit)}
    elif reason in _CUT:
        row["status"] = "truncated"
    elif not first:
        row |= {"status": "error", "error": "the log has no answer"}
    yield row | _tokens(sample, model=model) | {"e2e_ms": _e2e_ms(sample, output)}


def _finish_reason(reason: str | None) -> str | None:
    return "length" if reason in _CUT else None if reason in (None, "unknown") else reason


def _limit(limit: Row) -> str:
    reason = limit.get("reason")
    return f"Inspect ended it: {limit['type']} limit of {limit['limit']:g}" + (f" ({reason})" if reason else "")


def _tokens(sample: Row, *, model: str | None) -> Row:
    """What the evaluated model used over all turns; NULL where the log does not say. A grader's tokens do not count."""
    usages = sample.get("model_usage") or {}
    usage = usages.get(model) or (next(iter(usages.values())) if len(usages) == 1 else None)
    if usage is None:
        return {}
    cached = usage.get("input_tokens_cache_read")
    read = [usage.get("input_tokens"), cached, usage.get("input_tokens_cache_write")]
    known = [count for count in read if count is not None]
    return {
        "prompt_tokens": sum(known) if known else None,
        "cached_tokens": cached,
        "output_tokens": usage.get("output_tokens"),
        "reasoning_tokens": usage.get("reasoning_tokens"),
    }


def _e2e_ms(sample: Row, output: Row) -> float | None:
    """The model's time for its answer, where there was one call: over several, the log has that of the last alone."""
    answers = [each for each in sample.get("messages") or [] if each.get("source") == "generate"]
    seconds = output.get("time")
    return seconds * 1000 if len(answers) == 1 and isinstance(seconds, int | float) and math.isfinite(seconds) else None


def _config(header: Row, *, file: Path, digest: str, dataset: str, samples: Mapping[str, Row]) -> Row:
    spec = header["eval"]
    sampling = {
        name: value
        for each in (spec.get("model_generate_config"), (header.get("plan") or {}).get("config"))
        for name, value in (each or {}).items()
        if value is not None
    }
    asked = {name: value for name, value in spec.items() if name not in _NOT_ASKED}
    return {
        "name": str(spec["task"]),
        "model": {"name": str(spec["model"])},
        "arms": ["free"],
        "sampling": sampling,
        "datasets": [_stand_in(file, dataset=dataset, sampling=sampling, samples=samples)],
        "imported": {"from": "inspect", "file": str(file), "sha256": digest},
        "inspect": {"eval": asked, "plan": header.get("plan"), "metadata": header.get("metadata")},
    }


def _stand_in(file: Path, *, dataset: str, sampling: Row, samples: Mapping[str, Row]) -> Row:
    """The dataset as `assay rescore` needs it: its rows lie in the tables, so that nothing is read from the source."""
    has_choices = all(row["choices"] for row in samples.values())
    config: Row = {
        "source": {"kind": "json", "path": str(file), "field": "samples"},
        "id_field": "id",
        "prompt": {"text": "{{ input }}"},
        "target": "{{ target }}",
        "metrics": ["exact_match"],
        "description": "From a log of Inspect.",
    }
    if has_choices:
        config["choices"] = "{{ choices }}"
    asked = {name: sampling[name] for name in _ASKED if name in sampling}
    try:
        drawn = Sampling.model_validate(asked)
    except ValidationError:
        drawn = Sampling()
    named = NamedDataset(name=dataset, config=Dataset.model_validate(config), sampling=drawn)
    return named.model_dump(mode="json", by_alias=True)


def _one_each(counted: "Counter[str]") -> dict[tuple[str, str], int]:
    """Of each metric the value that is most frequent, with how many of its values were no numbers. Keys are JSON."""
    totals: dict[str, int] = {}
    shown: dict[str, str] = {}
    for key, count in counted.most_common():
        metric, value = json.loads(key)
        totals[metric] = totals.get(metric, 0) + count
        shown.setdefault(metric, json.dumps(value))
    return {(metric, shown[metric]): count for metric, count in totals.items()}


def _time(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
