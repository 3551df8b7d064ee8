"""A group of two consumers in the cluster that can be adopted, and the coordinator's answers."""

from typing import Any

from gateway.hosting.forwarded import WatchedGroup, WatchedMember
from gateway.hosting.identity import Gateway
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from tests.support.group_values import embedded_assignment, subscription

GROUP = "orders-readers"
A, B = "a-1", "b-2"
"""The leader's member id, and the other."""
GENERATION = 7
NOW_MS = 1_700_000_000_000
GATEWAY = Gateway(log_id="log-1", run_id=3)
JOIN_METADATA = GATEWAY.join_metadata
SUBSCRIPTION = subscription(("orders",))


def cluster_description(
    *, instance_of_a: str | None = None, instance_of_b: str | None = None, **changes: Any
) -> DescribedGroup:
    """What the cluster says."""
    instances = {A: instance_of_a, B: instance_of_b}
    members = tuple(
        DescribedGroupMember(
            member_id=member_id,
            group_instance_id=instances[member_id],
            client_id=member_id[0],
            client_host=f"/10.0.0.{number + 1}",
            member_metadata=SUBSCRIPTION,
            member_assignment=embedded_assignment({"orders": [number]}),
        )
        for number, member_id in enumerate((A, B))
    )
    usual = {"group_state": "Stable", "protocol_type": "consumer", "protocol_data": "range"}
    return DescribedGroup(group_id=GROUP, **{"members": members, **usual, **changes})


def watched_group(a: dict[str, Any] | None = None, b: dict[str, Any] | None = None) -> WatchedGroup:
    """What is known from relayed requests, with changes to the members."""
    usual: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocols": (("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION)),
        "heartbeat_ms": NOW_MS - 3_000,
        "joined_here": True,
    }
    return WatchedGroup(
        group_id=GROUP,
        generation=GENERATION,
        protocol="range",
        leader_id=A,
        members={
            A: WatchedMember(member_id=A, **{**usual, **(a or {})}),
            B: WatchedMember(member_id=B, **{**usual, **(b or {})}),
        },
    )
