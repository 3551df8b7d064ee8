"""The sums of a group, as the report counts them."""

from typing import Any

import pytest

from coordinator.interface.records import EpochCause, RemovalCause
from coordinator.interface.roll_policy import RollMode, RollPolicy
from coordinator.interface.volatile_records import ClassicPhase
from gateway.board import group_stats
from gateway.board.group_stats import AllGroupStats, GroupStats
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    ConversionRefused,
    GroupConfigsAltered,
    GroupConverted,
    GroupDeleted,
    GroupEpochBumped,
    GroupForwarded,
    GroupStateChanged,
    RebalanceEnded,
    TopicsDeleted,
)
from gateway.events.member_events import (
    ClientSeen,
    GrantEnded,
    MemberJoined,
    MemberLeft,
    PartitionsAssigned,
    PartitionsStated,
    Protocol,
)
from tests.support.event_lines import envelope_of

MOVING = "Reconciling"


class History:
    """The events of one group, and its state meanwhile."""

    def __init__(self) -> None:
        self.state = MOVING
        self.group_stats = AllGroupStats(lambda _group_id: self.state)
        self.now_ms = 0

    def emit(self, event: GatewayEvent, after_ms: int = 0, group_id: str = "g") -> None:
        """An event, so much later than the one before."""
        self.now_ms += after_ms
        self.group_stats.take(envelope_of(event, group_id=group_id, at_ms=self.now_ms))

    def assign(self, member_id: str, *numbers: int, after_ms: int = 0) -> None:
        """A member gets partitions of foo."""
        self.emit(PartitionsAssigned(**of(member_id, numbers)), after_ms)

    def release(self, member_id: str, *numbers: int, after_ms: int = 0) -> None:
        """A member gives up partitions of foo."""
        self.emit(GrantEnded(cause="revoked", **of(member_id, numbers)), after_ms)

    def stats(self, after_ms: int = 0) -> GroupStats:
        """The sums, so much later."""
        self.now_ms += after_ms
        stats = self.group_stats.of("g", self.now_ms)
        assert stats is not None
        return stats


def of(member_id: str, numbers: tuple[int, ...]) -> dict[str, Any]:
    """The fields of an event about partitions."""
    return {"member_id": member_id, "member_epoch": 1, "partitions": {"foo": numbers}}


def rebalance_ended(*, was_interrupted: bool) -> RebalanceEnded:
    """A rebalance has ended."""
    return RebalanceEnded(
        started_ms=0,
        epoch=1,
        cause="member_joined",
        members=1,
        partitions_moved=0,
        least_possible=0,
        members_disturbed=0,
        unowned_ms=0,
        was_interrupted=was_interrupted,
    )


def member_joined(client_id: str, protocol: Protocol = "consumer") -> MemberJoined:
    """A consumer has joined."""
    return MemberJoined(
        member_id=f"id of {client_id}",
        client_id=client_id,
        client_host="/127.0.0.1",
        instance_id=None,
        protocol=protocol,
    )


def client_seen(member_id: str) -> ClientSeen:
    """A client has introduced itself."""
    return ClientSeen(
        member_id=member_id,
        client_id="c",
        client_host="/127.0.0.1",
        instance_id=None,
        software_name="librdkafka",
        software_version="2.16.1",
        protocol="classic",
        protocol_type="consumer",
        embedded_version=1,
        assignors=("range",),
    )


def test_a_partition_is_unowned_from_its_release_to_its_next_assignment() -> None:
    """Each partition counts."""
    history = History()
    history.assign("a", 0, 1, 2)
    history.release("a", 0, 1, after_ms=1_000)
    history.assign("b", 0, after_ms=100)
    history.assign("b", 1, after_ms=50)
    stats = history.stats(after_ms=1_000)
    assert (stats.unowned_partition_ms, stats.unowned_count) == (2 * 100 + 50, 0)


def test_a_partition_whose_grant_was_not_seen_is_unowned_too() -> None:
    """An earlier process granted it."""
    history = History()
    history.release("a", 0)
    assert history.stats(after_ms=30).unowned_partition_ms == 30
    history.assign("b", 0, after_ms=10)
    assert history.stats(after_ms=30).unowned_partition_ms == 40


def test_nobody_misses_a_partition_of_a_group_without_members() -> None:
    """The time without an owner counts again once the group has members."""
    history = History()
    history.assign("a", 0)
    history.release("a", 0)
    history.state = "Empty"
    assert history.stats(after_ms=1_000).unowned_partition_ms == 0
    history.state = MOVING
    assert history.stats(after_ms=7).unowned_partition_ms == 7


