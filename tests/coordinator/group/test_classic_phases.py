"""The legal moves of a classic group, every pair of phases (rule 2.1)."""

import itertools
import re
from collections.abc import Iterator

import pytest

from coordinator.group.classic_phases import MOVES, check_phase, stored_phase
from coordinator.group.state import GroupState, Record
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError
from coordinator.interface.records import ClassicGroupMetadata, ClassicGroupValue
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import ClassicCore, ClassicCoreMoved, ClassicPhase
from tests.support.group_records import given_classic_group_member
from tests.support.rulebook import pages_on_disk

PHASES = [*ClassicPhase, None]
PAIRS = list(itertools.product(PHASES, repeat=2))

KAFKA = {
    ClassicPhase.EMPTY: {ClassicPhase.PREPARING_REBALANCE},
    ClassicPhase.PREPARING_REBALANCE: {
        ClassicPhase.STABLE,
        ClassicPhase.COMPLETING_REBALANCE,
        ClassicPhase.EMPTY,
    },
    ClassicPhase.COMPLETING_REBALANCE: {ClassicPhase.PREPARING_REBALANCE},
    ClassicPhase.STABLE: {ClassicPhase.COMPLETING_REBALANCE},
    None: set(ClassicPhase),
}
"""The valid previous states in Kafka's ClassicGroupState. None is its Dead."""


def stored_group(*members: str) -> ClassicGroupValue:
    return ClassicGroupValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=None,
        members=tuple(given_classic_group_member(member_id) for member_id in members),
    )


def records_to(phase: ClassicPhase | None) -> Iterator[Record]:
    """Every record that leads to the phase."""
    if phase is not None:
        yield ClassicCoreMoved(ClassicCore(phase=phase))
    if phase is ClassicPhase.EMPTY:
        yield ClassicGroupMetadata(value=stored_group())
    if phase is ClassicPhase.STABLE:
        yield ClassicGroupMetadata(value=stored_group("m1"))
    if phase is None:
        yield ClassicGroupMetadata(value=None)


def step_in(phase: ClassicPhase | None) -> StepBuilder:
    state = GroupState("g")
    if phase is not None:
        state.apply(ClassicCoreMoved(ClassicCore(phase=phase)))
    return StepBuilder(state, config=GroupConfig(), topics=Topics(), now_ms=0)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_every_pair_of_phases(before: ClassicPhase | None, after: ClassicPhase | None) -> None:
    """No rule can make an illegal move, with whichever record."""
    for record in records_to(after):
        step = step_in(before)
        if after is before or after in MOVES[before]:
            check_phase(before, after)
            step.emit(record)
            assert step.records == [record]
        else:
            with pytest.raises(InvariantError, match=f"from {before} to {after}"):
                step.emit(record)
            assert step.records == []


@pytest.mark.parametrize("after", PHASES)
def test_the_moves_are_those_of_kafka(after: ClassicPhase | None) -> None:
    """None stands for a missing group, which in Kafka has no state before it is made."""
    assert {before for before in ClassicPhase if after in MOVES[before]} == KAFKA[after]


def test_the_moves_are_those_of_the_rulebook() -> None:
    page = pages_on_disk()["classic-group.md"]
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| ([\w, ]+) \|$", page, re.MULTILINE)
    named = {str(phase): phase for phase in ClassicPhase} | {"removed": None}
    table = {
        named[phase]: frozenset(named[part] for part in after.split(", "))
        for phase, after in rows
        if phase in named
    }
    assert table == {phase: MOVES[phase] for phase in ClassicPhase}


def test_a_new_group_is_empty_or_was_downgraded() -> None:
    assert MOVES[None] == {ClassicPhase.EMPTY, ClassicPhase.STABLE}


def test_a_stored_group_is_stable_or_empty() -> None:
    """Only the end of a rebalance stores the group (rule 2.10)."""
    assert stored_phase(stored_group("m1")) is ClassicPhase.STABLE
    assert stored_phase(stored_group()) is ClassicPhase.EMPTY
