"""Whom an adoption concerns, and the requests about them."""

from dataclasses import replace

import pytest

from gateway.hosting.adoptable import snapshot
from gateway.hosting.adoptees import LOCK_MARGIN_MS, Adoptees
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import MemberIdentity
from tests.support.adoption import (
    GROUP,
    JOIN_METADATA,
    NOW_MS,
    A,
    B,
    cluster_description,
    watched_group,
)

ADOPTEES = Adoptees(
    GROUP, snapshot(cluster_description(instance_of_b="i-2"), watched_group()), JOIN_METADATA
)


def rejoin(adoptees: Adoptees = ADOPTEES) -> JoinGroupRequest:
    """The JoinGroup of the leader's member before the lock."""
    return adoptees.leaders_member().join(
        NOW_MS, member_id=adoptees.leader.member_id, names=adoptees.names
    )


def test_the_leaders_member_offers_the_private_protocol_first() -> None:
    assert [protocol.name for protocol in rejoin().protocols] == [
        JOIN_METADATA.protocol,
        "range",
        "sticky",
    ]
    assert (rejoin().member_id, rejoin().group_instance_id) == (A, None)


def test_the_leader_need_not_be_the_first_member() -> None:
    adoptees = Adoptees(GROUP, replace(ADOPTEES.group, leader=B), JOIN_METADATA)
    assert adoptees.leader.member_id == B
    assert [other.member_id for other in adoptees.others] == [A]


@pytest.mark.parametrize(("rebalance_ms", "longest_ms"), [(30_000, 60_000), (90_000, 90_000)])
def test_it_stays_longer_than_any_member_believes_to_own_something(
    rebalance_ms: int, longest_ms: int
) -> None:
    first, second = (
        replace(member, session_timeout_ms=6_000, rebalance_timeout_ms=6_000)
        for member in ADOPTEES.group.members
    )
    longest = replace(second, session_timeout_ms=60_000, rebalance_timeout_ms=rebalance_ms)
    group = replace(ADOPTEES.group, members=(first, longest))
    join = rejoin(Adoptees(GROUP, group, JOIN_METADATA))
    assert join.session_timeout_ms == 60_000 + LOCK_MARGIN_MS
    assert join.rebalance_timeout_ms == longest_ms + LOCK_MARGIN_MS


def test_the_anchor_accepts_the_longest_session_of_the_cluster() -> None:
    """Refused, it would undo the adoption after the members have left."""
    anchor = ADOPTEES.anchor()
    assert anchor.join(NOW_MS).session_timeout_ms == 60_000
    refusal = JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT)
    shorter = anchor.on_answer(refusal, NOW_MS)
    assert isinstance(shorter, JoinGroupRequest)
    assert shorter.session_timeout_ms == 45_000


def test_static_members_leave_with_their_instance_ids() -> None:
    leave = ADOPTEES.leave(ADOPTEES.others)
    assert [(member.member_id, member.group_instance_id) for member in leave.members] == [
        (B, "i-2")
    ]
    assert all(leaver.reason for leaver in leave.members), "the broker logs it"


def test_the_anchor_can_leave_without_its_member_id() -> None:
    leave = ADOPTEES.leave(ADOPTEES.group.members, with_anchor=True)
    assert leave.members[-1] == MemberIdentity(
        member_id="", group_instance_id=JOIN_METADATA.instance_id
    )


def test_a_heartbeat_carries_the_members_own_ids() -> None:
    beat = ADOPTEES.beat(ADOPTEES.others[0])
    generation = ADOPTEES.group.generation
    assert (beat.member_id, beat.group_instance_id, beat.generation_id) == (B, "i-2", generation)


def test_the_anchor_joins_as_what_it_always_is() -> None:
    join = ADOPTEES.anchor().join(NOW_MS)
    assert (join.member_id, join.group_instance_id) == ("", JOIN_METADATA.instance_id)
    assert [(protocol.name, protocol.metadata) for protocol in join.protocols] == [
        (JOIN_METADATA.protocol, JOIN_METADATA.metadata)
    ]
