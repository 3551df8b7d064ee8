"""Scenarios 61 to 70: rules of the engine that a migration depends on."""

import pytest

from coordinator.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript, Owned, make_topics, topic_id

FOO_0 = {"foo": (0,)}
REST = {"foo": (1, 2)}


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (200, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (50, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (99, None, ErrorCode.NONE),
        (99, {"foo": (0, 2)}, ErrorCode.FENCED_MEMBER_EPOCH),
        (99, {"foo": (0, 1)}, ErrorCode.NONE),
        (99, {"foo": (0,)}, ErrorCode.NONE),
        (99, {}, ErrorCode.NONE),
        (100, None, ErrorCode.NONE),
    ],
)
def test_61_which_epochs_a_member_may_present(
    group: GroupScript, epoch: int, owned: Owned | None, error: ErrorCode
) -> None:
    """Its own; or the previous one, unless it states to own more than it was assigned: the answer
    with the new one may be lost. Fencing removes nobody. DEV D54: Kafka fences the previous one
    from a member that does not state what it owns."""
    n1 = given_native("n1", epoch=100, previous_epoch=99, assigned={"foo": (0, 1)})
    group.given_consumer_group(n1, given_native("n2", epoch=100, assigned={"foo": (2,)}), epoch=100)
    reply = group.native("n1", epoch, owned=owned)
    assert reply.error == error
    assert reply.member_epoch == (100 if error == ErrorCode.NONE else 0)
    assert group.assigned("n1") == {"foo": (0, 1)}


def test_62_a_known_member_joins_again(group: GroupScript) -> None:
    """It lost its memory, not its place."""
    group.given_consumer_group(given_native("n1", epoch=3, assigned=FOO_0), epoch=3)
    reply = group.native("n1")
    assert reply.member_epoch == 3
    assert group.named(reply.assignment) == FOO_0


@pytest.mark.parametrize("n1_leaves", [True, False])
def test_63_a_live_static_member_keeps_its_instance_id(group: GroupScript, n1_leaves: bool) -> None:
    """Until it leaves with -2, or its session ends; also against itself."""
    group.native("n1", instance_id="i1")
    assert group.native("n2", instance_id="i1").error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.native("n1", instance_id="i1").error == ErrorCode.UNRELEASED_INSTANCE_ID
    if n1_leaves:
        group.native("n1", -2, instance_id="i1")
    else:
        group.wait(45_000)
    reply = group.native("n2", instance_id="i1")
    assert reply.error == ErrorCode.NONE
    assert group.consumer.members.keys() == {"n2"}


def test_64_a_static_member_restarts(group: GroupScript) -> None:
    """Same epoch, same partitions; nobody else is disturbed."""
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0, instance_id="i1"), given_native("n2", assigned=REST)
    )
    group.native("n1", -2, instance_id="i1")
    assert group.native("n2", 10, owned=REST).assignment is None
    reply = group.native("n1-restarted", instance_id="i1")
    assert reply.member_epoch == 10
    assert group.named(reply.assignment) == FOO_0
    assert group.consumer.epoch == 10


def test_65_who_makes_the_member_id(group: GroupScript) -> None:
    """The client, from v1 on; before, the server, which makes a UUID as Kafka prints it."""
    assert group.native("", version=1).error == ErrorCode.INVALID_REQUEST
    reply = group.native("", version=0)
    assert reply.error == ErrorCode.NONE
    assert len(reply.member_id or "") == 22


def test_67_describing_a_mixed_group(group: GroupScript) -> None:
    """Each member's protocol is told, and what it holds."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n1", assigned=REST)
    )
    members = group.view().members
    assert [(m.member_id, m.is_classic, m.assignment, m.target) for m in members] == [
        ("c1", True, FOO_0, FOO_0),
        ("n1", False, REST, REST),
    ]


@pytest.mark.parametrize("version", range(2, 11))
def test_68_a_classic_member_commits_with_any_version(group: GroupScript, version: int) -> None:
    """It knows nothing of member epochs; its generation is one."""
    group.given_classic_group(given_classic_group_member("c1", FOO_0), generation=1)
    group.native("n1")
    assert group.commit("c1", 1, FOO_0, version=version)[1].error == ErrorCode.NONE
    assert group.fetch(of=FOO_0).error == ErrorCode.NONE


def test_69_commits_of_a_wrong_epoch(group: GroupScript) -> None:
    """The code is the one that the member's protocol knows."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n1", assigned=REST)
    )
    errors = [
        group.commit("c1", 11, FOO_0)[1].error,
        group.commit("c1", 9, FOO_0)[1].error,
        group.commit("n1", 11, REST)[1].error,
        group.commit("n1", 9, REST)[1].error,
        group.commit("n1", 10, REST, version=8)[1].error,
        group.commit("nobody", 10, REST)[1].error,
        group.fetch("c1", 9).error,
        group.fetch("n1", 9).error,
    ]
    assert errors == [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
    ]


def test_70_commits_of_an_older_epoch(make_group: MakeGroup) -> None:
    """Fine for a partition that was held ever since, an error for one acquired later."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    group.given_consumer_group(given_native("n1", assigned=FOO_0))
    group.native("n1", 10, topics=("foo", "bar"))
    assert group.current("n1").assigned == {
        Partition(topic_id("foo"), 0): 10,
        Partition(topic_id("bar"), 0): 11,
    }
    assert group.commit("n1", 10, FOO_0)[1].error == ErrorCode.NONE
    both = {"foo": (0,), "bar": (0,)}
    assert group.commit("n1", 10, both)[1].error == ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit("n1", 11, both)[1].error == ErrorCode.NONE
