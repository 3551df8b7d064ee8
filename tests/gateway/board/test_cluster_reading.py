"""What the board says of a group that the cluster serves."""

from dataclasses import replace
from uuid import UUID

import pytest

from gateway.board import cluster_reading
from gateway.board.cluster_reading import members_of, read_cluster_group
from gateway.groups.cluster_view import SeenInCluster
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.hosting.forwarded import WatchedGroup, WatchedMember
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.lookup_outcome import LiveMembers, LookupOutcome, NoMembers, OtherGroupType
from gateway.hosting.states import Mode
from kafka_codecs.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    MemberType,
    TopicPartitions,
)
from kafka_codecs.consumer_protocol import Assignment as EmbeddedAssignment
from kafka_codecs.consumer_protocol import TopicPartition, encode_assignment
from tests.support.group_snapshots import glance_of

NOW_MS = 100_000
ASSIGNED = encode_assignment(
    EmbeddedAssignment(assigned_partitions=(TopicPartition(topic="t", partitions=(1, 0)),)),
    1,
)


def member(name: str, *, through: bool = True, instance_id: str | None = None) -> WatchedMember:
    """A classic member, through the gateway or not."""
    return WatchedMember(
        member_id=f"{name}-1",
        instance_id=instance_id,
        client_id=name,
        client_host="/10.0.0.1",
        session_timeout_ms=10_000,
        assignment=ASSIGNED,
        heartbeat_ms=NOW_MS - 1_000 if through else None,
    )


def group_of(*members: WatchedMember, protocol_type: str = "consumer") -> WatchedGroup:
    """A classic group at rest, led by its first member."""
    return WatchedGroup(
        group_id="orders",
        generation=7,
        protocol_type=protocol_type,
        protocol="range",
        leader_id=members[0].member_id,
        members={member.member_id: member for member in members},
    )


