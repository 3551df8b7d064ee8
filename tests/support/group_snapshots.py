"""What the gateway has of one group, for those who read it."""

from typing import Any

from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.hosting.group_routing import HERE, RoutingDecision
from gateway.hosting.states import AnchorPhase, Mode

FORWARDED = RoutingDecision(Mode.FORWARDED, "in the cluster itself, the group has 1 member (c)")


def glance_of(**fields: Any) -> GroupSnapshot:
    """A hosted group without a state, an anchor or a move, unless stated."""
    at_rest: dict[str, Any] = {
        "group_id": "g",
        "decision": HERE,
        "state": None,
        "policy": RollMode.ALLOW,
        "topics": Topics(),
        "anchor": AnchorPhase.ABSENT,
        "anchor_reason": "",
        "is_adopted": False,
        "is_adopting": fields.get("adoption") is not None,
        "adoption": None,
        "release": None,
        "release_obstacle": "",
        "log_failed_ms": None,
        "watched": None,
        "in_cluster": None,
        "is_configured": False,
        "native_session_ms": 45_000,
        "now_ms": 0,
    }
    return GroupSnapshot(**(at_rest | fields))
