"""The legal moves of a classic group between its phases (rule 2.1).

`StepBuilder.emit` checks each move that a rule decides. Loading checks nothing: a compacted log
holds only some of the records.
"""

from collections.abc import Mapping

from coordinator.interface.errors import ensure
from coordinator.interface.records import ClassicGroupValue
from coordinator.interface.volatile_records import ClassicPhase

MOVES: Mapping[ClassicPhase | None, frozenset[ClassicPhase | None]] = {
    # A JoinGroup creates the group; a downgrade makes it of a consumer group.
    None: frozenset({ClassicPhase.EMPTY, ClassicPhase.STABLE}),
    ClassicPhase.EMPTY: frozenset({ClassicPhase.PREPARING_REBALANCE, None}),
    ClassicPhase.PREPARING_REBALANCE: frozenset(
        {ClassicPhase.COMPLETING_REBALANCE, ClassicPhase.EMPTY, None}
    ),
    ClassicPhase.COMPLETING_REBALANCE: frozenset(
        {ClassicPhase.STABLE, ClassicPhase.PREPARING_REBALANCE, None}
    ),
    ClassicPhase.STABLE: frozenset({ClassicPhase.PREPARING_REBALANCE, None}),
}
"""None: there is no such group, or it is a consumer group."""


def stored_phase(value: ClassicGroupValue) -> ClassicPhase:
    """The phase of a stored group: Stable, or Empty if it has no members (rule 2.10)."""
    return ClassicPhase.STABLE if value.members else ClassicPhase.EMPTY


def check_phase(before: ClassicPhase | None, after: ClassicPhase | None) -> None:
    """Raises InvariantError for an illegal move. To keep the phase is no move."""
    ensure(
        after is before or after in MOVES[before],
        f"a classic group does not move from {before} to {after}",
    )
