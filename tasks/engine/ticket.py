"""What lets a client on another machine join a run: the address, and a pair of keys for this run alone.

The connection is encrypted (CurveZMQ). The client knows the run by its public key, and the run lets in only the one
pair whose secret half the ticket holds. Both are made when the run waits for its clients and are worth nothing
afterwards.
"""

import base64
import binascii
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

VARIABLE = "ASSAY_CLIENT_TICKET"
"""Where a client's process finds its ticket: on a command line every user of the machine could read it."""
_KEY_BYTES = 32


class BadTicket(ValueError):
    """It is no ticket."""


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """server: the public key of the run. public and secret: the pair that its clients have, the same for all. Keys are
    Z85 texts, as ZeroMQ takes them."""

    server: bytes
    public: bytes
    secret: bytes = field(repr=False)

    def text(self) -> str:
        """In letters, digits, `-` and `_`."""
        return base64.urlsafe_b64encode(z85.decode(self.server) + z85.decode(self.secret)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> "Ticket":
        """Raises BadTicket."""
        try:
            raw = base64.b64decode(text.strip() + "==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadTicket("it holds characters that no ticket has") from error
        if len(raw) != 2 * _KEY_BYTES:
            raise BadTicket(f"a ticket has {len(Ticket.new()[0].text())} characters, this one {len(text.strip())}")
        server, secret = z85.encode(raw[:_KEY_BYTES]), z85.encode(raw[_KEY_BYTES:])
        return cls(server=server, public=zmq.curve_public(secret), secret=secret)

    @classmethod
    def new(cls) -> tuple["Ticket", bytes]:
        """A new one, and the secret key of the run that it is for."""
        server, server_secret = zmq.curve_keypair()
        public, secret = zmq.curve_keypair()
        return cls(server=server, public=public, secret=secret), server_secret
