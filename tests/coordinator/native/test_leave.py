"""Native members that leave (rule 3.10)."""

import pytest

from coordinator.interface.records import MemberState
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_native_leave_needs_a_consumer_group(group: GroupScript, epoch: int) -> None:
    """Other kinds of groups, and no group, answer GROUP_ID_NOT_FOUND."""
    assert group.native("n1", epoch, instance_id="i1").error == ErrorCode.GROUP_ID_NOT_FOUND
    group.given_classic_group(given_classic_group_member("c1", FOO_0))
    assert group.native("c1", epoch, instance_id="i1").error == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("member_id", "instance_id", "error"),
    [
        ("n9", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n1", "i9", ErrorCode.UNKNOWN_MEMBER_ID),
        ("n2", "i1", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_leave_with_foreign_ids_is_refused(
    group: GroupScript, member_id: str, instance_id: str | None, error: ErrorCode
) -> None:
    """No member is removed by mistake."""
    group.given_consumer_group(given_native("n1", instance_id="i1"), given_native("n2"))
    assert group.native(member_id, -1, instance_id=instance_id).error == error
    assert group.consumer.members.keys() == {"n1", "n2"}


def test_a_static_member_that_leaves_temporarily_keeps_its_partitions(group: GroupScript) -> None:
    """The member keeps its assigned partitions but not the pending ones, and its session
    continues."""
    n1 = given_native(
        "n1",
        instance_id="i1",
        assigned=FOO_0,
        pending={"foo": (1,)},
        state=MemberState.UNREVOKED_PARTITIONS,
    )
    group.given_consumer_group(n1, given_native("n2"))
    assert group.left_ms(DeadlineKind.REVOCATION, "n1") == 10_000
    group.wait(5_000)
    reply = group.native("n1", -2, instance_id="i1")
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, -2)
    assert group.granted_partitions("n1") == FOO_0
    assert group.current("n1").pending_revocation == {}
    assert group.left_ms(DeadlineKind.REVOCATION, "n1") is None
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 40_000
    assert group.consumer.epoch == 10
    assert group.native("n1", 10, instance_id="i1").error == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_repeated_temporary_leave_changes_nothing(group: GroupScript) -> None:
    """The client repeats it if the answer was lost."""
    group.given_consumer_group(given_native("n1", instance_id="i1", assigned=FOO_0))
    group.native("n1", -2, instance_id="i1")
    reply = group.native("n1", -2, instance_id="i1")
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, -2)
    assert group.last_step.records == ()


def test_a_classic_member_may_leave_by_native_heartbeat(group: GroupScript) -> None:
    """Its member id is valid there as well."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    assert group.native("c1", -1).member_epoch == -1
    assert group.consumer.members.keys() == {"n1"}


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_late_leave_does_not_remove_a_member_that_has_joined_again(
    group: GroupScript, epoch: int
) -> None:
    """The leave has waited behind a commit, on a connection that its client has given up (DEV
    D25)."""
    group.native("n1", instance_id="i1", connection=1)
    group.native("n1", instance_id="i1", connection=2)
    late = group.native("n1", epoch, instance_id="i1", connection=1)
    assert late.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.granted_partitions("n1") == {"foo": (0, 1, 2)}
    assert group.native("n1", epoch, instance_id="i1", connection=2).error == ErrorCode.NONE