def test_nobody_wants_what_a_rebalance_has_left_without_an_owner() -> None:
    """One that the next rebalance interrupts leaves it to that one."""
    history = History()
    history.assign("a", 0)
    history.release("a", 0)
    history.emit(rebalance_ended(was_interrupted=True), after_ms=5)
    assert history.stats(after_ms=5).unowned_partition_ms == 10
    history.emit(rebalance_ended(was_interrupted=False))
    assert history.stats(after_ms=1_000).unowned_partition_ms == 10


def test_a_partition_of_a_group_at_rest_may_wait_for_the_replacement_of_its_owner() -> None:
    """In a roll no rebalance begins when a consumer leaves. The state says nothing within a
    decision that removes a member: its events come before the group changes its state."""
    history = History()
    history.state = "Stable"
    history.assign("a", 0, 1)
    history.release("a", 0, 1)
    history.emit(MemberLeft(member_id="a", cause=RemovalCause.LEFT))
    stats = history.stats(after_ms=1_000)
    assert (stats.unowned_count, stats.unowned_partition_ms) == (2, 2_000)
    history.assign("a-again", 0, 1, after_ms=500)
    stats = history.stats(after_ms=1_000)
    assert (stats.unowned_count, stats.unowned_partition_ms) == (0, 3_000)


def test_a_second_owner_is_counted() -> None:
    """A repeated grant is none, and neither is a grant after the first owner has gone."""
    history = History()
    history.assign("a", 0, 1)
    history.assign("a", 0, 1)
    history.emit(MemberLeft(member_id="a", cause=RemovalCause.LEFT))
    history.assign("b", 0)
    assert history.stats().owned_twice == 0
    history.assign("c", 0, 1)
    assert history.stats().owned_twice == 1


def test_a_member_that_states_what_another_has_is_a_second_owner() -> None:
    """Its client took the partition too late, or has not heard that it lost it. A statement about
    partitions without an owner proves nothing."""
    history = History()
    history.assign("a", 0, 1)
    history.emit(PartitionsStated(**of("a", (0, 1))))
    history.emit(PartitionsStated(**of("b", (2,))))
    assert history.stats().owned_twice == 0
    history.emit(PartitionsStated(**of("b", (1, 2))))
    assert history.stats().owned_twice == 1


def test_a_deleted_topic_leaves_nothing_unowned() -> None:
    """Neither does a group that goes to the cluster."""
    history = History()
    history.assign("a", 0)
    history.release("a", 0)
    history.emit(TopicsDeleted(topics=("foo",)))
    assert history.stats(after_ms=9).unowned_partition_ms == 0
    history.release("b", 1)
    history.emit(GroupForwarded(reason=""))
    assert history.stats(after_ms=9).unowned_partition_ms == 0


def test_the_client_of_a_member_is_known_until_the_member_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest of too many members is forgotten."""
    monkeypatch.setattr(group_stats, "CLIENTS_MAX", 2)
    history = History()
    for member_id in "abc":
        history.emit(client_seen(member_id))
    history.emit(MemberLeft(member_id="c", cause=RemovalCause.LEFT))
    assert list(history.stats().clients) == ["b"]


def test_the_clients_of_all_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is refused under ever new names in ever new groups never leaves them."""
    monkeypatch.setattr(group_stats, "CLIENTS_IN_ALL_MAX", 2)
    history = History()
    for group_id in "gh":
        history.emit(client_seen("a"), group_id=group_id)
    history.emit(client_seen("a"))
    history.emit(client_seen("b"))
    assert list(history.stats().clients) == ["a", "b"]
    other = history.group_stats.of("h", 0)
    assert other is not None
    assert not other.clients


def test_a_client_with_long_names_is_not_remembered() -> None:
    """A client chooses its names, also those in the reason of its refusal."""
    history = History()
    history.emit(client_seen("x" * group_stats.LINE_CHARS_MAX))
    assert not history.stats().clients
    refused = ConversionRefused(
        direction="classic->consumer",
        member_id="a",
        client_id="c",
        reason="x" * 2 * group_stats.LINE_CHARS_MAX,
    )
    history.emit(refused)
    assert len(history.stats().refusal or "") == group_stats.LINE_CHARS_MAX


HOLD = RollPolicy().overrides_for(RollMode.HOLD, 1)


