"""LeaveGroup on a consumer group (rule 5.8). Scenarios 47 and 48 cover its codes."""

from coordinator.interface.records import MemberMetadata, RemovalCause
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript


def causes(group: GroupScript) -> list[RemovalCause | None]:
    return [r.cause for r in group.last_step.durable if isinstance(r, MemberMetadata)]


def test_leaving_stops_a_members_timers(group: GroupScript) -> None:
    """These are session, join, sync and revocation."""
    group.given_consumer_group(given_classic("c1", epoch=9), given_native("n1"))
    group.leave("c1")
    assert causes(group) == [RemovalCause.LEFT]
    assert {key.owner for key in group.engine.state.deadlines} == {"n1"}


def test_an_entry_with_only_an_instance_id_is_an_admins_removal(group: GroupScript) -> None:
    """The holder of the instance id is removed."""
    group.given_consumer_group(given_classic("c1", instance_id="i1"), given_native("n1"))
    group.leave(("", "i1"))
    assert causes(group) == [RemovalCause.REMOVED_BY_ADMIN]
    assert group.consumer.members.keys() == {"n1"}


def test_a_member_named_twice_leaves_once(group: GroupScript) -> None:
    """Both entries succeed, and the epoch is bumped once."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    reply = group.leave("c1", "c1")
    assert [member.error for member in reply.members] == [ErrorCode.NONE, ErrorCode.NONE]
    assert group.consumer.epoch == 11


def test_each_entry_has_its_own_cause(group: GroupScript) -> None:
    """A member id means that the member left, an instance id alone that an admin removed it."""
    group.given_consumer_group(
        given_classic("c1", instance_id="i1"), given_classic("c2"), given_native("n1")
    )
    group.leave(("", "i1"), "c2")
    assert causes(group) == [RemovalCause.REMOVED_BY_ADMIN, RemovalCause.LEFT]
