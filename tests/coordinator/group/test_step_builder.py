"""Building a step."""

import pytest

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import InvariantError
from coordinator.interface.records import Assignment, CurrentAssignment
from coordinator.interface.volatile_records import (
    CommitInFlight,
    CommitStarted,
    DeadlineCleared,
    DeadlineKind,
)
from tests.support.group_records import given_classic_group_member, given_native
from tests.support.group_script import GroupScript, partitions

FOO_0 = {"foo": (0,)}
(P0,), (P1,) = partitions(FOO_0), partitions({"foo": (1,)})


def draft_of(group: GroupScript) -> StepBuilder:
    return StepBuilder(group.engine.state, config=group.config, topics=group.topics, now_ms=100)


def grant(member_id: str, *, pending: bool = False) -> CurrentAssignment:
    held = {P0: 10}
    value = Assignment(
        member_epoch=10,
        previous_epoch=10,
        assigned={} if pending else held,
        pending_revocation=held if pending else {},
    )
    return CurrentAssignment(member_id=member_id, value=value)


def test_emitted_records_are_visible_to_later_rules(group: GroupScript) -> None:
    """The group itself does not see them yet."""
    group.given_consumer_group(given_native("n1", assigned=FOO_0))
    step = draft_of(group)
    release = CurrentAssignment(
        member_id="n1", value=Assignment(member_epoch=10, previous_epoch=10)
    )
    step.emit(release)
    assert step.records == [release]
    assert step.is_free_for(P0, "n2")
    assert group.consumer.holders[P0] == "n1"


@pytest.mark.parametrize("pending", [True, False])
def test_no_partition_has_two_owners(group: GroupScript, pending: bool) -> None:
    """This guard stops a faulty rule that grants a held partition."""
    group.given_consumer_group(given_native("n1", assigned=FOO_0), given_native("n2"))
    step = draft_of(group)
    with pytest.raises(InvariantError, match="is held by n1 and was granted to n2"):
        step.emit(grant("n2", pending=pending))
    step.emit(grant("n1", pending=pending))


def test_a_held_or_committing_partition_is_free_for_its_member_only(group: GroupScript) -> None:
    """No other member holds the partition, and no commit of another member is in flight."""
    group.given_consumer_group(given_native("n1", assigned=FOO_0), given_native("n2"))
    step = draft_of(group)
    step.emit(
        CommitStarted(
            1, CommitInFlight(member_id="n2", partitions=frozenset({P1}), held=frozenset({P1}))
        )
    )
    free = {(p.number, id_): step.is_free_for(p, id_) for p in (P0, P1) for id_ in ("n1", "n2")}
    assert free == {(0, "n1"): True, (0, "n2"): False, (1, "n1"): False, (1, "n2"): True}


def test_deadlines_count_from_now(group: GroupScript) -> None:
    """Disarming a deadline that is not running writes no record."""
    step = draft_of(group)
    step.disarm(DeadlineKind.SESSION, "n1")
    assert step.records == []
    step.arm(DeadlineKind.SESSION, "n1", 50)
    assert step.is_armed(DeadlineKind.SESSION, "n1")
    assert list(step.state.deadlines.values()) == [150]
    step.disarm(DeadlineKind.SESSION, "n1")
    assert not step.is_armed(DeadlineKind.SESSION, "n1")
    assert isinstance(step.records[-1], DeadlineCleared)


def test_a_rule_for_the_wrong_kind_of_group_is_an_internal_error(group: GroupScript) -> None:
    """Such a call is a bug and never a refusal."""
    group.given_classic_group(given_classic_group_member("a"))
    assert draft_of(group).classic.members.keys() == {"a"}
    with pytest.raises(InvariantError):
        _ = draft_of(group).consumer
    group.given_consumer_group(given_native("n1"))
    assert draft_of(group).consumer.members.keys() == {"n1"}
    with pytest.raises(InvariantError):
        _ = draft_of(group).classic
