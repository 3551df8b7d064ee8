"""The legal moves of a group's machines, every pair of them."""

import itertools
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import pytest

from gateway.hosting.states import (
    ADOPTION,
    ANCHOR,
    COMMIT,
    LOG,
    RELEASE,
    STAGES,
    AdoptionStage,
    AnchorPhase,
    CommitPhase,
    LogPhase,
    ReleaseStage,
    Stage,
)
from gateway.moves import Moves, check_move

TABLES: dict[type[StrEnum], Moves[Any]] = {
    AnchorPhase: ANCHOR,
    LogPhase: LOG,
    CommitPhase: COMMIT,
    Stage: STAGES,
    AdoptionStage: ADOPTION,
    ReleaseStage: RELEASE,
}
MOVES = """
Absent>Joining Absent>Stable
Joining>Syncing Joining>Lost
Syncing>Stable Syncing>Lost
Stable>Renewing Stable>Lost Stable>Leaving Stable>Absent
Renewing>Syncing Renewing>Stable Renewing>Lost
Lost>Joining Lost>Absent
Leaving>Absent Leaving>Lost

Unloaded>Loading
Loading>Ready Loading>Unreadable
Unreadable>Loading
Ready>Computing Ready>Writing Ready>Loading Ready>Unloaded
Computing>Ready
Writing>Ready

Received>Accepted Received>Ended
Accepted>Sent Accepted>Ended
Sent>Accepted Sent>Stray Sent>Ended
Stray>Ended

Queued>Placing Queued>Storing Queued>Answered
Placing>Checking Placing>Admitting Placing>Deciding Placing>Storing Placing>Releasing
Placing>Answered
Checking>Looking Checking>Admitting Checking>Answered
Looking>Admitting Looking>Deciding Looking>Releasing Looking>Answered
Admitting>Deciding Admitting>Answered
Deciding>Storing Deciding>Confirming Deciding>Answered
Storing>Answered
Confirming>Answered
Releasing>Answered

Proposed>Confirming Proposed>Undone
Confirming>Announcing Confirming>Undone
Announcing>Impersonating Announcing>Forgetting
Impersonating>Rejoining Impersonating>Forgetting
Rejoining>Releasing Rejoining>Locking Rejoining>GivingBack Rejoining>Forgetting
Releasing>Locking Releasing>GivingBack
Locking>Anchoring Locking>GivingBack
Anchoring>HandingOver Anchoring>GivingBack
HandingOver>Adopted HandingOver>GivingBack
Resuming>Anchoring Resuming>HandingOver Resuming>GivingBack
GivingBack>Forgetting
Forgetting>Undone

Recalling>Announcing Recalling>Concluding
Announcing>Opening Announcing>Leaving
Opening>Gathering Opening>Leaving
Gathering>Leaving
Leaving>AwaitingRound
AwaitingRound>AwaitingNative AwaitingRound>Concluding
AwaitingNative>Concluding
Concluding>Released
"""
LEGAL = frozenset(MOVES.split())
ENDS: dict[type[StrEnum], set[StrEnum]] = {
    Stage: {Stage.ANSWERED},
    CommitPhase: {CommitPhase.ENDED},
    AdoptionStage: {AdoptionStage.ADOPTED, AdoptionStage.UNDONE},
    ReleaseStage: {ReleaseStage.RELEASED},
}


def pairs() -> Iterable[tuple[StrEnum, StrEnum]]:
    """Every pair of states of every machine."""
    for states in TABLES:
        yield from itertools.product(states, states)


@pytest.mark.parametrize(("before", "after"), list(pairs()))
def test_every_pair_of_states_is_legal_or_a_bug(before: StrEnum, after: StrEnum) -> None:
    """A move that is not in the table is a bug, and names both states."""
    table = TABLES[type(before)]
    if f"{before.value}>{after.value}" in LEGAL:
        assert check_move(table, before, after) is after
    else:
        with pytest.raises(ValueError, match=f"from {before} to {after}"):
            check_move(table, before, after)


@pytest.mark.parametrize("states", TABLES, ids=lambda states: states.__name__)
def test_every_state_can_be_reached_and_left(states: type[StrEnum]) -> None:
    """Only what has ended stays what it is. After a restart an adoption begins with Resuming."""
    table = TABLES[states]
    first = {next(iter(states)), *({AdoptionStage.RESUMING} & set(states))}
    reached, rest = set(first), list(first)
    while rest:
        for after in table[rest.pop()] - reached:
            reached.add(after)
            rest.append(after)
    assert reached == set(states)
    final = {state for state in states if not table[state]}
    assert final == ENDS.get(states, set())


def test_only_a_completed_generation_makes_an_anchor_stable() -> None:
    """A lost anchor starts over. One that renews its assignment has not left its generation
    yet, and one that was absent may have been joined by an adoption."""
    assert [phase for phase in AnchorPhase if AnchorPhase.STABLE in ANCHOR[phase]] == [
        AnchorPhase.ABSENT,
        AnchorPhase.SYNCING,
        AnchorPhase.RENEWING,
    ]
    assert [phase for phase in AnchorPhase if AnchorPhase.SYNCING in ANCHOR[phase]] == [
        AnchorPhase.JOINING,
        AnchorPhase.RENEWING,
    ]
    before = [phase for phase in AnchorPhase if AnchorPhase.RENEWING in ANCHOR[phase]]
    assert before == [AnchorPhase.STABLE]
