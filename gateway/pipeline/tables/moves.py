"""The partitions that each rebalance moved, and the fewest that it could have moved.

A partition *moved* if its owner at the end of the rebalance is not its owner at the beginning; this
includes partitions without an owner at the beginning. A static member and its replacement are the
same owner. The end of a topic moves nothing.

*The least* is the cost of the best assignment that gives each member as many partitions as it has
at the end: of the partitions owned at the end, each member keeps what it had, up to that number. So
`least = owned - sum(min(had, has))` over the members. Partitions that a member has both times
cancel out: `least = moved - sum(min(gained, lost))`, where lost partitions have other owners at the
end. Partitions that had no owner, or whose owner left, must all move.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.events.group_events import TopicsGone
from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from gateway.pipeline.tables.revocations import MOVES
from gateway.pipeline.tables.rounds import Step


@dataclass(slots=True)
class Moves:
    """The moves of one rebalance."""

    gained: Counter[str] = field(default_factory=Counter)
    """Partitions by the actor that has got them."""
    lost: Counter[str] = field(default_factory=Counter)
    left_over: int = 0
    """Released partitions without a new owner."""

    @property
    def partitions(self) -> int:
        """The partitions moved."""
        return self.gained.total()

    @property
    def least(self) -> int:
        """The fewest that it could have moved."""
        return sum(gained - min(gained, self.lost[actor]) for actor, gained in self.gained.items())


@dataclass(slots=True)
class _Turn:
    """The owner of a partition before a rebalance and after it."""

    had: str | None
    has: str | None
    is_released: bool


Place: TypeAlias = tuple[str, int, int]
"""A partition of a topic in one of its lives: a recreated topic begins another one."""


def moves(steps: Iterable[Step]) -> Mapping[int, Moves]:
    """The moves of each rebalance with partitions."""
    lives: Counter[str] = Counter()
    turns: dict[tuple[Place, int], _Turn] = {}
    owners: dict[Place, str | None] = {}
    gone_in: dict[tuple[str, int], int] = {}
    for step in steps:
        change = step.change
        if change.event == TopicsGone.name:
            for topic in dict.fromkeys(change.topics or ()):
                gone_in[topic, lives[topic]] = step.round
                lives[topic] += 1
        elif change.event in MOVES:
            is_released = change.event == PartitionsReleased.name
            has = None if is_released else step.actor
            for topic, numbers in (change.partitions or {}).items():
                for number in numbers:
                    place = topic, lives[topic], number
                    is_assigned = change.event == PartitionsAssigned.name
                    had = owners.get(place) if is_assigned else step.actor
                    owners[place] = has
                    turn = turns.setdefault((place, step.round), _Turn(had, has, is_released))
                    turn.has, turn.is_released = has, is_released
    found: dict[int, Moves] = {}
    for (place, number), turn in turns.items():
        # A deleted topic has no partitions to own.
        if gone_in.get(place[:2], number + 1) > number:
            _add(found.setdefault(number, Moves()), turn)
    return found


def _add(moves: Moves, turn: _Turn) -> None:
    if turn.has is None:
        moves.left_over += turn.is_released
    elif turn.has != turn.had:
        moves.gained[turn.has] += 1
        if turn.had is not None:
            moves.lost[turn.had] += 1
