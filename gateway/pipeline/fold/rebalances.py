"""Rebalances, with what each of them interrupted and moved.

A revocation is pending from the moment at which a member is told to give a partition up. It ends
with the next event of the partition (it is released, or the member may keep it), or with the end of
its topic.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gateway.events.group_events import (
    GroupConverted,
    GroupEpochBumped,
    GroupStateChanged,
    TargetComputed,
    TopicsDeleted,
)
from gateway.events.member_events import (
    GrantEnded,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateChanged,
    PartitionsAssigned,
    PartitionsRevoked,
)
from gateway.pipeline.fold.changes import ChangeRow
from gateway.pipeline.fold.history import History
from gateway.pipeline.fold.row import Row
from gateway.pipeline.fold.sightings import CLASSIC, CONSUMER, Kind

MOVES = frozenset({PartitionsRevoked.name, GrantEnded.name, PartitionsAssigned.name})
"""The events that move partitions."""


@dataclass(slots=True)
class PendingRevocations:
    """A change in a member's number of pending revocations."""

    member_id: str
    change: ChangeRow
    more: int


def revocations(changes: Iterable[ChangeRow]) -> list[PendingRevocations]:
    """The changes in their order; at most one for each member and place."""
    pending: dict[tuple[str, str, int], None] = {}
    found: list[PendingRevocations] = []
    for change in changes:
        more: Counter[str] = Counter()
        if change.event in MOVES and change.member_id is not None:
            for topic, numbers in (change.partitions or {}).items():
                for number in dict.fromkeys(numbers):
                    key = change.member_id, topic, number
                    if key in pending:
                        del pending[key]
                        more[change.member_id] -= 1
                    if change.event == PartitionsRevoked.name:
                        pending[key] = None
                        more[change.member_id] += 1
        elif change.event == TopicsDeleted.name:
            for key in [key for key in pending if key[1] in (change.topics or ())]:
                del pending[key]
                more[key[0]] -= 1
        found += (PendingRevocations(member_id, change, count) for member_id, count in more.items())
    return found


@dataclass(slots=True, kw_only=True)
class RebalanceRow(Row):
    """The cause, the duration and the cost of each rebalance.

    A consumer group has one rebalance per group epoch, which lasts until the next one. A rebalance
    of a classic group begins when the group leaves Empty or Stable, and lasts until it next does.
    """

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


_Release: TypeAlias = Literal["replaced", "went"]

_MAY_CAUSE = frozenset(
    event.name for event in (TopicsDeleted, MemberJoined, MemberLeft, MemberFenced, MemberReplaced)
)


@dataclass(slots=True)
class _Step:
    """A change in a rebalance."""

    change: ChangeRow
    is_begin: bool
    """Whether it begins the rebalance."""
    release: _Release | None
    """Why a release was not requested by a rebalance."""
    round: int = 0
    """The number of the rebalance; 0 before the first known one."""
    is_prelude: bool = False
    """Whether it caused the rebalance."""

    @property
    def actor(self) -> str | None:
        """The same for all ids of a static member."""
        change = self.change
        return change.member_id if change.instance_id is None else change.instance_id


def _steps_of(changes: Sequence[ChangeRow]) -> list[_Step]:
    """The changes with their rebalances, each of which lasts until the next one. Members whose
    arrival or departure in the same millisecond caused it belong to its beginning."""
    found = [
        _Step(change, _begins(change), release)
        for change, release in zip(changes, _releases(changes), strict=True)
    ]
    begun = 0
    moment: tuple[int, int] | None = None
    has_converted = False
    for step, next_ms in zip(found, _next_begins(found), strict=True):
        begun += step.is_begin
        if moment != (step.change.at_ms, begun):
            moment, has_converted = (step.change.at_ms, begun), False
        # What a conversion assigns and releases is told after it, before the rebalance that it
        # begins.
        has_converted |= step.change.event == GroupConverted.name
        step.is_prelude = step.change.at_ms == next_ms and (
            step.change.event in _MAY_CAUSE or has_converted or step.release == "went"
        )
        step.round = begun + step.is_prelude
    return found


def _begins(change: ChangeRow) -> bool:
    if change.event == GroupStateChanged.name:
        return change.to_state == "PreparingRebalance" and change.from_state in ("Empty", "Stable")
    return change.event == GroupEpochBumped.name


