"""How the coordinators of Kafka releases differ in what they answer.

`broker_trial.py` compares the profiles with real brokers. What releases do alike is a rule of
`BrokerGroup` and no field here: the leader stays the leader when it joins again; a static member
that returns to a Stable group begins no generation; an id that was handed out holds up a round
until it is used, given back, or its session timeout has passed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordinator.interface.config import GroupConfig
from kafka_codecs.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProfile:
    """The coordinator of one release, with one choice of its settings. Times are milliseconds."""

    release: str
    versions: Mapping[ApiKey, int] = field(hash=False)
    """The newest version of each api that clients here use."""
    initial_rebalance_delay_ms: int = 3_000
    """The setting group.initial.rebalance.delay.ms."""
    stores_static_replacements: bool = True
    """Whether the new id of a static member that returned to a Stable group is in the log. Before
    2.7 it is not (KAFKA-10284): a coordinator that moves brings the old id back."""
    answers_before_move: bool = True
    """Whether a broker that shuts down answers parked requests. 2.8 with KRaft closes their
    connections."""
    shortens_initial_delay: bool = False
    """Whether the initial delay ends when an id or a member times out, and all that are left have
    joined."""
    has_native_members: bool = False
    """Whether the coordinator takes members of the new protocol, and converts groups for them."""
    shows_assignments_in_rounds: bool = False
    """Whether DescribeGroups shows what members were assigned while a group is not Stable."""
    elects_newest: bool = False
    """Which member leads once the leader has gone: the one that joined last, or the first. Kafka
    takes any, by the order of a hash map, so this is up to a world and not to a release."""

    def settings_of(self, config: GroupConfig) -> GroupConfig:
        """The settings of a group, without what Kafka does not have."""
        return replace(
            config,
            classic_initial_rebalance_delay_ms=self.initial_rebalance_delay_ms,
            reconnect_timeout_ms=0,
            lost_commit_hold_ms=None,
        )


KAFKA_2_8 = BrokerProfile(
    release="2.8",
    versions={
        ApiKey.OFFSET_COMMIT: 8,
        ApiKey.JOIN_GROUP: 7,
        ApiKey.HEARTBEAT: 4,
        ApiKey.LEAVE_GROUP: 4,
        ApiKey.SYNC_GROUP: 5,
        ApiKey.DESCRIBE_GROUPS: 5,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
    },
    answers_before_move=False,
)
KAFKA_3_9 = BrokerProfile(
    release="3.9",
    versions={
        **KAFKA_2_8.versions,
        ApiKey.OFFSET_COMMIT: 9,
        ApiKey.JOIN_GROUP: 9,
        ApiKey.LEAVE_GROUP: 5,
    },
)
KAFKA_4_3 = BrokerProfile(
    release="4.3",
    versions={
        **KAFKA_3_9.versions,
        ApiKey.DESCRIBE_GROUPS: 6,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    },
    has_native_members=True,
    shortens_initial_delay=True,
    shows_assignments_in_rounds=True,
)
PROFILES = (KAFKA_2_8, KAFKA_3_9, KAFKA_4_3)
