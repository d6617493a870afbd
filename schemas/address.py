"""The address of somebody's server, as configurations hold it."""

from urllib.parse import urlsplit


def checked_address(value: str, *, added: tuple[str, ...] = ()) -> str:
    """The address without a slash at its end. added: what assay puts behind it itself, and it must not end with.

    Raises ValueError for what is no address, and for one that holds a key: it is recorded."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"`{value}` is no address: it begins with http:// or https:// and names a host")
    if " " in value or not value.isprintable() or parts.port == 0:  # `port` raises ValueError beyond 65535
        raise ValueError(f"`{value!a}` is no address")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("the address is recorded, so it holds no key: name the key's variable in `api_key_env`")
    for end in added:
        if parts.path.rstrip("/").endswith(end):
            raise ValueError(f"the address ends before `{end}`, which assay adds itself")
    return value.rstrip("/")


def is_loopback(host: str | None) -> bool:
    """Whether it names the machine that asks, which no other one reaches by it. None: no."""
    return host is not None and (host in ("localhost", "::1") or host.startswith("127."))
