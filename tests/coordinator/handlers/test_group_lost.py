"""All members of a group are fenced when another coordinator serves it."""

from coordinator.interface.events import GroupLost
from coordinator.interface.records import MemberMetadata, RemovalCause
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import ClassicGroupMemberDropped
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

TAKEN = RemovalCause.GROUP_TAKEN


def take(group: GroupScript, cause: RemovalCause = TAKEN) -> list[RemovalCause | None]:
    """The causes of the removals."""
    return [
        record.cause
        for record in group.feed(GroupLost(cause=cause)).records
        if isinstance(record, ClassicGroupMemberDropped | MemberMetadata)
    ]


def test_members_of_both_protocols_are_fenced(group: GroupScript) -> None:
    """One step fences them. Each member learns it from its next heartbeat."""
    group.given_consumer_group(given_classic("c"), given_native("n"))
    assert take(group) == [TAKEN] * 2
    assert group.view().members == ()
    assert group.native("n", 10).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("c", 10).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_a_classic_group_are_fenced_and_their_requests_answered(
    group: GroupScript,
) -> None:
    """No client continues to wait for a rebalance of the lost group."""
    ids = group.stable_classic_group({"a": {"foo": (0, 1)}, "b": {"foo": (2,)}})
    waiting = group.send_join(ids["a"])
    assert group.is_parked(waiting)
    assert take(group) == [TAKEN] * 2
    assert group.answer(waiting, JoinGroupReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (group.view().state, group.view().members) == ("Empty", ())


def test_losing_a_group_without_members_writes_no_record(group: GroupScript) -> None:
    """This holds whether the group exists or not."""
    assert take(group) == []
    group.given_consumer_group()
    assert take(group) == []


def test_each_removal_has_the_cause_of_the_loss(group: GroupScript) -> None:
    """No line says that a group was taken if it only began again."""
    group.given_consumer_group(given_classic("c"), given_native("n"))
    cause = RemovalCause.GENERATION_WENT_BACK
    assert take(group, cause) == [cause] * 2