def snapshot(watched: WatchedGroup | None, outcome: LookupOutcome | None = None) -> GroupSnapshot:
    """A forwarded group as its relayed requests and the cluster show it."""
    return glance_of(
        group_id="orders",
        decision=RoutingDecision(Mode.FORWARDED, "it is empty"),
        watched=watched,
        in_cluster=None if outcome is None else SeenInCluster(outcome, NOW_MS),
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize(
    ("watched", "next_step"),
    [
        (
            group_of(member("a"), member("b", through=False)),
            "b has not come through this gateway yet",
        ),
        (
            group_of(*(member(name, through=False) for name in "abcd")),
            "a, b, c and 1 more have not come through this gateway yet",
        ),
        (
            group_of(member("a"), member("b")),
            "all 2 are behind the gateway: groupferry adopt orders",
        ),
        (group_of(member("a")), "a is behind the gateway: groupferry adopt orders"),
        (
            group_of(member("a", instance_id="i"), member("b")),
            "its leader a is a static member: restart it under another group.instance.id, or"
            " without one",
        ),
        (
            group_of(member("a"), protocol_type="connect"),
            "stays with the cluster: its protocol type is connect",
        ),
        (None, "it is empty"),
    ],
)
def test_the_next_step_follows_from_who_comes_through_the_gateway(
    watched: WatchedGroup | None, next_step: str
) -> None:
    assert read_cluster_group(snapshot(watched)).next_step == next_step


def test_a_member_that_has_gone_silent_is_not_said_to_come_another_way() -> None:
    """A silent member came through the gateway, and then was killed, is frozen, or has left."""
    silent = replace(member("a"), heartbeat_ms=NOW_MS - 10_000)
    group = read_cluster_group(snapshot(group_of(silent, member("b"))))
    assert group.next_step == "a has sent no heartbeat here for 10 s: look at its process"
    group = read_cluster_group(snapshot(group_of(silent, member("b", through=False))))
    assert group.next_step == "b has not come through this gateway yet"


def test_a_description_that_the_cluster_does_not_renew_is_said_to_be_old() -> None:
    """What it shows may have changed since. An operator must not be sent to look at consumers for
    that."""
    silent = replace(member("a"), heartbeat_ms=NOW_MS - 60_000)
    seen = snapshot(group_of(silent), NoMembers())
    old = replace(seen, now_ms=NOW_MS + 12_000)
    assert read_cluster_group(seen).next_step == "it is empty"
    assert read_cluster_group(old).next_step == (
        "the cluster has not described it for 12 s: it may have changed"
    )


def test_several_silent_members_are_told_together() -> None:
    both = [replace(member(name), heartbeat_ms=NOW_MS - 10_000) for name in "ab"]
    assert read_cluster_group(snapshot(group_of(*both))).next_step == (
        "a, b have sent no heartbeat here for 10 s: look at their processes"
    )


def test_a_configured_group_stays_with_the_cluster() -> None:
    seen = replace(snapshot(group_of(member("a"))), is_configured=True)
    assert read_cluster_group(seen).next_step.endswith("as configured (groups_forward)")


def test_a_classic_group_shows_its_generation_and_who_owns_what() -> None:
    seen = snapshot(group_of(member("a"), member("b", through=False)))
    group = read_cluster_group(seen)
    assert (group.kind, group.state, group.epoch, group.members) == ("classic", "Stable", 7, 2)
    assert group.stands == "the cluster serves it, 2 members, 1 of them through the gateway"
    assert [member.line().owned for member in members_of(seen)] == [{"t": (0, 1)}] * 2


def test_during_a_rebalance_nobody_knows_who_owns_what() -> None:
    seen = snapshot(replace(group_of(member("a")), protocol=""))
    assert read_cluster_group(seen).state == ""
    assert [member.line().owned for member in members_of(seen)] == [None]


def test_an_assignment_that_is_none_of_consumers_is_unknown() -> None:
    """Connect's workers have a format of their own."""
    worker = replace(member("a"), assignment=b"\x00")
    seen = snapshot(group_of(worker, protocol_type="connect"))
    assert [member.line().owned for member in members_of(seen)] == [None]


def native_group() -> LiveMembers:
    """A mixed group in the cluster."""

    def member_of(name: str, kind: MemberType, held: int, target: int) -> Member:
        def of(number: int) -> Assignment:
            topic = TopicPartitions(topic_id=UUID(int=1), topic_name="t", partitions=(number,))
            return Assignment(topic_partitions=(topic,))

        return Member(
            member_id=f"{name}-1",
            member_epoch=3,
            client_id=name,
            client_host="/h",
            subscribed_topic_names=("t",),
            assignment=of(held),
            target_assignment=of(target),
            member_type=kind,
        )

    group = DescribedGroup(
        group_id="orders",
        group_state="Reconciling",
        group_epoch=4,
        assignment_epoch=3,
        assignor_name="uniform",
        members=(
            member_of("n", MemberType.CONSUMER, 0, 1),
            member_of("c", MemberType.CLASSIC, 2, 2),
        ),
    )
    return LiveMembers("consumer", ("n", "c"), consumer_group=group)


def test_a_group_of_the_new_protocol_is_shown_as_the_cluster_describes_it() -> None:
    """Type, members, and what each owns, gives up and gets."""
    seen = snapshot(None, native_group())
    group = read_cluster_group(seen)
    assert (group.kind, group.state, group.epoch, group.assignment_epoch) == (
        "consumer",
        "Reconciling",
        4,
        3,
    )
    assert (group.members, group.native_members) == (2, 1)
    assert group.stands == "the cluster serves it, 1 of 2 members with the new protocol"
    native, classic = (member.line() for member in members_of(seen))
    assert (native.protocol, native.owned, native.to_give_up, native.to_get) == (
        "consumer",
        {"t": (0,)},
        {"t": (0,)},
        {"t": (1,)},
    )
    assert (classic.protocol, classic.owned, classic.to_get) == ("classic", {"t": (2,)}, {})


def test_what_is_unknown_is_not_zero() -> None:
    group = read_cluster_group(snapshot(None))
    assert (group.kind, group.epoch, group.members) == (None, None, None)
    assert read_cluster_group(snapshot(None, NoMembers())).members == 0


def test_a_group_of_another_kind_stays_with_the_cluster() -> None:
    group = read_cluster_group(snapshot(None, OtherGroupType("share")))
    assert group.next_step == "stays with the cluster: it is a share group"
    assert list(members_of(snapshot(None, OtherGroupType("share")))) == []


def test_members_of_other_clients_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = cluster_reading._read_watched
    names: list[str] = []

    def count(group: WatchedGroup, one: WatchedMember) -> cluster_reading.ClusterMember:
        names.append(one.client_id)
        return read(group, one)

    monkeypatch.setattr(cluster_reading, "_read_watched", count)
    seen = snapshot(group_of(member("a"), member("b")))
    assert [one.client_id for one in members_of(seen, "b")] == ["b"]
    assert names == ["b"]
