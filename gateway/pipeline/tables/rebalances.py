"""The cause, the duration and the cost of each rebalance.

A consumer group has one rebalance per group epoch, which lasts until the next one. A rebalance of a
classic group begins when the group leaves Empty or Stable, and lasts until it next does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from gateway.events.group_events import (
    GroupConverted,
    GroupEpochBumped,
    GroupStateMoved,
    TargetComputed,
)
from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateMoved,
)
from gateway.pipeline.history import History
from gateway.pipeline.tables.changes import CLASSIC, CONSUMER, ChangeRow, Kind
from gateway.pipeline.tables.moves import Moves, moves
from gateway.pipeline.tables.revocations import MOVES, revocations
from gateway.pipeline.tables.rounds import Step, steps
from gateway.pipeline.tables.row import Row


@dataclass(slots=True, kw_only=True)
class RebalanceRow(Row):
    """One rebalance."""

    kind: Literal["classic", "consumer"]
    """The group's kind."""
    epoch: int | None
    """The group epoch; for a classic group the generation that the rebalance led to."""
    cause: str
    """For a consumer group the cause of its epoch. For a classic group member_joined,
    member_removed, converted, or member_rejoined: a member of the group joined again, perhaps with
    another subscription."""
    from_ms: int
    to_ms: int | None
    """When a classic group was Stable or Empty again; for a consumer group the last change of its
    epoch. Null if the rebalance was superseded, or has not ended."""
    is_superseded: bool
    """Whether the next rebalance began before this one was complete: before a classic group was
    Stable or Empty; before a consumer group with members had a target, its members had released
    what they had to, or the released partitions had new owners."""
    members: int
    """Members when it ended, or when the next one began."""
    classic_members: int
    """Members that spoke the classic protocol."""
    members_disturbed: int
    """Members from before the rebalance that were interrupted; a static member counts even under a
    new id. In a classic group this is all of them, because all rejoin; in a consumer group it is
    those that rejoined or whose partitions changed."""
    classic_members_disturbed: int
    """Disturbed members that spoke the classic protocol."""
    partitions_moved: int
    """Partitions whose owner at the end is not the owner at the beginning, including those that had
    none. A static member under a new id is the same owner."""
    partitions_moved_least: int
    """The fewest moves of any assignment that gives each member as many partitions as it has at the
    end: each member keeps what it had, up to that number. Partitions that had no owner, or whose
    owner left, must all move; of the others only the excess."""


def rebalances(history: History, changes: Sequence[ChangeRow]) -> list[RebalanceRow]:
    """See `RebalanceRow`."""
    told = steps(changes)
    rounds: dict[int, list[Step]] = {}
    for step in told:
        rounds.setdefault(step.round, []).append(step)
    moved = moves(told)
    pending = _pending_revocations(told)
    handovers = {
        (step.actor, step.change.at_ms) for step in told if step.change.event == MemberReplaced.name
    }
    found: list[RebalanceRow] = []
    for number, its_steps in rounds.items():
        begin = next((step.change for step in its_steps if step.is_begin), None)
        if begin is None:  # before the first known rebalance
            continue
        kind: Kind = CONSUMER if begin.event == GroupEpochBumped.name else CLASSIC
        its_moves = moved.get(number, Moves())
        is_settled = not pending.get(number) and not its_moves.left_over
        last = _last_change(its_steps)
        to_ms = (
            _completed_ms(its_steps)
            if kind == CLASSIC
            else _changed_ms(its_steps, last, is_settled=is_settled)
        )
        came, disturbed, classic_disturbed = _disturbances(its_steps, handovers)
        if kind == CLASSIC:
            disturbed = classic_disturbed = last.members - came
        found.append(
            RebalanceRow(
                cluster_id=history.cluster_id,
                group_id=history.group_id,
                kind=kind,
                epoch=_epoch(its_steps),
                cause=_cause(its_steps),
                from_ms=begin.at_ms,
                to_ms=to_ms,
                is_superseded=to_ms is None and number < max(rounds),
                members=last.members,
                classic_members=last.classic_members,
                members_disturbed=disturbed,
                classic_members_disturbed=classic_disturbed,
                partitions_moved=its_moves.partitions,
                partitions_moved_least=its_moves.least,
            )
        )
    return found


