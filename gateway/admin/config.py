"""How the admin API is reached."""

from dataclasses import dataclass

from gateway.cluster.broker_connection import Address
from gateway.cluster.secret import Secret
from gateway.transport.certificates import TlsContext


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    """The settings of the admin API."""

    listen: Address
    """The address to listen on. With port 0 the system chooses one."""
    token: Secret | None = None
    """What an operator must show; None on loopback only."""
    view_token: Secret | None = None
    """The token with which a client may look but not command; None if there is no such token."""
    tls: TlsContext | None = None
    """None listens in plain text, on loopback only."""
    is_shared: bool = False
    """Whether several processes listen on the port. Each of them answers for all."""
    metrics_groups_max: int = 500
    """Groups with metrics of their own."""
