"""The client-side assignors of leaders."""

import pytest

from coordinator.interface.replies import JoinedMember
from kafka_codecs.consumer_protocol import Subscription, decode_assignment, encode_subscription
from tests.simulation import leader
from tests.support.group_values import make_topics

TOPICS = make_topics(foo=4, bar=2)


def member(
    member_id: str, *topics: str, owned: set[leader.Name] | None = None, generation: int = 1
) -> JoinedMember:
    """A member in the JoinGroup answer of the leader."""
    subscription = Subscription(
        topics=topics,
        owned_partitions=leader.partitions_by_topic(owned or ()),
        generation_id=generation,
    )
    return JoinedMember(
        member_id=member_id, instance_id=None, metadata=encode_subscription(subscription, 2)
    )


def assign(protocol: str, *members: JoinedMember) -> dict[str, set[leader.Name]]:
    """The assignment of each member."""
    return {
        member_id: {
            (partition.topic, number)
            for partition in decode_assignment(data)[1].assigned_partitions
            for number in partition.partitions
        }
        for member_id, data in leader.assign(protocol, members, TOPICS).items()
    }


@pytest.mark.parametrize("protocol", ["range", "roundrobin", leader.STICKY])
def test_each_partition_goes_to_one_subscriber(protocol: str) -> None:
    """No member gets a topic that it does not subscribe to, or one that does not exist."""
    assignment = assign(protocol, member("a", "foo"), member("b", "foo", "bar", "none"))
    everything = [name for names in assignment.values() for name in names]
    assert len(everything) == len(set(everything)) == 6
    assert {topic for topic, _ in assignment["a"]} == {"foo"}
    assert len([1 for topic, _ in assignment["a"] if topic == "foo"]) == 2


def test_sticky_withholds_moving_partitions() -> None:
    """The owner gives them up first. Partitions without an owner are assigned immediately."""
    owned = {("foo", 0), ("foo", 1), ("foo", 2)}
    assignment = assign(leader.STICKY, member("a", "foo", owned=owned), member("b", "foo"))
    assert assignment["a"] < owned
    assert len(assignment["a"]) == 2
    assert assignment["b"] == {("foo", 3)}


def test_sticky_accepts_the_newest_generation() -> None:
    """Two claims of the same generation cancel each other, and the partition waits."""
    owned = {("foo", 0)}
    newer, older = member("a", "foo", owned=owned, generation=5), member("b", "foo", owned=owned)
    assert ("foo", 0) in assign(leader.STICKY, newer, older)["a"]
    both = assign(leader.STICKY, older, member("c", "foo", owned=owned))
    assert not [id_ for id_, names in both.items() if ("foo", 0) in names]
