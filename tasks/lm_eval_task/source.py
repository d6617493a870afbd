"""Where a task's rows are: a dataset on the hub, or files."""

from typing import Any

from tasks.lm_eval_task.read import Task

_FILES = {"json": "jsonl", "csv": "csv", "parquet": "parquet", "arrow": "arrow"}
_TAKEN = ("data_files", "revision", "trust_remote_code")


def evaluated_split(task: Task) -> str:
    """The split whose rows are asked: the test split, else the validation split. Raises ConfigError where there is
    neither."""
    split = task.get("test_split") or task.get("validation_split")
    if split is None:
        raise task.refused("test_split", "it has neither a test_split nor a validation_split")
    return str(split)


def source_of(task: Task, *, split: str | None = None) -> dict[str, Any]:
    """The `source` of a split; of the one that is evaluated where none is named. Raises ConfigError."""
    path, name = task.get("dataset_path"), task.get("dataset_name")
    options = task.get("dataset_kwargs", {})
    wanted = split or evaluated_split(task)
    if not isinstance(path, str):
        raise task.refused("dataset_path", "the task names no dataset")
    for key, value in options.items():
        if key == "trust_remote_code" and value:
            task.leave("dataset_kwargs.trust_remote_code", "assay runs no dataset's code; it reads the rows from files")
        elif key not in _TAKEN:
            task.leave(f"dataset_kwargs.{key}", "assay has no such setting")
    if path in _FILES:
        return _files(task, path, options.get("data_files"), wanted)
    made: dict[str, Any] = {"kind": "hf", "id": path}
    if name is not None:
        made["subset"] = str(name)
    made["split"] = wanted
    if options.get("revision") is not None:
        made["revision"] = str(options["revision"])
    if "[" in wanted or "+" in wanted:
        key = next(
            (each for each in ("test_split", "validation_split") if task.values.get(each) == wanted), "dataset_path"
        )
        task.leave(key, f"assay reads whole splits, and not {wanted!r}: write `limit` or `sample`")
        made["split"] = wanted.split("[")[0].split("+")[0]
    return made


def _files(task: Task, kind: str, files: Any, split: str) -> dict[str, Any]:
    listed = files.get(split) if isinstance(files, dict) else files
    file = listed[0] if isinstance(listed, list) and len(listed) == 1 else listed
    if not isinstance(file, str):
        raise task.refused("dataset_kwargs.data_files", f"it names not one file for the split {split!r}")
    task.leave("dataset_kwargs.data_files", "in assay a path counts from the folder of the dataset's own YAML")
    lines = kind != "json" or file.removesuffix(".gz").removesuffix(".zst").endswith("l")
    return {"kind": _FILES[kind] if lines else "json", "path": file}
