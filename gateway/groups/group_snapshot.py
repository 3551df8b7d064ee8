"""What the gateway knows of a group at this moment, without asking the cluster or the log."""

from dataclasses import dataclass

from coordinator.group.state import GroupState
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.groups.cluster_view import SeenInCluster
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.states import AdoptionStage, AnchorPhase, ReleaseStage


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A group, from the structures that serve it. To be looked at, and not to be kept."""

    group_id: str
    decision: RoutingDecision
    """Who answers for the group, as far as known."""
    state: GroupState | None
    """The engine's state; None if the group is not in memory."""
    policy: RollMode
    """What an operator lets the group's migration do; ALLOW while the state log does not tell."""
    topics: Topics
    anchor: AnchorPhase
    anchor_reason: str
    """If an anchor is needed and does not hold the group: the reason."""
    is_adopted: bool
    """Whether an operator has adopted the group and has not released it."""
    is_adopting: bool
    adoption: AdoptionStage | None
    release: ReleaseStage | None
    log_failed_ms: int | None
    """When the state log failed to store the latest change, of whatever group; None if it did."""
    release_obstacle: str
    """Why the group is still hosted although a setting leaves it to the cluster, or empty."""
    watched: WatchedGroup | None
    """A forwarded group, as its relayed requests show it."""
    in_cluster: SeenInCluster | None
    """What the cluster has said of a forwarded group since an operator looks at it."""
    is_configured: bool
    """Whether a setting leaves the group to the cluster (groups_forward)."""
    native_session_ms: int
    """The session of native members."""
    now_ms: int
    """When this was so."""
