"""Scenarios 61 to 70: rules of the engine that a migration depends on."""

import pytest

from coordinator.interface.topics import Partition
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
def test_61_the_current_or_previous_epoch_is_accepted(
    group: GroupScript, epoch: int, owned: Owned | None, error: ErrorCode
) -> None:
    """The previous epoch is accepted unless the member states partitions that it was not assigned,
    because the answer with the new epoch may be lost. A fenced member stays in the group. DEV D54:
    Kafka refuses the previous epoch if the member does not state its partitions."""
    n1 = given_native("n1", epoch=100, previous_epoch=99, assigned={"foo": (0, 1)})
    group.given_consumer_group(n1, given_native("n2", epoch=100, assigned={"foo": (2,)}), epoch=100)
    reply = group.native("n1", epoch, owned=owned)
    assert reply.error == error
    assert reply.member_epoch == (100 if error == ErrorCode.NONE else 0)
    assert group.granted_partitions("n1") == {"foo": (0, 1)}


def test_62_a_known_member_rejoins(group: GroupScript) -> None:
    """The client lost its state, but is still a member."""
    group.given_consumer_group(given_native("n1", epoch=3, assigned=FOO_0), epoch=3)
    reply = group.native("n1")
    assert reply.member_epoch == 3
    assert group.names_of(reply.assignment) == FOO_0


@pytest.mark.parametrize("n1_leaves", [True, False])
def test_63_a_live_static_member_keeps_its_instance_id(group: GroupScript, n1_leaves: bool) -> None:
    """The instance id is free once the member leaves with -2 or its session ends. The member itself
    may join again (DEV D91)."""
    group.native("n1", instance_id="i1")
    assert group.native("n2", instance_id="i1").error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.native("n1", instance_id="i1").error == ErrorCode.NONE
    if n1_leaves:
        group.native("n1", -2, instance_id="i1")
    else:
        group.wait(45_000)
    reply = group.native("n2", instance_id="i1")
    assert reply.error == ErrorCode.NONE
    assert group.consumer.members.keys() == {"n2"}


def test_64_a_static_member_restarts(group: GroupScript) -> None:
    """Epoch and partitions stay, and no other member is disturbed."""
    group.given_consumer_group(
        given_native("n1", assigned=FOO_0, instance_id="i1"), given_native("n2", assigned=REST)
    )
    group.native("n1", -2, instance_id="i1")
    assert group.native("n2", 10, owned=REST).assignment is None
    reply = group.native("n1-restarted", instance_id="i1")
    assert reply.member_epoch == 10
    assert group.names_of(reply.assignment) == FOO_0
    assert group.consumer.epoch == 10


def test_65_the_client_or_the_server_generates_the_member_id(group: GroupScript) -> None:
    """From v1 on it is the client; before, the server generates a UUID as Kafka prints it."""
    assert group.native("", version=1).error == ErrorCode.INVALID_REQUEST
    reply = group.native("", version=0)
    assert reply.error == ErrorCode.NONE
    assert len(reply.member_id or "") == 22


def test_67_describing_a_mixed_group(group: GroupScript) -> None:
    """The view has each member's protocol and its partitions."""
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
    """The member does not know member epochs, but its generation is one."""
    group.given_classic_group(given_classic_group_member("c1", FOO_0), generation=1)
    group.native("n1")
    assert group.commit("c1", 1, FOO_0, version=version)[1].error == ErrorCode.NONE
    assert group.fetch(of=FOO_0).error == ErrorCode.NONE


def test_69_a_commit_with_a_wrong_epoch_is_refused(group: GroupScript) -> None:
    """The code is one that the member's protocol knows."""
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


def test_70_a_commit_with_an_older_epoch_needs_partitions_held_since_then(
    make_group: MakeGroup,
) -> None:
    """A partition that was acquired later fails the commit."""
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
