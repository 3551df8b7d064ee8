"""The settings of the engine, named as Kafka's broker configs and with Kafka's defaults (rule
1.5)."""

from dataclasses import dataclass, field
from enum import StrEnum

from coordinator.interface.roll_policy import RollPolicy

INT32_MAX = 2**31 - 1
RESOLUTIONS_APART_MS = 10_000
"""The minimum interval between two resolutions of a group's regular expressions (a constant in
Kafka)."""


class MigrationPolicy(StrEnum):
    """The conversions that a group with members may undergo (group.consumer.migration.policy)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class StaticTakeover(StrEnum):
    """When the instance id of a native member goes to another client, other than after its leave or
    the end of its session (group.static.takeover)."""

    KAFKA = "kafka"
    """Never, as in Kafka."""
    CONNECTION_CLOSED = "connection-closed"
    """The instance may be taken over once the member's client has closed its connections."""


SESSION_TIMEOUT_LIMITS = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")
CLASSIC_SIZE_LIMIT, CONSUMER_SIZE_LIMIT = "group.max.size", "group.consumer.max.size"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Times are milliseconds. `classic_` stands for Kafka's classic settings (`group.*`),
    `consumer_` for those of the new protocol (`group.consumer.*`); `min` and `max` bound what a
    group may override (see `handlers/group_configs.py`)."""

    classic_min_session_timeout_ms: int = 6_000
    classic_max_session_timeout_ms: int = 1_800_000
    classic_initial_rebalance_delay_ms: int = 3_000
    classic_max_size: int = INT32_MAX
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = INT32_MAX
    broker_limits: tuple[tuple[str, int], ...] = ()
    """The brokers' limits of groups, by config name, as far as they reveal them. Refusals name
    them, because a limit that is set here may differ."""

    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    consumer_assignment_interval_ms: int = 1_000
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_regex_refresh_interval_ms: int = 600_000

    classic_pending_id_timeout_ms: int = INT32_MAX
    """The longest time that an id handed out with MEMBER_ID_REQUIRED blocks a join phase. A client
    that lost its id asks for another, so the first need not block the group. Never longer than the
    session timeout, which is Kafka's only limit."""

    classic_new_member_join_timeout_ms: int = 300_000
    """How long a new member's JoinGroup stays parked. A constant in Kafka, a field here for
    tests."""

    replacement_grace_ms: int = 0
    """How long the slot of a dynamic member that left a consumer group is kept for its replacement
    (deviation D77); 0: not at all, as in Kafka."""

    temporary_assignment_ms: int = 0
    """How long another member may have the partitions of a member that left while the group is
    rolled, until its replacement comes (deviation D85); 0: they are distributed immediately, as in
    Kafka."""

    roll_pause_ms: int = 300_000
    """How long a group counts as being rolled after a member has changed its protocol. Only then
    are slots kept, and their partitions assigned for a time."""

    rolled_since_ms: int | None = None
    """When an operator announced a roll of the group, in wall-clock milliseconds. It ends after an
    hour without a step."""

    replacement_needs_host: bool = True
    """Whether a replacement must have its predecessor's host, and not only its client id."""

    unsettled_heartbeat_interval_ms: int = INT32_MAX
    """The heartbeat interval of native members while the group moves or is rolled, if it is shorter
    than the group's (deviation D78). By default it is not, as in Kafka."""

    client_side_assignors: bool = False
    """Whether members may compute the target (KIP-848, "Client Side Mode"); never in Kafka."""

    rack_aware: bool = False
    """Whether the server assignors prefer partitions with a replica in the member's rack (deviation
    D84). Kafka's do not."""

    static_takeover: StaticTakeover = StaticTakeover.KAFKA

    second_target_waits: bool = True
    """Whether a target waits for the assignment interval to pass even if it is the second after a
    quiet time, as in Kafka (deviation D83)."""

    unaffected_members_rejoin: bool = True
    """Whether a classic member of a consumer group rejoins with each new target, as in Kafka, even
    if that gives it nothing and takes nothing from it (deviation D79)."""

    eager_imbalance_percent: int = 0
    """How far from the even share a new target may leave members, in percent of it, rather than
    disturb an eager classic member (deviation D81). Without effect if unaffected members rejoin."""

    lost_commit_hold_ms: int | None = 5_000
    """How long a commit whose answer was lost holds its partitions. By then the cluster has stored
    it or given it up (Kafka's offsets.commit.timeout.ms). None: until the driver reports that the
    cluster refuses it."""

    roll_policy: RollPolicy = field(default_factory=RollPolicy)

    is_served_by_setting: bool = False
    """Whether a group that begins here does so only because of a setting, and not because an
    operator has adopted it."""

    reconnect_timeout_ms: int = 15_000
    """The minimum length of the first session after a load. Clients back off between reconnects, by
    default up to 10 s in librdkafka and Java, and must not lose their membership because the
    coordinator was away."""

    def named_limits(self, *names: str) -> str:
        """The configs that set a limit, and the brokers' values of them if known; for refusals."""
        at_brokers = dict(self.broker_limits)
        if at_brokers.keys().isdisjoint(names):
            return f"({', '.join(names)})"
        values = ", ".join(f"{at_brokers.get(name, '?')}" for name in names)
        return f"({', '.join(names)}; at the brokers {values})"

    @property
    def longest_session_ms(self) -> int:
        """The longest session that any member can have."""
        return max(self.classic_max_session_timeout_ms, self.consumer_max_session_timeout_ms)
