"""Calls to the server: one session, the key on it, no redirect followed."""

import ssl
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from tasks.engine.endpoint.key import Scrub

MOST_BYTES = 1 << 20
"""Of a body that is read whole and is no answer."""
_IDLE_S = 4.0
"""For how long a connection without a request is kept: many servers close theirs after five seconds."""
_LOOK_S = 10.0


class Http:
    """The server's address and the way there. Closed by `close`."""

    def __init__(self, base: str, *, key: str | None, connect_s: float) -> None:
        self.base = base
        self.scrub = Scrub(key)
        self.proxy = proxy_of(base)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S, ttl_dns_cache=300)
        headers = {"Accept-Encoding": "identity", "User-Agent": "assay"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s, connect=None, sock_read=None),
            read_bufsize=1 << 18,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    @property
    def root(self) -> str:
        """The address without its /v1: where a server has what is not OpenAI's."""
        head, _, last = self.base.rpartition("/")
        return head if last[:1] == "v" and last[1:].isdigit() else self.base

    def post(self, path: str, data: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """A call of the API with a body of JSON."""
        return self._session.post(
            URL(f"{self.base}/{path}", encoded=True),
            data=data,
            headers={"Content-Type": "application/json"},
            allow_redirects=False,
            proxy=self.proxy,
        )

    async def call(self, method: str, url: str, *, timeout_s: float = _LOOK_S) -> tuple[int, bytes, Mapping[str, str]]:
        """State, body and headers of a call without a body. Raises aiohttp.ClientError, OSError or TimeoutError."""
        async with self._session.request(
            method,
            URL(url, encoded=True),
            allow_redirects=False,
            proxy=self.proxy,
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as response:
            return response.status, await self.read(response, most=16 * MOST_BYTES), response.headers

    async def read(self, response: aiohttp.ClientResponse, *, most: int | None = MOST_BYTES) -> bytes:
        """The body, of one that is too long its beginning."""
        if most is None:
            return await response.read()
        found = bytearray()
        async for part in response.content.iter_any():
            found += part
            if len(found) >= most:
                break
        return bytes(found[:most])

    async def close(self) -> None:
        await self._session.close()


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for this address; None where there is none."""
    parts = URL(url)
    if proxy_bypass(parts.host or ""):
        return None
    return getproxies().get(parts.scheme)


def in_words(error: Exception) -> str:
    """A failed call, in one line."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError):
        return f"its certificate is not trusted ({error}); SSL_CERT_FILE names a file of further authorities"
    if isinstance(error, TimeoutError):
        return "no answer came in time"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def json_of(content: bytes) -> Any:
    """The JSON value of a body; None where it is none."""
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
