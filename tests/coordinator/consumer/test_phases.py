"""The phases of a classic member in a consumer group: every pair of phase and event."""

import itertools
from collections.abc import Callable

import pytest

from coordinator.consumer.phases import NEXT, PhaseEvent, move_phase
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import InvariantError
from coordinator.interface.records import MemberMetadata, RemovalCause
from coordinator.interface.volatile_records import DeadlineKind, MemberPhase, MemberPhaseMoved
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript

STABLE = MemberPhase.STABLE
PREPARE = MemberPhase.PREPARE_REBALANCE
COMPLETING = MemberPhase.COMPLETING_REBALANCE
TOLD, JOINED, SYNCED, GONE = PhaseEvent

# The phase, the event, the next phase, and the remaining seconds of the timers (join, sync). Each
# timer started at 10 s, 3 s ago.
MOVES: list[tuple[MemberPhase, PhaseEvent, MemberPhase | None, tuple[int | None, int | None]]] = [
    (STABLE, TOLD, PREPARE, (10_000, None)),
    (STABLE, JOINED, COMPLETING, (None, 10_000)),
    (STABLE, SYNCED, STABLE, (None, None)),
    (STABLE, GONE, None, (None, None)),
    (PREPARE, TOLD, PREPARE, (7_000, None)),
    (PREPARE, JOINED, COMPLETING, (None, 10_000)),
    (PREPARE, SYNCED, PREPARE, (7_000, None)),
    (PREPARE, GONE, None, (None, None)),
    (COMPLETING, TOLD, PREPARE, (10_000, None)),
    (COMPLETING, JOINED, COMPLETING, (None, 10_000)),
    (COMPLETING, SYNCED, STABLE, (None, None)),
    (COMPLETING, GONE, None, (None, None)),
]


@pytest.fixture
def step(group: GroupScript) -> StepBuilder:
    """A step on a group with the classic member c1 in Stable."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    return StepBuilder(
        group.engine.state, config=group.config, topics=group.topics, now_ms=group.now_ms
    )


def bring_to(step: StepBuilder, phase: MemberPhase) -> None:
    if phase is not STABLE:
        move_phase(step, "c1", TOLD if phase is PREPARE else JOINED)
    step.now_ms += 3_000


def left_ms(step: StepBuilder, kind: DeadlineKind) -> int | None:
    at_ms = {key.kind: at for key, at in step.state.deadlines.items() if key.owner == "c1"}
    return at_ms[kind] - step.now_ms if kind in at_ms else None


@pytest.mark.parametrize(("before", "event", "after", "timers"), MOVES)
def test_each_event_leads_to_its_phase(
    step: StepBuilder,
    before: MemberPhase,
    event: PhaseEvent,
    after: MemberPhase | None,
    timers: tuple[int | None, int | None],
) -> None:
    """The join timer runs in PrepareRebalance, and repeated requests do not extend it. The sync
    timer runs in CompletingRebalance, and each JoinGroup restarts it (rule 5.9)."""
    bring_to(step, before)
    assert step.consumer.phases["c1"] is before
    told_before = len(step.records)
    move_phase(step, "c1", event)
    if after is None:
        # The record that ends the membership ends the phase.
        step.emit(MemberMetadata(member_id="c1", value=None, cause=RemovalCause.LEFT))
    assert step.consumer.phases.get("c1") is after
    assert (left_ms(step, DeadlineKind.JOIN), left_ms(step, DeadlineKind.SYNC)) == timers
    moved = [r for r in step.records[told_before:] if isinstance(r, MemberPhaseMoved)]
    assert moved == ([] if after in (before, None) else [MemberPhaseMoved("c1", after)])


def test_every_pair_is_decided() -> None:
    """The table has a move for each pair, and the test above a row."""
    pairs = set(itertools.product(MemberPhase, PhaseEvent))
    assert {(phase, event) for phase, moves in NEXT.items() for event in moves} == pairs
    assert {(before, event) for before, event, _, _ in MOVES} == pairs


@pytest.mark.parametrize("event", PhaseEvent)
@pytest.mark.parametrize("member_id", ["n1", "nobody"])
def test_only_classic_members_have_a_phase(
    step: StepBuilder, member_id: str, event: PhaseEvent
) -> None:
    """An event for any other member is an internal error and changes nothing."""
    with pytest.raises(InvariantError):
        move_phase(step, member_id, event)
    assert step.records == []


def phases(group: GroupScript) -> dict[str, str]:
    """The phases in the admin view."""
    return {member.member_id: member.phase for member in group.view().members}


def timers(group: GroupScript, member_id: str) -> set[DeadlineKind]:
    return {key.kind for key in group.engine.state.deadlines if key.owner == member_id}


def test_a_member_passes_through_all_phases(group: GroupScript) -> None:
    """The admin view shows each phase."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    assert phases(group) == {"c1": "Stable", "n1": ""}
    group.native("n2")
    group.beat("c1", 10)
    assert phases(group)["c1"] == "PrepareRebalance"
    group.join("c1")
    assert phases(group)["c1"] == "CompletingRebalance"
    group.sync("c1", 11)
    assert phases(group)["c1"] == "Stable"


@pytest.mark.parametrize("phase", [PREPARE, COMPLETING])
@pytest.mark.parametrize("how", ["left", "fenced", "replaced", "native", "native, new id", "down"])
def test_a_removed_member_leaves_no_timer(group: GroupScript, phase: MemberPhase, how: str) -> None:
    """Neither its phase nor a timer remains."""
    group.given_consumer_group(
        given_classic("c1", instance_id="i1"), given_classic("c2"), given_native("n1")
    )
    group.native("n2")
    group.join("c1") if phase is COMPLETING else group.beat("c1", 10)
    assert group.consumer.phases["c1"] is phase
    ways: dict[str, Callable[[], object]] = {
        "left": lambda: group.leave("c1"),
        "fenced": lambda: group.wait(10_000),
        "replaced": lambda: group.join(instance_id="i1"),
        "native": lambda: group.native("c1", group.current("c1").member_epoch),
        "native, new id": lambda: group.native("n3", instance_id="i1"),
        "down": lambda: group.leave("n1", "n2"),
    }
    ways[how]()
    assert timers(group, "c1") <= {DeadlineKind.SESSION}
    if how == "down":
        assert group.view().group_type == "classic"
    else:
        assert "c1" not in group.consumer.phases


@pytest.mark.parametrize(("waits", "phase"), [(True, PREPARE), (False, STABLE)])
def test_an_upgrade_asks_waiting_members_to_rejoin(
    group: GroupScript, waits: bool, phase: MemberPhase
) -> None:
    """The others learn it from their heartbeats."""
    group.given_classic_group(
        given_classic_group_member("c1", {"foo": (0,)}), given_classic_group_member("c2")
    )
    if waits:
        group.send_join("c1", topics=("foo", "bar"))
    group.native("n1")
    assert group.consumer.phases["c1"] is phase


def test_after_a_restart_a_member_behind_the_target_has_to_rejoin(group: GroupScript) -> None:
    """The others start in Stable, whatever their phase was."""
    group.given_consumer_group(
        given_classic("c1", epoch=9), given_classic("c2"), given_native("n1")
    )
    group.join("c2")
    group.restart()
    assert phases(group) == {"c1": "PrepareRebalance", "c2": "Stable", "n1": ""}
    assert timers(group, "c1") == {DeadlineKind.SESSION, DeadlineKind.JOIN}
