"""What all groups of a gateway share."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from coordinator.interface.config import GroupConfig
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.identity import Gateway
from gateway.hosting.states import Adoption
from gateway.quotas.shares import ShareRule


@dataclass(slots=True, kw_only=True)
class HostingRules:
    """Settings, and what the groups learn from each other. Patterns (* and ?) match group ids.
    `adoption` may change while the gateway runs."""

    config: GroupConfig
    gateway: Gateway
    can_anchor: bool
    """Whether the cluster can hold anchors; the embedded one cannot."""
    linger_ms: int
    """How long an anchor outlives the group's last member."""
    longest_session_ms: int
    """How long a member may believe that it owns partitions without hearing from its
    coordinator."""
    host_patterns: tuple[str, ...] = ()
    """Groups whose consumers all come through the gateway, so that an empty group is hosted from
    its first join on."""
    forward_patterns: tuple[str, ...] = ()
    """Groups that stay with the cluster in any case."""
    hold_patterns: tuple[str, ...] = ()
    """Groups whose migration is on hold until it is allowed."""
    adoption: Adoption = "manual"
    is_removing: bool = False
    """Whether the gateway is being removed, and takes no group over meanwhile."""
    shares_log: bool = False
    """Whether other gateways may take over groups of this state log, which tells this one so."""
    released: set[str] = field(default_factory=set)
    """The groups that the operator has given back to the cluster, as far as loaded."""
    adopted: set[str] = field(default_factory=set)
    """The groups that are hosted until an operator releases them, also while they are empty; and
    those of the log that have not been read yet."""
    adopting: set[str] = field(default_factory=set)
    """The groups whose adoption is under way."""
    watched: WatchedGroups = field(default_factory=WatchedGroups)
    names: ShareRule = field(default_factory=ShareRule)
    """How many names of one client are remembered."""

    @property
    def why_none_is_taken(self) -> str:
        """Why the gateway takes no group over, not even an empty one; empty if it does."""
        if self.is_removing:
            return "the gateway is being removed"
        return "as configured (groups.adopt)" if self.adoption == "never" else ""

    def config_of(self, group_id: str) -> GroupConfig:
        """The settings of one group."""
        config = self.config
        if matches(group_id, self.hold_patterns):
            policy = replace(config.roll_policy, native_members_max=0)
            config = replace(config, roll_policy=policy)
        if matches(group_id, self.host_patterns):
            config = replace(config, is_served_by_setting=True)
        return config


def matches(group_id: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns (* and ?) matches. Brackets stand for themselves."""
    return any(fnmatchcase(group_id, pattern.replace("[", "[[]")) for pattern in patterns)
