"""LeaveGroup on a consumer group (rule 5.8); scenarios 47 and 48 tell its codes."""

from coordinator.records import MemberMetadata, RemovalCause
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript


def causes(group: GroupScript) -> list[RemovalCause | None]:
    return [r.cause for r in group.last_step.durable if isinstance(r, MemberMetadata)]


def test_a_member_that_leaves_takes_its_timers_along(group: GroupScript) -> None:
    """All of them: session, join, sync, revocation."""
    group.given_consumer_group(given_classic("c1", epoch=9), given_native("n1"))
    group.leave("c1")
    assert causes(group) == [RemovalCause.LEFT]
    assert {key.owner for key in group.engine.state.deadlines} == {"n1"}


def test_an_instance_id_alone_is_an_admins_removal(group: GroupScript) -> None:
    """Whoever holds it goes."""
    group.given_consumer_group(given_classic("c1", instance_id="i1"), given_native("n1"))
    group.leave(("", "i1"))
    assert causes(group) == [RemovalCause.REMOVED_BY_ADMIN]
    assert group.consumer.members.keys() == {"n1"}


def test_a_member_named_twice_leaves_once(group: GroupScript) -> None:
    """Both entries are right, and there is one bump."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    reply = group.leave("c1", "c1")
    assert [member.error for member in reply.members] == [ErrorCode.NONE, ErrorCode.NONE]
    assert group.consumer.epoch == 11


def test_each_entry_has_its_own_cause(group: GroupScript) -> None:
    """Whoever named itself left; whoever was named by its instance id was removed by an admin."""
    group.given_consumer_group(
        given_classic("c1", instance_id="i1"), given_classic("c2"), given_native("n1")
    )
    group.leave(("", "i1"), "c2")
    assert causes(group) == [RemovalCause.REMOVED_BY_ADMIN, RemovalCause.LEFT]
