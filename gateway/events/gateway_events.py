"""What happens to the gateway as a whole."""

from typing import ClassVar

from gateway.events.event import GatewayEvent, Level


class GatewayStarted(GatewayEvent):
    """Clients can connect."""

    version: str
    """Of groupferry."""
    bootstrap: str
    """Host and port that clients are to be given."""
    cluster_id: str | None
    """The cluster's own id, null if it has none."""
    brokers: tuple[int, ...]
    """Node ids of the cluster's brokers."""


class DrainStarted(GatewayEvent):
    """The gateway is about to end: it takes no more clients, and lets those it has finish."""

    connections: int
    """How many clients are connected."""


class DrainFinished(GatewayEvent):
    """All clients are gone."""

    in_time: bool
    """Whether all were answered; otherwise some were cut off."""


class GatewayEnded(GatewayEvent):
    """The last event of a process that was not killed."""


class UpstreamLost(GatewayEvent):
    """No broker of the cluster answers."""

    level: ClassVar[Level] = "warning"
    reason: str
    next_retry_s: float


class UpstreamBack(GatewayEvent):
    """The cluster answers again."""

    brokers: tuple[int, ...]
    """Node ids of its brokers."""
