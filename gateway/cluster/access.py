"""How connections to the cluster are protected, and whose they are."""

from dataclasses import dataclass

from gateway.cluster.sasl import Credentials
from gateway.transport.certificates import TlsContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a connection to a broker needs."""

    tls: TlsContext | None = None
    """None connects in plain text."""
    credentials: Credentials | None = None
    """None does not authenticate."""


PLAIN_ACCESS = Access()
"""Plain text, without authentication."""
