"""Where an anchor is, and where it may go from there: the table of its legal moves.

ABSENT --> JOINING --> SYNCING --> STABLE --> LEAVING --> ABSENT
              ^  \\        |          |           |
              |   v       v          v           |
ABSENT <--- LOST <-----------------------<-------+
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Phase(Enum):
    """Only a Stable anchor holds its group."""

    ABSENT = "Absent"
    """Not there, and nobody needs it; or somebody else has the group."""
    JOINING = "Joining"
    """Its JoinGroup is on its way, or the second one, which follows a take-over."""
    SYNCING = "Syncing"
    """Its SyncGroup is on its way: a generation is being persisted."""
    STABLE = "Stable"
    """It holds the group; commits travel under its ids."""
    LOST = "Lost"
    """It is needed, but not, or not surely, in its place: it is taken again."""
    LEAVING = "Leaving"
    """Its LeaveGroup is on its way."""


MOVES: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.ABSENT: frozenset({Phase.JOINING}),
        Phase.JOINING: frozenset({Phase.SYNCING, Phase.LOST}),
        Phase.SYNCING: frozenset({Phase.STABLE, Phase.LOST}),
        Phase.STABLE: frozenset({Phase.LOST, Phase.LEAVING}),
        Phase.LOST: frozenset({Phase.JOINING, Phase.ABSENT}),
        Phase.LEAVING: frozenset({Phase.ABSENT, Phase.LOST}),
    }
)


def check_move(before: Phase, after: Phase) -> None:
    """Raises ValueError: a bug of ours."""
    if after not in MOVES[before]:
        raise ValueError(f"an anchor does not move from {before.value} to {after.value}")
