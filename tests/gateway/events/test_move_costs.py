"""What a rebalance and a step cost is measured from what the events say."""

from collections.abc import Sequence

import pytest

from coordinator.interface.records import EpochCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupCreated,
    GroupEpochBumped,
    GroupStateChanged,
    RebalanceEnded,
    StepEnded,
    TopicsDeleted,
)
from gateway.events.group_tracker import GroupTracker
from gateway.events.member_events import GrantEnded, PartitionsAssigned, PartitionsRevoked
from gateway.events.move_costs import AWAY_MAX, BACK_WITHIN_MS, WINDOWS_MAX
from tests.support.group_events import joins, leaves
from tests.support.simulated_events import simulate_events

TOPIC = "t"


class Measured:
    """A consumer group, whose events come with their times."""

    def __init__(self) -> None:
        self.tracker = GroupTracker()
        self.ended: list[GatewayEvent] = []
        self._epoch = 1
        self.emit(0, GroupCreated(kind="consumer"))

    def emit(self, at_ms: int, *events: GatewayEvent) -> None:
        self.ended += self.tracker.observe(events, at_ms)

    def bump(self, at_ms: int, *events: GatewayEvent) -> None:
        """A decision that begins a rebalance."""
        self._epoch += 1
        cause = EpochCause.MEMBER_JOINED
        self.emit(at_ms, *events, GroupEpochBumped(group_epoch=self._epoch, cause=cause))

    def rest(self, at_ms: int) -> Sequence[GatewayEvent]:
        """The group is Stable. Returns what has ended."""
        self.ended += self.tracker.settle("Stable", at_ms)
        ended, self.ended = self.ended, []
        return ended

    def with_members(self, *member_ids: str, protocol: str = "classic") -> "Measured":
        """Classic members with two partitions each."""
        for number, member_id in enumerate(member_ids):
            self.bump(0, joins(member_id, protocol))  # type: ignore[arg-type]
            self.emit(0, gets(member_id, 2 * number, 2 * number + 1))
        self.rest(0)
        return self


def gets(member_id: str, *numbers: int) -> PartitionsAssigned:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={TOPIC: numbers})


def revokes(member_id: str, *numbers: int) -> PartitionsRevoked:
    return PartitionsRevoked(member_id=member_id, member_epoch=1, partitions={TOPIC: numbers})


def gives(member_id: str, *numbers: int, cause: str = "revoked") -> GrantEnded:
    return GrantEnded(
        member_id=member_id,
        member_epoch=1,
        partitions={TOPIC: numbers},
        cause=cause,  # type: ignore[arg-type]
    )


def test_a_rebalance_counts_moves_disturbances_and_unowned_time() -> None:
    """b arrives and gets one partition of a, half a second after a gave it up."""
    group = Measured().with_members("a")
    group.bump(1_000, joins("b"))
    group.emit(1_100, revokes("a", 0))
    group.emit(1_500, gives("a", 0))
    group.emit(2_000, gets("b", 0))
    assert group.rest(2_500) == [
        RebalanceEnded(
            started_ms=1_000,
            epoch=3,
            cause="member_joined",
            members=2,
            partitions_moved=1,
            least_possible=1,
            members_disturbed=1,
            unowned_ms=500,
            was_interrupted=False,
        )
    ]


def test_a_step_does_not_pay_for_what_nobody_wants() -> None:
    """a unsubscribes from a partition that no other member wants, minutes before a step of b."""
    group = Measured().with_members("a", "b")
    group.bump(1_000, gives("a", 0))
    group.rest(1_100)
    group.emit(300_000, gives("b", 2, 3, cause="left"), leaves("b"))
    group.bump(301_000, joins("b", "consumer"), gets("b", 2, 3))
    (step,) = (ended for ended in group.rest(301_000) if isinstance(ended, StepEnded))
    assert step.unowned_ms == 2_000


def test_an_exchange_could_have_been_avoided() -> None:
    """Two members swap their partitions, so no move was needed."""
    group = Measured().with_members("a", "b")
    group.bump(10, gives("a", 0), gives("b", 2))
    group.emit(20, gets("a", 2), gets("b", 0))
    (ended,) = group.rest(30)
    assert isinstance(ended, RebalanceEnded)
    assert (ended.partitions_moved, ended.least_possible) == (2, 0)


def test_the_next_rebalance_interrupts_the_one_under_way() -> None:
    """Its figures are those at that moment."""
    group = Measured().with_members("a")
    group.bump(10, joins("b"))
    group.bump(20, joins("c"))
    (first, second) = group.rest(30)
    assert isinstance(first, RebalanceEnded)
    assert isinstance(second, RebalanceEnded)
    assert (first.was_interrupted, first.members) == (True, 2)
    assert (second.was_interrupted, second.members) == (False, 3)


def test_all_members_of_a_classic_group_are_disturbed() -> None:
    """The members have to rejoin, whatever they get. A new member is not disturbed."""
    group = Measured()
    group.emit(0, GroupCreated(kind="classic"), joins("a"), joins("b"))
    group.emit(
        10,
        joins("c"),
        GroupStateChanged(
            from_state=ClassicPhase.STABLE,
            to_state=ClassicPhase.PREPARING_REBALANCE,
            generation=1,
        ),
    )
    group.emit(
        20,
        GroupStateChanged(
            from_state=ClassicPhase.COMPLETING_REBALANCE,
            to_state=ClassicPhase.STABLE,
            generation=2,
        ),
    )
    (ended,) = group.rest(20)
    assert isinstance(ended, RebalanceEnded)
    assert (ended.members_disturbed, ended.epoch, ended.cause) == (2, 2, "member_joined")


