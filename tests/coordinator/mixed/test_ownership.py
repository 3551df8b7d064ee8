"""The partitions that a JoinGroup proves its sender to own (deviation D5)."""

import pytest

from coordinator.interface.records import MemberState
from coordinator.mixed.ownership import owned_by_sender
from kafka_codecs.consumer_protocol import Subscription, TopicPartition
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, Owned, make_topics, partitions

OLD, NEW = partitions({"foo": (0,)}), partitions({"foo": (1,)})
HELD = {**dict.fromkeys(OLD, 5), **dict.fromkeys(NEW, 7)}


@pytest.mark.parametrize(
    ("generation", "listed", "owned"),
    [
        (7, (), ()),  # eager: it revoked everything, and states its generation
        (7, (0,), (0,)),
        (9, (0,), (0,)),
        (6, (), (1,)),  # sent before foo-1 was granted: proves nothing about it
        (5, (0,), (0, 1)),
        (4, (), (0, 1)),
        (0, (), (0, 1)),
        (-1, (), ()),  # a client that starts, or never states a generation
        (-1, (0,), (0,)),
        (6, (0, 1, 2), (0, 1, 2)),
    ],
)
def test_an_owned_list_does_not_release_later_grants(
    generation: int, listed: tuple[int, ...], owned: tuple[int, ...]
) -> None:
    """foo-0 was granted at epoch 5, foo-1 at epoch 7."""
    subscription = Subscription(
        topics=("foo",),
        owned_partitions=(TopicPartition(topic="foo", partitions=listed),),
        generation_id=generation,
    )
    assert owned_by_sender(subscription, HELD, make_topics(foo=3)) == partitions({"foo": owned})


def given_a_late_grant(group: GroupScript) -> None:
    """c1 was granted foo-0 at epoch 10, and must give it to n2 at epoch 11."""
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": (0,)}, target={}),
        given_native("n2", target={"foo": (0,)}),
        epoch=11,
    )


@pytest.mark.parametrize("owned", [{}, {"foo": (1,)}])
def test_a_stale_join_releases_no_partition(group: GroupScript, owned: Owned) -> None:
    """It was sent in generation 9, and arrives after c1 has rejoined at 10. Its list lacks foo-0,
    because c1 did not own it then."""
    given_a_late_grant(group)
    reply = group.join("c1", owned=owned, generation=9, embedded_version=3)
    assert reply.generation == 10
    assert group.current("c1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.current("c1").pending_revocation.keys() == OLD
    group.native("n2", 10, owned={})
    assert group.assigned("n2") == {}
    assert group.join("c1", generation=10, embedded_version=3).generation == 11
    assert group.named(group.native("n2", 11).assignment) == {"foo": (0,)}


@pytest.mark.parametrize(
    ("generation", "embedded_version"), [(10, 3), (10, 2), (-1, 3), (9, 1), (9, 0)]
)
def test_a_list_with_the_current_generation_or_none_counts(
    group: GroupScript, generation: int, embedded_version: int
) -> None:
    """Eager clients send both kinds, and older clients send no generation."""
    given_a_late_grant(group)
    reply = group.join("c1", generation=generation, embedded_version=embedded_version)
    assert reply.generation == 11
    assert group.named(group.native("n2", 10, owned={}).assignment) == {"foo": (0,)}


def test_a_stale_join_does_not_end_a_revocation(group: GroupScript) -> None:
    """Pending partitions count like assigned ones: only a newer list proves a revocation."""
    group.given_consumer_group(
        given_classic(
            "c1", pending={"foo": (0,)}, target={}, state=MemberState.UNREVOKED_PARTITIONS
        ),
        given_native("n2", target={"foo": (0,)}),
        epoch=11,
    )
    assert group.join("c1", generation=9, embedded_version=3).generation == 10
    assert group.current("c1").pending_revocation.keys() == OLD
    assert group.join("c1", generation=10, embedded_version=3).generation == 11
