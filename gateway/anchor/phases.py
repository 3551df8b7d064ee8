"""The phases of an anchor and their legal transitions.

ABSENT --> JOINING --> SYNCING --> STABLE --> LEAVING --> ABSENT
              ^  \\        |          |           |
              |   v       v          v           |
ABSENT <--- LOST <-----------------------<-------+
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Phase(Enum):
    """The phase of an anchor. Only a Stable anchor holds its group."""

    ABSENT = "Absent"
    """Not in the group: it is not needed, or another member holds the group."""
    JOINING = "Joining"
    """Sending its JoinGroup, or the second one that follows a take-over."""
    SYNCING = "Syncing"
    """Sending its SyncGroup, upon which the coordinator persists the generation."""
    STABLE = "Stable"
    """Holds the group. Commits carry its ids."""
    LOST = "Lost"
    """Needed, but not certainly in the group: it rejoins."""
    LEAVING = "Leaving"
    """Sending its LeaveGroup."""


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
    """Raises ValueError for an illegal transition, which is a bug."""
    if after not in MOVES[before]:
        raise ValueError(f"an anchor does not move from {before.value} to {after.value}")
