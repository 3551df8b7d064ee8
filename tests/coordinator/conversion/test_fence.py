"""Removing members of a consumer group (rules 3.11, 6.1)."""

from coordinator.conversion.fence import fence
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import EpochCause, GroupEpoch, MemberMetadata, RemovalCause
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript


def draft_of(group: GroupScript) -> StepBuilder:
    return StepBuilder(
        group.engine.state, config=group.config, topics=group.topics, now_ms=group.now_ms
    )


def test_fencing_several_members_bumps_the_epoch_once(group: GroupScript) -> None:
    """The target is not computed in the same step."""
    group.given_consumer_group(given_native("n1"), given_native("n2"), given_native("n3"))
    step = draft_of(group)
    fence(step, dict.fromkeys(["n1", "n2"], RemovalCause.SESSION_EXPIRED))
    epochs = [record for record in step.records if isinstance(record, GroupEpoch)]
    assert [(e.epoch, e.cause) for e in epochs] == [(11, EpochCause.MEMBER_REMOVED)]
    assert step.consumer.assignment_epoch == 10
    causes = [(r.member_id, r.cause) for r in step.records if isinstance(r, MemberMetadata)]
    assert causes == [
        ("n1", RemovalCause.SESSION_EXPIRED),
        ("n2", RemovalCause.SESSION_EXPIRED),
    ]


def test_the_last_member_leaves_an_empty_consumer_group(group: GroupScript) -> None:
    """No classic member remains to downgrade for."""
    group.given_consumer_group(given_native("n1"))
    step = draft_of(group)
    fence(step, dict.fromkeys(["n1"], RemovalCause.LEFT))
    assert step.consumer.epoch == 11
    assert not step.consumer.members
    assert not step.consumer.subscribers


def test_the_last_native_member_makes_the_group_classic(group: GroupScript) -> None:
    """The record of the removal has its cause in this case as well."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    step = draft_of(group)
    fence(step, dict.fromkeys(["n1"], RemovalCause.REMOVED_BY_ADMIN))
    assert step.classic.members.keys() == {"c1"}
    causes = {r.member_id: r.cause for r in step.records if isinstance(r, MemberMetadata)}
    assert causes == {"c1": RemovalCause.GROUP_CONVERTED, "n1": RemovalCause.REMOVED_BY_ADMIN}
