"""Heartbeat on a consumer group (spec 5.7); scenarios 42 to 44 tell its answers."""

from coordinator.errors import ErrorCode
from coordinator.volatile import DeadlineKind
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}


def test_a_heartbeat_writes_nothing(group: GroupScript) -> None:
    """No bump, no target, no record; whatever it says, the session starts anew."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n1"), epoch=11, assignment_epoch=10
    )
    group.wait(2_000)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    assert group.last_step.durable == ()
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 10_000


def test_who_is_told_to_rejoin_is_still_there(group: GroupScript) -> None:
    """REBALANCE_IN_PROGRESS restarts the session too, and starts the join timer once."""
    group.given_consumer_group(given_classic("c1", epoch=9, assigned=FOO_0), given_native("n1"))
    group.wait(2_000)
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.last_step.durable == ()
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 10_000
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 8_000  # since the group was loaded
