"""Reading and judging a description of the group."""

from collections.abc import Mapping
from uuid import UUID

import pytest

from gateway.demo.group_view import ObservedGroup, ObservedMember, Protocol, disagreement
from kafka_codecs import consumer_group_describe, describe_groups
from kafka_codecs.consumer_protocol import Assignment, TopicPartition, encode_assignment

SETTLED = ObservedGroup(
    protocol="consumer",
    state="Stable",
    members=(
        ObservedMember(client_id="a", protocol="classic", partitions=(0, 2)),
        ObservedMember(client_id="b", protocol="consumer", partitions=(1,)),
    ),
)
EXPECTED: Mapping[str, Protocol] = {"a": "classic", "b": "consumer"}
OWNERS = {0: {"a"}, 1: {"b"}, 2: {"a"}}


def with_members(*members: ObservedMember) -> ObservedGroup:
    return ObservedGroup(protocol="consumer", state="Stable", members=members)


def test_a_settled_group_is_accepted() -> None:
    """State, members, protocols, partitions and callbacks agree."""
    assert disagreement(SETTLED, expected=EXPECTED, owners=OWNERS) is None


@pytest.mark.parametrize(
    ("view", "owners", "reason"),
    [
        (
            ObservedGroup(protocol="consumer", state="Reconciling", members=SETTLED.members),
            OWNERS,
            "the group is Reconciling",
        ),
        (with_members(SETTLED.members[0]), OWNERS, "its members are a, not a, b"),
        (
            with_members(*SETTLED.members, SETTLED.members[1]),
            OWNERS,
            "its members are a, b, b, not a, b",
        ),
        (
            with_members(
                ObservedMember(client_id="a", protocol="consumer", partitions=(0, 2)),
                SETTLED.members[1],
            ),
            OWNERS,
            "a is a consumer member",
        ),
        (
            with_members(
                ObservedMember(client_id="a", protocol="classic", partitions=(0,)),
                SETTLED.members[1],
            ),
            OWNERS,
            "partition 2 is assigned to nobody",
        ),
        (
            with_members(
                ObservedMember(client_id="a", protocol="classic", partitions=(0, 1, 2)),
                SETTLED.members[1],
            ),
            OWNERS,
            "partition 1 is assigned to a, b",
        ),
        (SETTLED, {**OWNERS, 1: set()}, "partition 1 is assigned to b, held by nobody"),
        (SETTLED, {**OWNERS, 2: {"a", "b"}}, "partition 2 is assigned to a, held by a, b"),
        (SETTLED, {0: {"a"}, 1: {"b"}}, "partition 2 is assigned to a, held by nobody"),
    ],
)
def test_an_unsettled_group_has_a_reason(
    view: ObservedGroup, owners: Mapping[int, set[str]], reason: str
) -> None:
    """The reason is shown when a step never settles."""
    assert disagreement(view, expected=EXPECTED, owners=owners) == reason


def test_a_group_of_classic_members_has_to_convert_before_it_is_settled() -> None:
    """A busy gateway may convert the group only after the last classic member has its share."""
    member = ObservedMember(client_id="a", protocol="classic", partitions=(0,))
    reason = disagreement(with_members(member), expected={"a": "classic"}, owners={0: {"a"}})
    assert reason == "the group is a consumer group"


def test_a_consumer_group_shows_each_members_protocol() -> None:
    """ConsumerGroupDescribe v1 distinguishes classic members (KIP-1099)."""
    empty = consumer_group_describe.Assignment(topic_partitions=())
    members = tuple(
        consumer_group_describe.Member(
            member_id=f"id-{client_id}",
            member_epoch=3,
            client_id=client_id,
            client_host="/127.0.0.1",
            subscribed_topic_names=("t",),
            assignment=consumer_group_describe.Assignment(
                topic_partitions=(
                    consumer_group_describe.TopicPartitions(
                        topic_id=UUID(int=1), topic_name="t", partitions=partitions
                    ),
                )
            ),
            target_assignment=empty,
            member_type=member_type,
        )
        for client_id, partitions, member_type in (("a", (0, 2), 0), ("b", (1,), 1))
    )
    described = consumer_group_describe.DescribedGroup(
        group_id="g", group_state="Stable", members=members
    )
    assert ObservedGroup.of_consumer_group(described) == SETTLED


def test_a_classic_group_shows_its_leaders_assignments() -> None:
    """A member without an assignment owns nothing."""
    assignment = encode_assignment(
        Assignment(assigned_partitions=(TopicPartition(topic="t", partitions=(0, 1)),)), 0
    )
    members = tuple(
        describe_groups.DescribedGroupMember(
            member_id=f"id-{client_id}",
            client_id=client_id,
            client_host="/127.0.0.1",
            member_metadata=b"",
            member_assignment=blob,
        )
        for client_id, blob in (("a", assignment), ("b", b""))
    )
    described = describe_groups.DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", members=members
    )
    assert ObservedGroup.of_classic_group(described) == ObservedGroup(
        protocol="classic",
        state="Stable",
        members=(
            ObservedMember(client_id="a", protocol="classic", partitions=(0, 1)),
            ObservedMember(client_id="b", protocol="classic", partitions=()),
        ),
    )