def _next_begins(found: Sequence[_Step]) -> list[int | None]:
    """When the next rebalance after each change begins."""
    next_ms: int | None = None
    times: list[int | None] = []
    for step in reversed(found):
        times.append(next_ms)
        if step.is_begin:
            next_ms = step.change.at_ms
    times.reverse()
    return times


def _releases(changes: Sequence[ChangeRow]) -> list[_Release | None]:
    """Whether the member goes, or continues under another id: its next event tells. Unless its
    successor gets partitions at once, it goes."""
    following: dict[str, ChangeRow] = {}
    granted_ms: dict[str, int] = {}
    """When each member and each instance got partitions next."""
    found: list[_Release | None] = []
    for change in reversed(changes):
        found.append(None)
        if change.member_id is None:
            continue
        names = (change.member_id, change.instance_id or change.member_id)
        if change.event == PartitionsAssigned.name:
            granted_ms |= dict.fromkeys(names, change.at_ms)
        after = following.get(change.member_id)
        following[change.member_id] = change
        if change.event != GrantEnded.name or after is None or after.at_ms != change.at_ms:
            continue
        if after.event in (MemberLeft.name, MemberFenced.name):
            found[-1] = "went"
        elif after.event == MemberReplaced.name:
            goes_on = change.at_ms in map(granted_ms.get, names)
            found[-1] = "replaced" if goes_on else "went"
    found.reverse()
    return found


@dataclass(slots=True)
class _Moved:
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
        """The fewest that it could have moved: the cost of the best assignment that gives each
        member as many partitions as it has at the end. Of those each member keeps what it had, up
        to that number, so `least = owned - sum(min(had, has))` over the members. Partitions that a
        member has both times cancel out."""
        return sum(gained - min(gained, self.lost[actor]) for actor, gained in self.gained.items())


@dataclass(slots=True)
class _Turn:
    """The owner of a partition before a rebalance and after it."""

    had: str | None
    has: str | None
    is_released: bool


_Place: TypeAlias = tuple[str, int, int]
"""A partition of a topic in one of its lives: a recreated topic begins another one."""


def _moved_by_round(steps: Iterable[_Step]) -> Mapping[int, _Moved]:
    """The moves of each rebalance with partitions.

    A partition *moved* if its owner at the end is not its owner at the beginning; this includes
    partitions without an owner at the beginning. The end of a topic moves nothing.
    """
    lives: Counter[str] = Counter()
    turns: dict[tuple[_Place, int], _Turn] = {}
    owners: dict[_Place, str | None] = {}
    released: dict[_Place, tuple[str | None, int, _Turn]] = {}
    gone_in: dict[tuple[str, int], int] = {}
    for step in steps:
        change = step.change
        if change.event == TopicsDeleted.name:
            for topic in dict.fromkeys(change.topics or ()):
                gone_in[topic, lives[topic]] = step.round
                lives[topic] += 1
        elif change.event in MOVES:
            is_released = change.event == GrantEnded.name
            has = None if is_released else step.actor
            for topic, numbers in (change.partitions or {}).items():
                for number in numbers:
                    place = topic, lives[topic], number
                    is_assigned = change.event == PartitionsAssigned.name
                    had = owners.get(place) if is_assigned else step.actor
                    owners[place] = has
                    if is_assigned and place in released:
                        actor, at_ms, before = released.pop(place)
                        if (actor, at_ms) == (step.actor, change.at_ms):
                            # The member goes on under another id, in the next rebalance.
                            had = before.has = actor
                            before.is_released = False
                    turn = turns.setdefault((place, step.round), _Turn(had, has, is_released))
                    turn.has, turn.is_released = has, is_released
                    if is_released:
                        released[place] = step.actor, change.at_ms, turn
    found: dict[int, _Moved] = {}
    for (place, number), turn in turns.items():
        # A deleted topic has no partitions to own.
        if gone_in.get(place[:2], number + 1) > number:
            _add(found.setdefault(number, _Moved()), turn)
    return found


def _add(moved: _Moved, turn: _Turn) -> None:
    if turn.has is None:
        moved.left_over += turn.is_released
    elif turn.has != turn.had:
        moved.gained[turn.has] += 1
        if turn.had is not None:
            moved.lost[turn.had] += 1


