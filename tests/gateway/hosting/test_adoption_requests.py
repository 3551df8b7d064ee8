"""The requests of an adoption."""

from dataclasses import replace

from gateway.hosting.adoptable import snapshot
from gateway.hosting.adoption_requests import LOCK_MARGIN_MS, NOTHING, Requests
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.leave_group import MemberIdentity
from tests.support.adoption import GROUP, GUISE, A, B, described, watched

REQUESTS = Requests(GROUP, snapshot(described(instance_of_b="i-2"), watched()), GUISE)


def test_the_leaders_member_offers_the_private_protocol_first() -> None:
    open_, locked = REQUESTS.rejoin(is_locked=False), REQUESTS.rejoin(is_locked=True)
    assert [each.name for each in open_.protocols] == [GUISE.protocol, "range", "sticky"]
    assert [each.name for each in locked.protocols] == [GUISE.protocol]
    assert open_.member_id == locked.member_id == A


def test_the_leader_need_not_be_the_first_member() -> None:
    group = replace(REQUESTS.group, leader=B)
    requests = Requests(GROUP, group, GUISE)
    assert requests.leader.member_id == B
    assert [each.member_id for each in requests.others] == [A]


def test_nothing_that_it_offers_is_a_readable_subscription() -> None:
    """A native consumer would convert the group, and get what the others still hold."""
    assert {each.metadata for each in REQUESTS.rejoin(is_locked=False).protocols} == {
        GUISE.metadata
    }


def test_it_stays_longer_than_any_member_believes_to_own_something() -> None:
    longest = replace(
        REQUESTS.group.members[1], session_timeout_ms=60_000, rebalance_timeout_ms=30_000
    )
    group = replace(REQUESTS.group, members=(REQUESTS.group.members[0], longest))
    join = Requests(GROUP, group, GUISE).rejoin(is_locked=False)
    assert join.session_timeout_ms == 60_000 + LOCK_MARGIN_MS
    assert join.rebalance_timeout_ms == 60_000 + LOCK_MARGIN_MS


def test_static_members_leave_with_their_instance_ids() -> None:
    leave = REQUESTS.leave(REQUESTS.others)
    assert [(each.member_id, each.group_instance_id) for each in leave.members] == [(B, "i-2")]
    assert all(leaver.reason for leaver in leave.members), "the broker logs it"


def test_the_anchor_can_leave_without_its_member_id() -> None:
    leave = REQUESTS.leave(REQUESTS.group.members, with_anchor=True)
    assert leave.members[-1] == MemberIdentity(member_id="", group_instance_id=GUISE.instance_id)


def test_an_outsider_gets_an_assignment_without_partitions() -> None:
    """Clients do not understand zero bytes."""
    sync = REQUESTS.sync(9, "range", ["o"])
    assert [(each.member_id, each.assignment) for each in sync.assignments] == [("o", NOTHING)]
    assert decode_assignment(NOTHING)[1].assigned_partitions == ()
    assert sync.protocol_name == "range"


def test_a_heartbeat_carries_the_members_own_ids() -> None:
    beat = REQUESTS.beat(REQUESTS.others[0], 7)
    assert (beat.member_id, beat.group_instance_id, beat.generation_id) == (B, "i-2", 7)


def test_the_anchor_joins_and_syncs_as_what_it_always_is() -> None:
    join, sync = REQUESTS.join_anchor("x"), REQUESTS.sync_anchor("x", 12)
    assert (join.member_id, join.group_instance_id) == ("x", GUISE.instance_id)
    assert [(each.name, each.metadata) for each in join.protocols] == [
        (GUISE.protocol, GUISE.metadata)
    ]
    assert (sync.generation_id, sync.protocol_name) == (12, GUISE.protocol)
