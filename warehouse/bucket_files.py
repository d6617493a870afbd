"""Files in S3-compatible storage as DuckDB reads them where it has no extension for that: a file system for reading."""

from collections.abc import Mapping
from typing import Any

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
from pyarrow import fs  # type: ignore[import-untyped]

_SCHEME = "s3://"


class BucketFiles(AbstractFileSystem):  # type: ignore[misc]
    """`s3://bucket/key` by an Arrow client, for reading alone. Sizes that are known save a request a file."""

    protocol = "s3"
    cachable = False

    def __init__(self, *, client: fs.FileSystem, sizes: Mapping[str, int]) -> None:
        """sizes: bytes by `bucket/key`."""
        super().__init__()
        self._client = client
        self._sizes = sizes

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return [each.removeprefix(_SCHEME) for each in path] if isinstance(path, list) else path.removeprefix(_SCHEME)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What lies directly in a folder."""
        selector = fs.FileSelector(self._strip_protocol(path).rstrip("/"), allow_not_found=True)
        entries = [self._entry(info) for info in self._client.get_file_info(selector)]
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Size and kind of one file or folder. Raises FileNotFoundError."""
        name = self._strip_protocol(path)
        if name in self._sizes:
            return {"name": name, "size": self._sizes[name], "type": "file"}
        found = self._client.get_file_info(name)
        if found.type == fs.FileType.NotFound:
            raise FileNotFoundError(path)
        return self._entry(found)

    def modified(self, path: str) -> Any:
        """When a file was written, in UTC."""
        return self._client.get_file_info(self._strip_protocol(path)).mtime

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode != "rb":
            raise PermissionError(f"{path}: only reading is allowed")
        return self._client.open_input_file(self._strip_protocol(path))

    @staticmethod
    def _entry(info: fs.FileInfo) -> dict[str, Any]:
        kind = "directory" if info.type == fs.FileType.Directory else "file"
        return {"name": info.path, "size": info.size or 0, "type": kind, "mtime": info.mtime}
