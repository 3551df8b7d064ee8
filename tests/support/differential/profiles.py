"""The settings of scripts, equal for the broker and the gateway."""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.interface.config import GroupConfig
from gateway.settings_sources import load

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    # It depends only on ids, so partitions can be compared one by one.
    "group.consumer.assignors": "range,uniform",
}

LIKE_KAFKA = {
    "group_conversion_rest_max_ms": "0",
    "group_replacement_grace_ms": "0",
    "group_temporary_assignment_ms": "0",
    "group_unsettled_heartbeat_interval_ms": "60000",
    "group_second_target_waits": "true",
    "group_unaffected_members_rejoin": "true",
    "group_eager_imbalance_percent": "0",
}
"""The gateway's own: without what Kafka does not have at all (DEV D76 to D79, D81, D83)."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Settings by Kafka's names, on top of those with short times."""

    name: str
    own: Mapping[str, str]

    @property
    def settings(self) -> Mapping[str, str]:
        """All settings for a broker's file."""
        return {**QUICK, **self.own}

    def group_config(self) -> GroupConfig:
        """The settings for a gateway, read like those of `groupferry serve`."""
        given = {key.replace(".", "_"): value for key, value in self.settings.items()}
        return load({"upstream": "127.0.0.1:1", **LIKE_KAFKA, **given}).group_config()


MAIN = Profile("main", {})
UPGRADE = Profile("upgrade", {"group.consumer.migration.policy": "Upgrade"})
DOWNGRADE = Profile(
    "downgrade",
    {
        "group.consumer.migration.policy": "DOWNGRADE",
        "group.max.size": "1",
        "group.consumer.max.size": "3",
    },
)
DISABLED = Profile("disabled", {"group.consumer.migration.policy": "disabled"})
TIGHT = Profile(
    "tight",
    {
        "group.max.size": "3",
        "group.consumer.max.size": "2",
        "group.consumer.assignment.interval.ms": "1500",
        "group.initial.rebalance.delay.ms": "800",
        "group.consumer.session.timeout.ms": "3500",
        "group.consumer.heartbeat.interval.ms": "500",
    },
)
"""Short times and small groups."""
PROFILES = (MAIN, UPGRADE, DOWNGRADE, DISABLED, TIGHT)
