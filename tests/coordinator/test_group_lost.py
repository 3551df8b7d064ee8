"""A group that somebody else serves now: all its members are fenced."""

from coordinator.events import GroupLost
from coordinator.records import MemberMetadata, RemovalCause
from coordinator.replies import JoinGroupReply
from coordinator.volatile import ClassicGroupMemberDropped
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript


def take(group: GroupScript) -> list[RemovalCause | None]:
    """Why each member went."""
    return [
        record.cause
        for record in group.feed(GroupLost()).records
        if isinstance(record, ClassicGroupMemberDropped | MemberMetadata)
    ]


def test_members_of_both_protocols_are_fenced(group: GroupScript) -> None:
    """In one step; the next heartbeat of each tells it."""
    group.given_consumer_group(given_classic("c"), given_native("n"))
    assert take(group) == [RemovalCause.GROUP_TAKEN] * 2
    assert group.view().members == ()
    assert group.native("n", 10).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("c", 10).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_a_classic_group_are_fenced_and_their_requests_answered(
    group: GroupScript,
) -> None:
    """Nobody goes on waiting for a rebalance of a group that is gone."""
    ids = group.stable_classic_group({"a": {"foo": (0, 1)}, "b": {"foo": (2,)}})
    waiting = group.send_join(ids["a"])
    assert group.is_parked(waiting)
    assert take(group) == [RemovalCause.GROUP_TAKEN] * 2
    assert group.answer(waiting, JoinGroupReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (group.view().state, group.view().members) == ("Empty", ())


def test_losing_a_group_without_members_writes_no_record(group: GroupScript) -> None:
    """Whether it exists or not."""
    assert take(group) == []
    group.given_consumer_group()
    assert take(group) == []
