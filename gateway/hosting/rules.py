"""What all groups of a gateway share."""

from dataclasses import dataclass, field, replace

from coordinator.interface.config import GroupConfig
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.standing import StandingRules, matches
from gateway.quotas.shares import ShareRule


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingRules:
    """Settings, and what the groups learn from each other."""

    config: GroupConfig
    standing: StandingRules
    can_anchor: bool
    """Whether the cluster can hold anchors; the embedded one cannot."""
    linger_ms: int
    """How long an anchor outlives the group's last member."""
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
            policy = replace(config.roll_policy, native_members_max=0)
            config = replace(config, roll_policy=policy)
        if matches(group_id, self.standing.host_patterns):
            config = replace(config, is_served_by_setting=True)
        return config