_STEPS = MOVES | {GroupEpochBumped.name, TargetComputed.name, MemberStateMoved.name}
"""The changes that a consumer group's rebalance consists of."""


def _last_change(its_steps: Iterable[Step]) -> ChangeRow:
    """The last one that is not the cause of the next rebalance."""
    return [step.change for step in its_steps if not step.is_prelude][-1]


def _completed_ms(its_steps: Iterable[Step]) -> int | None:
    """When a classic group was Stable or Empty again."""
    for step in its_steps:
        change = step.change
        if change.event == GroupStateMoved.name and change.to_state in ("Stable", "Empty"):
            return change.at_ms
    return None


def _changed_ms(its_steps: Sequence[Step], last: ChangeRow, *, is_settled: bool) -> int | None:
    """The last change of a consumer group's rebalance, if it is complete."""
    has_target = any(step.change.event == TargetComputed.name for step in its_steps)
    if last.members and not (has_target and is_settled):
        return None
    return max(
        step.change.at_ms
        for step in its_steps
        if step.change.event in _STEPS and not step.is_prelude
    )


def _epoch(its_steps: Iterable[Step]) -> int | None:
    of_group = (GroupEpochBumped.name, GroupStateMoved.name)
    epochs = (step.change.epoch for step in its_steps if step.change.event in of_group)
    return max((epoch for epoch in epochs if epoch is not None), default=None)


def _cause(its_steps: Iterable[Step]) -> str:
    cause = "member_rejoined"
    for step in its_steps:
        change = step.change
        if change.event == GroupEpochBumped.name and change.cause is not None:
            return change.cause
        if step.is_prelude and cause != "converted":
            cause = _CAUSES.get(change.event, cause)
    return cause


_CAUSES = {
    GroupConverted.name: "converted",
    MemberJoined.name: "member_joined",
    MemberLeft.name: "member_removed",
    MemberFenced.name: "member_removed",
}


@dataclass(slots=True)
class _Actor:
    """A member in a rebalance, under all its ids."""

    more: int = 0
    """How often it came, less how often it went."""
    is_there: bool = False
    protocol: str | None = None
    is_touched: bool = False


def _disturbances(
    its_steps: Iterable[Step], handovers: set[tuple[str | None, int]]
) -> tuple[int, int, int]:
    """How many of the members at the end came, were disturbed, and were disturbed with the classic
    protocol."""
    actors: dict[str, _Actor] = {}
    for step in its_steps:
        change = step.change
        if step.actor is None:
            continue
        actor = actors.setdefault(step.actor, _Actor())
        actor.more += bool(change.is_present) - bool(change.was_present)
        actor.is_there = bool(change.is_present)
        actor.protocol = change.protocol
        # A replaced member's partitions are released and assigned to its successor in the same
        # moment.
        is_own = step.release is None and (step.actor, change.at_ms) not in handovers
        rejoins = change.event == MemberStateMoved.name and change.to_state == "PrepareRebalance"
        actor.is_touched |= (change.event in MOVES and is_own) or rejoins
    there = [actor for actor in actors.values() if actor.is_there]
    disturbed = [actor for actor in there if actor.more <= 0 and actor.is_touched]
    came = sum(actor.more > 0 for actor in there)
    return came, len(disturbed), sum(actor.protocol == CLASSIC for actor in disturbed)


def _pending_revocations(told: Sequence[Step]) -> Mapping[int, int]:
    """How many partitions members still had to give up at the end of each rebalance."""
    more: dict[int, int] = {}
    for pending in revocations([step.change for step in told]):
        place = pending.change.place
        more[place] = more.get(place, 0) + pending.more
    found: dict[int, int] = {}
    begun = open_ = 0
    for place, at_once in groupby(told, key=lambda step: step.change.place):
        begun += sum(step.is_begin for step in at_once)
        open_ += more.get(place, 0)
        found[begun] = open_
    return found
