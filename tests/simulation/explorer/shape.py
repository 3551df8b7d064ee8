"""What a world begins with, and what may happen in it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from coordinator.interface.config import GroupConfig
from tests.simulation.broker_profiles import KAFKA_3_9, KAFKA_4_3, BrokerProfile
from tests.simulation.explorer.small_consumers import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Kind,
)

CONFIG = GroupConfig(
    classic_initial_rebalance_delay_ms=0,
    consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
    consumer_heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
    consumer_assignment_interval_ms=0,
    lost_commit_hold_ms=None,
    reconnect_timeout_ms=SESSION_TIMEOUT_MS,
)
SMALL_3_9 = replace(KAFKA_3_9, initial_rebalance_delay_ms=0)
SMALL_4_3 = replace(KAFKA_4_3, initial_rebalance_delay_ms=0)
ELECTS_NEWEST = replace(SMALL_4_3, elects_newest=True)
"""The member that joined last becomes the leader when the leader has gone; any may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a world begins with, and how often what may happen in it.

    The budgets: `start`, `crash`, `leave` and `switch` (to the other protocol) of consumers;
    `commit`; `lose` (a request's answer, and with it perhaps the connection), `late` (an answer, to
    a consumer or to the machine), `fail` (of the log or the coordinator), `slow` (time passes while
    a party works), `restart` of the gateway, `remove` (the anchor, by an admin) and `intrude` (a
    consumer joins in the cluster itself), `hang-up` (a client no longer waits for the answer to a
    request that the gateway holds), `reconfigure` (the gateway restarts with the group in
    `groups_forward`, or without it), `pause` (of the gateway's process), and `sleep` (time passes
    though a consumer has to send a request).
    """

    name: str
    what: str
    consumers: tuple[tuple[str, Kind], ...]
    budgets: Mapping[str, int]
    partition_count: int = 2
    classic: Kind = Kind.COOPERATIVE
    """What a native consumer switches to. All classic consumers of a world are of one kind, since
    the others have no protocol in common with them."""
    begins_at_rest: bool = False
    """Whether the consumers have started, and each has its share."""
    is_away_long: bool = False
    """Whether time may pass before a consumer that switches returns."""
    config: GroupConfig = CONFIG
    beside: tuple[tuple[str, Kind], ...] = ()
    """Consumers that join the group in the cluster, around the gateway. Only worlds of adoption
    have them."""
    is_adoption: bool = False
    """Whether the cluster serves the group at first, and the gateway may adopt it."""
    is_slow: bool = False
    """Whether looks at the cluster, loads of the log and the anchor's heartbeats take their time in
    a world of moves. Otherwise their answers arrive before anything else happens."""
    is_release: bool = False
    """Whether the gateway hosts the group at first, and may release it."""
    begins_with: tuple[str, ...] = ()
    """The first moves of a world of moves, which are always the same."""
    are_static: bool = False
    """Whether classic consumers have instance ids."""
    starts_later: tuple[str, ...] = ()
    """The consumers that do not run at first, although the others do."""
    profile: BrokerProfile = SMALL_4_3
    """The brokers of the cluster."""
    converts_none: bool = False
    """Whether the cluster converts no classic group with members, as Kafka does if their assignment
    has user data. The first member of a group has to be native then."""

    @property
    def moves_group(self) -> bool:
        """Whether the group moves between the cluster and the gateway."""
        return self.is_adoption or self.is_release

    @property
    def takes_time(self) -> bool:
        """Whether anything may happen before looks, loads and the anchor's heartbeats are
        answered."""
        return self.is_slow or not self.moves_group
