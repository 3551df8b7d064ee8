"""The phases of a classic member in a consumer group: every pair of phase and event."""

import itertools

import pytest

from coordinator.draft import Draft
from coordinator.mixed.phases import NEXT, PhaseEvent, move_phase
from coordinator.volatile import DeadlineKind, MemberPhase, MemberPhaseMoved
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

STABLE = MemberPhase.STABLE
PREPARE = MemberPhase.PREPARE_REBALANCE
COMPLETING = MemberPhase.COMPLETING_REBALANCE
TOLD, JOINED, SYNCED = PhaseEvent

# What the member is in, what happens, what it is in then; how its timers, of which 3 s have
# passed of 10, are then: (join, sync).
MOVES = [
    (STABLE, TOLD, PREPARE, (10_000, None)),
    (STABLE, JOINED, COMPLETING, (None, 10_000)),
    (STABLE, SYNCED, STABLE, (None, None)),
    (PREPARE, TOLD, PREPARE, (7_000, None)),
    (PREPARE, JOINED, COMPLETING, (None, 10_000)),
    (PREPARE, SYNCED, PREPARE, (7_000, None)),
    (COMPLETING, TOLD, PREPARE, (10_000, None)),
    (COMPLETING, JOINED, COMPLETING, (None, 10_000)),
    (COMPLETING, SYNCED, STABLE, (None, None)),
]


@pytest.fixture
def draft(group: GroupScript) -> Draft:
    """A draft on a group with the classic member c1, in Stable."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    return Draft(group.engine.state, config=group.config, topics=group.topics, now_ms=group.now_ms)


def bring_to(draft: Draft, phase: MemberPhase) -> None:
    if phase is not STABLE:
        move_phase(draft, "c1", TOLD if phase is PREPARE else JOINED)
    draft.now_ms += 3_000


def left_ms(draft: Draft, kind: DeadlineKind) -> int | None:
    at_ms = {key.kind: at for key, at in draft.state.deadlines.items() if key.owner == "c1"}
    return at_ms[kind] - draft.now_ms if kind in at_ms else None


@pytest.mark.parametrize(("before", "event", "after", "timers"), MOVES)
def test_where_an_event_leads(
    draft: Draft,
    before: MemberPhase,
    event: PhaseEvent,
    after: MemberPhase,
    timers: tuple[int | None, int | None],
) -> None:
    """The join timer runs in PrepareRebalance, and being told again does not extend it; the sync
    timer runs in CompletingRebalance, and each JoinGroup restarts it (spec 5.9)."""
    bring_to(draft, before)
    assert draft.consumer.phases["c1"] is before
    told_before = len(draft.records)
    move_phase(draft, "c1", event)
    assert draft.consumer.phases["c1"] is after
    assert (left_ms(draft, DeadlineKind.JOIN), left_ms(draft, DeadlineKind.SYNC)) == timers
    moved = [r for r in draft.records[told_before:] if isinstance(r, MemberPhaseMoved)]
    assert moved == ([] if after is before else [MemberPhaseMoved("c1", after)])


def test_every_pair_is_decided() -> None:
    """The table has a move for each, and the test above one row for each."""
    pairs = set(itertools.product(MemberPhase, PhaseEvent))
    assert {(phase, event) for phase, moves in NEXT.items() for event in moves} == pairs
    assert {(before, event) for before, event, _, _ in MOVES} == pairs
