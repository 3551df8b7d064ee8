"""Events about the gateway as a whole."""

from typing import ClassVar

from gateway.events.event import GatewayEvent, Level


class GatewayStarted(GatewayEvent):
    """The gateway accepts connections."""

    version: str
    """The version of groupferry."""
    bootstrap: str
    """Host and port for the clients' `bootstrap.servers`."""
    cluster_id: str | None
    """The cluster's id; null if it has none."""
    brokers: tuple[int, ...]
    """Node ids of the cluster's brokers."""
    previous_run: int | None = None
    """The run of the process that started before with the same state log; null if there was none,
    or an older groupferry."""


class DrainStarted(GatewayEvent):
    """The gateway is shutting down: it accepts no new connections and lets the others finish."""

    connections: int
    """Open client connections."""


class DrainFinished(GatewayEvent):
    """All client connections are closed."""

    in_time: bool
    """Whether all pending requests were answered; if false, some connections were cut."""


class GatewayEnded(GatewayEvent):
    """The gateway exited normally. This is the last event of its process."""


class ShardsTaken(GatewayEvent):
    """A process of a fleet serves shards that another one has had. The first event of a run."""

    shards: tuple[int, ...]
    """The numbers of the shards."""


class ShardsGivenUp(GatewayEvent):
    """A process of a fleet has left shards to another one, or ends."""

    shards: tuple[int, ...]
    """The numbers of the shards."""
    groups: int
    """Groups with members that other processes take over; 0 if the process ends."""
    took_ms: int
    """The time from the decision until nothing of the shards was under way any more."""
    ends_run: bool
    """Whether it is the last event of its run: the process has given up all that it took in it."""


class UpstreamLost(GatewayEvent):
    """No broker of the cluster answers."""

    level: ClassVar[Level] = "warning"
    reason: str
    """Why the latest attempt failed."""
    next_retry_s: float
    """Seconds until the gateway tries again."""


class UpstreamBack(GatewayEvent):
    """The cluster answers again."""

    brokers: tuple[int, ...]
    """Node ids of the cluster's brokers."""


class CommandGiven(GatewayEvent):
    """An operator's command was carried out or refused. Commands that only show something are not
    reported."""

    command: str
    """The name of the command, such as `adopt`."""
    is_trial: bool
    """Whether the command only asked what it would do (`--dry-run`)."""
    given_by: str
    """Who gave the command, and where."""
    reasons: tuple[str, ...]
    """The first few reasons why the command had no effect. Empty if it was carried out, or if a
    trial found nothing in its way."""
