"""A place in S3-compatible storage that holds a warehouse: its URL, its client, its errors.

Credentials, region and endpoint come from where every S3 program takes them: the AWS_* variables and the shared files
of the AWS tools. The client is Arrow's own, so that no other package is needed.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyarrow import fs  # type: ignore[import-untyped]

from schemas.errors import ConfigError, RunError
from warehouse.parts import Compacted, plain_file_name

_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9._=-]+)*)/*")
_CONNECT_S, _REQUEST_S, _ATTEMPTS = 3.0, 20.0, 2
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_OTHER_SOURCES = ("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
_MORE_SOURCES = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ROLE_ARN")
_SHARED = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
_CREDENTIALS_ADVICE = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
_REASONS: tuple[tuple[str, str, str], ...] = (
    ("NO_SUCH_BUCKET", "there is no such bucket", "create it, or check the name and AWS_ENDPOINT_URL"),
    ("INVALID_ACCESS_KEY_ID", "the access key is not known there", _CREDENTIALS_ADVICE),
    ("SIGNATURE_DOES_NOT_MATCH", "the secret key is wrong", _CREDENTIALS_ADVICE),
    ("EXPIRED_TOKEN", "the credentials have expired", "get new ones"),
    ("ACCESS_DENIED", "access is denied", f"{_CREDENTIALS_ADVICE}, of a user who may list, read and write there"),
    ("resolve host", "there is no host of that name", "check AWS_ENDPOINT_URL"),
    ("NETWORK_CONNECTION", "no connection to the server", "check that it is up, and AWS_ENDPOINT_URL"),
    ("SLOW_DOWN", "the server asks for fewer requests", "try again later"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder in a bucket. endpoint is empty for Amazon's own; path is `bucket/prefix`, as Arrow names it."""

    bucket: str
    prefix: str
    endpoint: str
    region: str

    @property
    def path(self) -> str:
        """Bucket and prefix."""
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    @property
    def url(self) -> str:
        """The same as a URL, without a slash at its end."""
        return f"s3://{self.path}"

    @property
    def shown(self) -> str:
        """The URL for people, with the server if it is not Amazon's."""
        return f"{self.url} at {self.endpoint}" if self.endpoint else self.url


def place(url: str, *, environment: Mapping[str, str] | None = None) -> Place:
    """What `s3://bucket/prefix` means here. Raises ConfigError for another URL, or where there are no credentials."""
    given = os.environ if environment is None else environment
    match = _URL.fullmatch(url)
    if match is None:
        raise ConfigError.one(
            f"{url!r} is no address of a folder in S3",
            suggestion="write s3://BUCKET or s3://BUCKET/PREFIX; a prefix has letters, digits, '.', '_', '=', '-', '/'",
        )
    endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or ""
    if endpoint and not re.fullmatch(r"https?://[^/\s]+/?", endpoint):
        raise ConfigError.one(
            f"{endpoint!r} is no server's address", key="AWS_ENDPOINT_URL", suggestion="write http://HOST:PORT"
        )
    if not _has_credentials(given, endpoint=endpoint):
        raise ConfigError.one(f"no credentials for {url}", suggestion=_CREDENTIALS_ADVICE)
    region = given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION") or ("us-east-1" if endpoint else "")
    return Place(bucket=match[1], prefix=match[2].strip("/"), endpoint=endpoint.rstrip("/"), region=region)


def connected(where: Place) -> fs.FileSystem:
    """A client for the place, after a look whether the bucket is there. Raises ConfigError or RunError, within seconds,
    with the reason and what to do."""
    missing = ConfigError.one(
        f"{where.shown}: there is no such bucket", suggestion="create it, or check the name and AWS_ENDPOINT_URL"
    )
    with explained(where):
        try:
            found = client(where)
            known = found.get_file_info(where.bucket).type
        except FileNotFoundError as error:
            raise missing from error
        except OSError as error:
            if "ACCESS_DENIED" not in str(error):
                raise
            return found  # who may use the prefix alone may not look at the bucket
    if known == fs.FileType.NotFound:
        raise missing
    return found


def client(where: Place) -> fs.FileSystem:
    """A client for the place. Asks nobody but, at Amazon and without a region, for the bucket's region."""
    options: dict[str, object] = {
        "connect_timeout": _CONNECT_S,
        "request_timeout": _REQUEST_S,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    }
    if authority := os.environ.get("AWS_CA_BUNDLE"):
        options["tls_ca_file_path"] = authority
    if where.endpoint:
        scheme, _, host = where.endpoint.partition("://")
        options |= {"scheme": scheme, "endpoint_override": host}
    return fs.S3FileSystem(region=where.region or fs.resolve_s3_region(where.bucket), **options)


@contextmanager
def explained(where: Place) -> Iterator[None]:
    """Turns what the client raises into a RunError that says what to do. A file that is not there stays
    FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        text = str(error)
        for mark, reason, advice in _REASONS:
            if mark in text:
                raise RunError(f"{where.shown}: {reason} ({advice})") from error
        raise RunError(f"{where.shown}: {text.splitlines()[0]}") from error


def listed(store: fs.FileSystem, *, where: Place, folder: str) -> dict[str, fs.FileInfo]:
    """The files below a folder of the place, by their path inside the place."""
    selector = fs.FileSelector(f"{where.path}/{folder}", recursive=True, allow_not_found=True)
    start = len(where.path) + 1
    return {info.path[start:]: info for info in store.get_file_info(selector) if info.type == fs.FileType.File}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a manifest there says. superseded: when each file was replaced there, in seconds since the epoch; written:
    when each part was written at home, in nanoseconds."""

    compacted: tuple[Compacted, ...] = ()
    superseded: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)


def contents(manifest: bytes | None, *, source: str) -> Contents:
    """Reads a manifest; None for one that is not there. Raises RunError, which names source, where it is none."""
    if manifest is None:
        return Contents()
    try:
        raw = json.loads(manifest)
        return Contents(
            compacted=tuple(
                Compacted(name=plain_file_name(each["name"]), holds=str(each["holds"])) for each in raw["compacted"]
            ),
            superseded={str(name): float(moment) for name, moment in raw["superseded"].items()},
            written={str(name): int(moment) for name, moment in raw.get("written", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{source}: not a manifest that assay wrote: {error} (push again from the first host)"
        ) from error


def _has_credentials(given: Mapping[str, str], *, endpoint: str) -> bool:
    """Whether there is anywhere to find some. On Amazon's own machines a role may give them, which only a request
    tells; another server has no such thing, and asking for it would take long."""
    if all(given.get(name) for name in _KEYS) or any(given.get(name) for name in _OTHER_SOURCES + _MORE_SOURCES):
        return True
    home = Path(given.get("HOME", "~")).expanduser() / ".aws"
    if any(Path(given.get(name, home / usual)).exists() for name, usual in _SHARED.items()):
        return True
    return not endpoint and given.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"
