"""Server-sent events out of the parts in which a connection brings them."""

LONGEST_LINE = 8 << 20
"""Bytes; far more than any event of an answer has."""


class TooLong(Exception):
    """A line that goes on and on."""


class Events:
    """Takes the parts of a stream as they come, gives the data of each event that is whole.

    Comments, ids and names of events are left out, but for an event named `error`: its data comes out of `failed`."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._name = b""
        self.failed: bytes | None = None

    def feed(self, part: bytes) -> list[bytes]:
        """The events that this part ended. Raises TooLong."""
        lines = (self._rest + part).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST_LINE:
            raise TooLong(f"a line of more than {LONGEST_LINE:,} bytes")
        found: list[bytes] = []
        for line in lines:
            self._take(line[:-1] if line.endswith(b"\r") else line, found)
        return found

    def end(self) -> list[bytes]:
        """What the stream left without the empty line that ends an event: some servers spare it at the end."""
        found: list[bytes] = []
        self._take(self._rest.rstrip(b"\r"), found)
        self._rest = b""
        self._take(b"", found)
        return found

    def _take(self, line: bytes, found: list[bytes]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                if self._name == b"error":
                    self.failed = data
                else:
                    found.append(data)
                self._data = []
            self._name = b""
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()
        elif line.startswith(b"error:"):  # older llama.cpp servers
            self.failed = line[6:].strip()
