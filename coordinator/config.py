"""The settings of the engine, named as Kafka's broker configs and with Kafka's defaults (rule
1.5)."""

from dataclasses import dataclass
from enum import StrEnum

INT32_MAX = 2**31 - 1


class MigrationPolicy(StrEnum):
    """Which conversions a group with members may take (group.consumer.migration.policy)."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Times are milliseconds. `classic_` stands for Kafka's classic settings (`group.*`),
    `consumer_` for those of the new protocol (`group.consumer.*`); `min` and `max` bound what a
    group may override (see `group_configs.py`)."""

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
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    consumer_assignment_interval_ms: int = 1_000
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_regex_refresh_interval_ms: int = 600_000

    classic_pending_id_timeout_ms: int = INT32_MAX
    """How long an id handed out with MEMBER_ID_REQUIRED blocks a join phase, at most: a client that
    lost it asks for another, and nobody needs to wait for the first. Not longer than a session, as
    in Kafka, where that is the only limit."""

    classic_new_member_join_timeout_ms: int = 300_000
    """How long a new member's parked JoinGroup is kept. A constant in Kafka, a field for tests."""

    lost_commit_hold_ms: int | None = 5_000
    """How long a commit whose answer was lost keeps its partitions held: the cluster either has
    stored it by then or given up on it (Kafka's offsets.commit.timeout.ms). None: until the driver
    says that the cluster refuses it from now on."""

    reconnect_timeout_ms: int = 15_000
    """How long a session lasts at least that begins with the loading of the group. Clients wait
    longer and longer between attempts to reconnect, librdkafka and Java up to 10 s by default, and
    a member must not be lost because its coordinator was."""

    @property
    def longest_session_ms(self) -> int:
        """How long any member may be silent, whatever it or its group asks for."""
        return max(self.classic_max_session_timeout_ms, self.consumer_max_session_timeout_ms)
