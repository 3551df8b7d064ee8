"""What the gateway has of one group, for those who read it."""

from typing import Any

from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.groups.glance import Glance
from gateway.hosting.standing import HERE, Verdict
from gateway.hosting.states import AnchorPhase, Mode

FORWARDED = Verdict(Mode.FORWARDED, "in the cluster itself, the group has 1 member (c)")


def glance_of(**fields: Any) -> Glance:
    """A hosted group without a state, an anchor or a move, unless stated."""
    at_rest: dict[str, Any] = {
        "group_id": "g",
        "verdict": HERE,
        "state": None,
        "policy": RollMode.ALLOW,
        "topics": Topics(),
        "anchor": AnchorPhase.ABSENT,
        "anchor_why": "",
        "is_adopted": False,
        "is_adopting": fields.get("adoption") is not None,
        "adoption": None,
        "release": None,
        "release_obstacle": "",
        "watched": None,
        "in_cluster": None,
        "is_configured": False,
        "now_ms": 0,
    }
    return Glance(**(at_rest | fields))