def test_a_step_begins_with_the_departure_that_it_is_about() -> None:
    """The consumer is the same owner before and after, so what it gets back has not moved."""
    group = Measured().with_members("a", "b")
    group.bump(1_000, gives("a", 0, 1, cause="left"), leaves("a"))
    group.bump(5_000, joins("n", "consumer"))
    group.emit(5_000, gets("n", 0, 1))
    step = group.rest(5_000)[-1]
    assert step == StepEnded(
        client_id="c",
        client_host="/h",
        instance_id=None,
        from_protocol="classic",
        to_protocol="consumer",
        started_ms=1_000,
        members=2,
        partitions_moved=0,
        least_possible=0,
        members_disturbed=0,
        unowned_ms=8_000,
    )


def test_a_step_may_begin_with_the_consumer_that_replaces_another() -> None:
    """A roll may start the new consumer first."""
    group = Measured().with_members("a", "b")
    group.bump(1_000, joins("n", "consumer"))
    assert not any(isinstance(event, StepEnded) for event in group.rest(2_000))
    group.bump(5_000, gives("a", 0, 1, cause="left"), leaves("a"))
    group.emit(6_000, gets("n", 0, 1))
    step = group.rest(6_000)[-1]
    assert isinstance(step, StepEnded)
    assert (step.started_ms, step.to_protocol, step.unowned_ms) == (1_000, "consumer", 2_000)
    assert (step.partitions_moved, step.members_disturbed, step.members) == (0, 0, 2)


def test_a_step_does_not_pay_for_arrivals_before_it() -> None:
    """Many consumers arrive in the same minute, and one of them gets a partition of b."""
    names = [f"m{n}" for n in range(WINDOWS_MAX)]
    group = Measured().with_members("a", "b")
    for number, name in enumerate(names):
        group.bump(1_000 + number, joins(name))
    group.bump(3_000, gives("b", 2))
    group.bump(4_000, gets(names[0], 2))
    group.bump(5_000, gives("a", 0, 1, cause="left"), leaves("a"))
    group.bump(6_000, joins("n", "consumer"), gets("n", 0, 1))
    (step,) = (ended for ended in group.rest(6_000) if isinstance(ended, StepEnded))
    assert (step.started_ms, step.partitions_moved, step.unowned_ms) == (5_000, 0, 2_000)


def test_a_consumer_that_has_left_again_makes_no_step() -> None:
    group = Measured().with_members("a", "b")
    group.bump(1_000, leaves("a"))
    group.bump(2_000, joins("n", "consumer"))
    group.bump(3_000, leaves("n"))
    assert not any(isinstance(event, StepEnded) for event in group.rest(4_000))


def test_a_restart_with_the_same_protocol_is_no_step() -> None:
    """An arrival long after a departure is no step either."""
    group = Measured().with_members("a", "b")
    group.bump(1_000, gives("a", 0, 1, cause="left"), leaves("a"))
    group.bump(2_000, joins("a2"))
    assert not any(isinstance(event, StepEnded) for event in group.rest(2_000))
    group.bump(3_000, leaves("a2"))
    group.bump(3_001 + BACK_WITHIN_MS, joins("n", "consumer"))
    assert not any(isinstance(event, StepEnded) for event in group.rest(90_000))


def test_a_deleted_topic_has_no_unowned_partitions() -> None:
    """No member could own them."""
    group = Measured().with_members("a", "b")
    group.bump(1_000, TopicsDeleted(topics=(TOPIC,), topic_ids={TOPIC: "id"}))
    rebalance = group.rest(9_000)[-1]
    assert isinstance(rebalance, RebalanceEnded)
    assert (rebalance.unowned_ms, rebalance.partitions_moved) == (0, 0)


def test_departures_are_bounded() -> None:
    """A group of thousands that ends in one step costs a fixed number of windows."""
    group = Measured().with_members(*(f"m{n}" for n in range(AWAY_MAX + 50)))
    for number in range(AWAY_MAX + 50):
        group.bump(1_000 + number, leaves(f"m{number}"))
    costs = group.tracker._costs
    assert len(costs._away) == AWAY_MAX
    assert len(costs._windows) <= WINDOWS_MAX
    group.emit(10_000_000, joins("x"))
    assert [window.started_ms for window in costs._windows] == [10_000_000]


@pytest.mark.parametrize("seed", range(6))
def test_no_rebalance_moves_less_than_it_must(seed: int) -> None:
    """The simulator plays the rebalances. A rebalance ends once, and none begins before the one
    before has ended."""
    last_ms = 0
    for step in simulate_events(seed):
        for event in step.events:
            if isinstance(event, RebalanceEnded | StepEnded):
                assert 0 <= event.least_possible <= event.partitions_moved
                assert 0 <= event.members_disturbed <= event.members
                assert event.started_ms <= step.at_ms
            if isinstance(event, RebalanceEnded):
                assert event.started_ms >= last_ms
                last_ms = event.started_ms