@pytest.mark.parametrize(
    ("event", "is_over"),
    [
        (GroupConfigsAltered(overrides={}), True),  # an operator has ended the hold
        (GroupConfigsAltered(overrides={**HOLD, "consumer.session.timeout.ms": 50_000}), False),
        (member_joined("c"), True),
        (member_joined("c", "classic"), False),  # many clients have one client id
        (member_joined("another"), False),
    ],
)
def test_a_refusal_is_shown_until_its_cause_is_over(event: GatewayEvent, is_over: bool) -> None:
    """A hold that has ended does not refuse members, and a client that has joined is no longer
    refused."""
    history = History()
    history.emit(GroupConfigsAltered(overrides=HOLD))
    history.emit(
        ConversionRefused(
            direction="classic->consumer", member_id="a", client_id="c", reason="on hold"
        )
    )
    assert history.stats().refusal == "on hold"
    history.emit(event)
    assert (history.stats().refusal is None) == is_over


def test_a_group_with_a_long_name_has_no_sums() -> None:
    """20,000 of them would take half a gigabyte. Its events count."""
    history = History()
    long = "x" * (group_stats.GROUP_CHARS_MAX + 1)
    history.emit(client_seen("a"), group_id=long)
    history.emit(client_seen("a"), group_id=long[1:])
    assert history.group_stats.of(long, 0) is None
    assert history.group_stats.of(long[1:], 0) is not None
    assert history.group_stats.events["client_seen"] == 2


def test_the_partitions_of_all_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader may assign partitions that do not exist, and leave them behind in an empty group.
    The group whose last event is oldest loses its sums."""
    monkeypatch.setattr(group_stats, "PARTITIONS_MAX", 4)
    history = History()
    history.assign("a", 0, 1)
    history.release("a", 0)
    history.emit(PartitionsAssigned(**of("b", (0, 1))), group_id="h")
    assert history.group_stats.of("g", 0) is not None
    history.emit(PartitionsAssigned(**of("b", (2,))), group_id="h")
    assert history.group_stats.of("g", 0) is None
    history.emit(GrantEnded(cause="revoked", **of("b", (0, 1, 2))), group_id="h")
    history.emit(rebalance_ended(was_interrupted=False), group_id="h")
    other = history.group_stats.of("h", 0)
    assert other is not None
    assert other.partitions == 0
    history.emit(PartitionsAssigned(**of("c", (0, 1, 2, 3))), group_id="i")
    assert history.group_stats.of("h", 0) is not None


def test_a_group_that_is_gone_stays_in_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters of a process never go back."""
    monkeypatch.setattr(group_stats, "GROUPS_MAX", 1)
    history = History()
    converted = GroupConverted(direction="classic->consumer", is_live=True, members=1, cause="a")
    history.emit(converted)
    history.emit(GroupDeleted())
    assert history.group_stats.of("g", 0) is None
    history.emit(converted, group_id="h")
    history.emit(converted, group_id="i")
    assert history.group_stats.of("h", 0) is None
    assert history.group_stats.total(0).conversions == 3
    assert history.group_stats.events == {"group_converted": 3, "group_deleted": 1}


def bump(epoch: int) -> GroupEpochBumped:
    """The group needs a new target."""
    return GroupEpochBumped(group_epoch=epoch, cause=EpochCause.MEMBER_JOINED)


def test_a_rebalance_lasts_until_the_last_event_before_the_group_is_at_rest() -> None:
    """An event is reported just before the group changes its state: at that moment the state is
    still the old one. An epoch within a rebalance does not begin another."""
    history = History()
    history.state = "Stable"
    history.emit(bump(2), after_ms=1_000)
    history.assign("m", 0)
    history.state = MOVING
    history.emit(bump(3), after_ms=2_000)
    history.assign("n", 1, after_ms=1_000)
    history.state = "Stable"
    history.stats(after_ms=60_000)
    assert (history.group_stats.rebalances.total_s, sum(history.group_stats.rebalances.counts)) == (
        3.0,
        1,
    )
    history.emit(bump(4))
    history.stats(after_ms=1_000)
    assert sum(history.group_stats.rebalances.counts) == 2


def test_a_classic_rebalance_begins_when_the_group_prepares_it() -> None:
    """A rebalance that is still under way does not count. One of a group that goes to the cluster
    does not count either."""
    history = History()
    move = GroupStateChanged(
        from_state=ClassicPhase.STABLE, to_state=ClassicPhase.PREPARING_REBALANCE, generation=1
    )
    history.state = "PreparingRebalance"
    history.emit(move)
    history.stats(after_ms=5_000)
    assert sum(history.group_stats.rebalances.counts) == 0
    history.emit(GroupForwarded(reason="released"))
    history.state = "Empty"
    history.stats(after_ms=5_000)
    assert sum(history.group_stats.rebalances.counts) == 0
