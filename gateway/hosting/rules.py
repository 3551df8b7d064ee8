"""What all groups of a gateway share."""

from dataclasses import dataclass, field, replace

from coordinator.interface.config import GroupConfig
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.log_health import LogHealth
from gateway.hosting.room import Room
from gateway.hosting.standing import StandingRules, matches
from gateway.quotas.shares import ShareRule

ANCHORS_PER_GROUP = 2
"""Multiplies both limits on groups, because an anchor outlives the last member for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingRules:
    """Settings, limits, and what the groups learn from each other."""

    config: GroupConfig
    standing: StandingRules
    can_anchor: bool
    """Whether the cluster can hold anchors; the embedded one cannot."""
    linger_ms: int
    """How long an anchor outlives the group's last member."""
    hosted: Room
    """The places for groups in memory."""
    anchored: Room
    """The places for anchors."""
    log_health: LogHealth = field(default_factory=LogHealth)
    watched: WatchedGroups = field(default_factory=WatchedGroups)
    names: ShareRule = field(default_factory=ShareRule)
    """How many names of one client are remembered."""
    adopting: set[str] = field(default_factory=set)
    """The groups whose adoption is under way."""
    hold_patterns: tuple[str, ...] = ()
    """Patterns (* and ?) of group ids whose migration is on hold until it is allowed."""

    def config_of(self, group_id: str) -> GroupConfig:
        """The settings of one group."""
        config = self.config
        if matches(group_id, self.hold_patterns):
            config = replace(config, native_members_max=0)
        if matches(group_id, self.standing.host_patterns):
            config = replace(config, is_served_by_setting=True)
        return config

    def limit_groups(self, total: int, share: ShareRule) -> None:
        """From now on, this many groups may be hosted, in total and of one owner."""
        self.hosted.limit(total, share)
        self.anchored.limit(ANCHORS_PER_GROUP * total, share_of_anchors(share))


def share_of_anchors(share: ShareRule) -> ShareRule:
    """The share of an owner that has this share of the groups."""

    def times(limit: int | None) -> int | None:
        return None if limit is None else ANCHORS_PER_GROUP * limit

    return ShareRule(per_address=times(share.per_address), per_principal=times(share.per_principal))