def rebalances(
    history: History, changes: Sequence[ChangeRow], revoked: Iterable[PendingRevocations]
) -> list[RebalanceRow]:
    """See `RebalanceRow`. `revoked` are the `revocations`."""
    steps = _steps_of(changes)
    rounds: dict[int, list[_Step]] = {}
    for step in steps:
        rounds.setdefault(step.round, []).append(step)
    moved = _moved_by_round(steps)
    pending = _pending_revocations(steps, revoked)
    handovers = _handovers(steps)
    found: list[RebalanceRow] = []
    for number, its_steps in rounds.items():
        begin = next((step.change for step in its_steps if step.is_begin), None)
        if begin is None:  # before the first known rebalance
            continue
        kind: Kind = CONSUMER if begin.event == GroupEpochBumped.name else CLASSIC
        its_moved = moved.get(number, _Moved())
        is_settled = not pending.get(number) and not its_moved.left_over
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
                partitions_moved=its_moved.partitions,
                partitions_moved_least=its_moved.least,
            )
        )
    return found


def _handovers(steps: Sequence[_Step]) -> set[tuple[str | None, int]]:
    """The actors that are replaced, and when. A member that takes another instance id replaces
    itself, and is two of them."""
    goes = [step for step in steps if step.change.event == MemberReplaced.name]
    comes = [step for step in steps if step.change.event == MemberJoined.name]
    replaced = {(step.change.member_id, step.change.at_ms) for step in goes}
    return {
        (step.actor, step.change.at_ms)
        for step in (*goes, *comes)
        if (step.change.member_id, step.change.at_ms) in replaced
    }


_STEPS = MOVES | {GroupEpochBumped.name, TargetComputed.name, MemberStateChanged.name}
"""The changes that a consumer group's rebalance consists of."""


def _last_change(its_steps: Iterable[_Step]) -> ChangeRow:
    """The last one that is not the cause of the next rebalance."""
    return [step.change for step in its_steps if not step.is_prelude][-1]


def _completed_ms(its_steps: Iterable[_Step]) -> int | None:
    """When a classic group was Stable or Empty again."""
    moves = (step.change for step in its_steps if step.change.event == GroupStateChanged.name)
    return next((move.at_ms for move in moves if move.to_state in ("Stable", "Empty")), None)


def _changed_ms(its_steps: Sequence[_Step], last: ChangeRow, *, is_settled: bool) -> int | None:
    """The last change of a consumer group's rebalance, if it is complete."""
    has_target = any(step.change.event == TargetComputed.name for step in its_steps)
    if last.members and not (has_target and is_settled):
        return None
    return max(
        step.change.at_ms
        for step in its_steps
        if step.change.event in _STEPS and not step.is_prelude and step.release != "replaced"
    )


def _epoch(its_steps: Iterable[_Step]) -> int | None:
    of_group = (GroupEpochBumped.name, GroupStateChanged.name)
    epochs = (step.change.epoch for step in its_steps if step.change.event in of_group)
    return max((epoch for epoch in epochs if epoch is not None), default=None)


def _cause(its_steps: Iterable[_Step]) -> str:
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
    its_steps: Iterable[_Step], handovers: set[tuple[str | None, int]]
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
        rejoins = change.event == MemberStateChanged.name and change.to_state == "PrepareRebalance"
        actor.is_touched |= (change.event in MOVES and is_own) or rejoins
    there = [actor for actor in actors.values() if actor.is_there]
    disturbed = [actor for actor in there if actor.more <= 0 and actor.is_touched]
    came = sum(actor.more > 0 for actor in there)
    return came, len(disturbed), sum(actor.protocol == CLASSIC for actor in disturbed)


def _pending_revocations(
    steps: Sequence[_Step], revoked: Iterable[PendingRevocations]
) -> Mapping[int, int]:
    """How many partitions members still had to give up at the end of each rebalance."""
    more: Counter[int] = Counter()
    for pending in revoked:
        more[pending.change.place] += pending.more
    found: dict[int, int] = {}
    begun = open_ = 0
    for step in steps:
        begun += step.is_begin
        open_ += more.pop(step.change.place, 0)
        found[begun] = open_
    return found
