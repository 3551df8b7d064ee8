"""Measures what rebalances and the steps of a rolling migration cost a group.

A *window* notes of each partition who held it when the window opened, and who was disturbed since.
It opens with a decision that begins a rebalance, with the departure of a consumer that may come
back with the other protocol, or with an arrival that may take the place of one that leaves later.
It closes when the group is at rest again. An *actor* is a consumer
under all its member ids: a static member's, and those of a consumer before and after its step.

The time without an owner is one sum that grows while partitions are unowned. A window has the sum
at its beginning, so an event costs the same however many partitions wait for an owner."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.interface.volatile_records import ClassicPhase, MemberPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupConverted,
    GroupDeleted,
    GroupEpochBumped,
    GroupLoaded,
    GroupStateChanged,
    HostingEnded,
    RebalanceEnded,
    StepEnded,
    TopicsDeleted,
)
from gateway.events.member_events import (
    GrantEnded,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberStateChanged,
    MemberSwitched,
    PartitionsAssigned,
    PartitionsRevoked,
    Protocol,
)
from gateway.events.tracked_group import TrackedGroup, TrackedMember

BACK_WITHIN_MS = 60_000
"""A consumer that comes later than this after a departure does not make a step."""
AWAY_MAX = 100
"""Departed consumers that are remembered. Beyond that the oldest are forgotten."""
WINDOWS_MAX = 16
"""Windows of departures and arrivals. Arrivals give way to later ones, the oldest first. Consumers
that depart beyond that share the latest one."""

_ONLY_ONE = 1
"""How alike two consumers are that only speak different protocols."""
_AT_REST = frozenset({"Stable", "Empty", "Dead"})
_DEPARTURES = (MemberLeft, MemberFenced, MemberReplaced)


@dataclass(slots=True, eq=False)
class _Window:
    """What has changed since its beginning."""

    started_ms: int
    unowned_ms: int
    """The sum at the beginning."""
    before: dict[str, dict[int, str | None]] = field(default_factory=dict)
    """The actor that held each partition that has changed hands, by topic."""
    disturbed: set[str] = field(default_factory=set)
    came: set[str] = field(default_factory=set)
    """The actors that were not there at the beginning."""
    is_whole_group: bool = False
    """Whether all members had to rejoin."""
    users: int = 0
    """Departures and steps that count from its beginning."""


class _Consumer(NamedTuple):
    actor: str
    client_id: str
    client_host: str
    instance_id: str | None
    protocol: Protocol


@dataclass(slots=True, eq=False)
class _Rebalance:
    """A rebalance that has not ended."""

    window: _Window
    cause: str
    epoch: int | None
    """None in a classic group, whose generation is known at the end."""


class _Departure(NamedTuple):
    """A consumer left, or came without a departure before."""

    window: _Window
    at_ms: int
    consumer: _Consumer


class _Step(NamedTuple):
    window: _Window
    started_ms: int
    before: _Consumer
    after: _Consumer


class _Figures(NamedTuple):
    partitions_moved: int
    least_possible: int
    members_disturbed: int
    unowned_ms: int


class MoveCosts:
    """Call `begin` with the events of a decision, then `record` with each, and `settle` when the
    state of the group is known."""

    def __init__(self, group: TrackedGroup) -> None:
        """`group` has observed the events before the one that is noted."""
        self._group = group
        self._present: Counter[str] = Counter()
        """The actors in the group."""
        self._rebalance: _Rebalance | None = None
        self._away: OrderedDict[str, _Departure] = OrderedDict()
        """The departures by actor, the oldest first."""
        self._early: OrderedDict[str, _Departure] = OrderedDict()
        """Consumers that came and have not replaced another one yet: one that speaks the other
        protocol may still leave."""
        self._steps: list[_Step] = []
        self._windows: list[_Window] = []
        """The windows of departures and steps, the oldest first."""
        self._opened: _Window | None = None
        """The window of the departures of this decision."""
        self._unowned: dict[str, set[int]] = {}
        self._unowned_count = self._unowned_ms = self._counted_ms = 0
        self._ended: dict[tuple[str, int], str] = {}
        """The members whose grants have ended in this decision."""
        self._replaced: set[str] = set()
        """The actors whose member id this decision changes."""

    @property
    def is_measuring(self) -> bool:
        """Whether a rebalance or a step has not ended."""
        return self._rebalance is not None or bool(self._steps)

    def begin(self, events: Iterable[GatewayEvent], at_ms: int) -> Sequence[GatewayEvent]:
        """Open the windows that the decision needs. Returns the end of the rebalance that it
        interrupts."""
        events = tuple(events)
        self._pass_time(at_ms)
        self._forget_old(at_ms)
        self._ended.clear()
        self._replaced.clear()
        interrupted: list[GatewayEvent] = []
        if (begun := _begun_rebalance(events)) is not None:
            if self._rebalance is not None:
                interrupted.append(self._rebalance_ended(self._rebalance, was_interrupted=True))
            cause, epoch = begun
            self._rebalance = _Rebalance(_Window(at_ms, self._unowned_ms), cause, epoch)
        if any(isinstance(event, (*_DEPARTURES, MemberSwitched, MemberJoined)) for event in events):
            while len(self._windows) >= WINDOWS_MAX and self._early:
                self._drop(self._early, next(iter(self._early)))
                self._close_windows()
            if len(self._windows) < WINDOWS_MAX:
                self._windows.append(_Window(at_ms, self._unowned_ms))
            self._opened = self._windows[-1]
            self._opened.users += 1
        return interrupted

    def record(self, event: GatewayEvent, at_ms: int) -> None:  # noqa: PLR0912  # one case for each
        """Take an event of the decision into account."""
        match event:
            case PartitionsAssigned():
                self._assign(event)
            case PartitionsRevoked(member_id=member_id):
                self._disturb(self._group.actor_of(member_id))
            case GrantEnded():
                self._end_grant(event)
            case MemberJoined():
                self._join(event, at_ms)
            case MemberLeft() | MemberFenced() | MemberReplaced():
                self._depart(event, at_ms)
            case MemberSwitched():
                self._switch(event, at_ms)
            case MemberStateChanged(member_id=member_id, to_state=MemberPhase.PREPARE_REBALANCE):
                self._disturb(self._group.actor_of(member_id))
            case GroupStateChanged(to_state=ClassicPhase.PREPARING_REBALANCE):
                for window in self._all_windows():
                    window.is_whole_group = True
            case TopicsDeleted(topics=topics):
                for topic in topics:
                    self._unowned_count -= len(self._unowned.pop(topic, ()))
                    for window in self._all_windows():
                        window.before.pop(topic, None)
            case GroupLoaded():
                self._load(event)
            case GroupDeleted() | HostingEnded():
                self._clear()
            case _:
                pass

    def finish(self, at_ms: int) -> None:
        """End the decision."""
        if self._opened is not None:
            self._opened.users -= 1
            self._opened = None
        self._forget_old(at_ms)

    def _forget_old(self, at_ms: int) -> None:
        """Forget departures that are too old or too many, and windows without any."""
        for waiting in (self._away, self._early):
            while waiting:
                actor, departure = next(iter(waiting.items()))
                is_old = at_ms - departure.at_ms > BACK_WITHIN_MS
                if not is_old and len(waiting) <= AWAY_MAX:
                    break
                self._drop(waiting, actor)
        self._close_windows()

    def _close_windows(self) -> None:
        """Close those that nothing counts from."""
        self._windows = [window for window in self._windows if window.users]

    def _drop(self, waiting: OrderedDict[str, _Departure], actor: str) -> None:
        if (departure := waiting.pop(actor, None)) is not None:
            departure.window.users -= 1

    def settle(self, state: str, at_ms: int) -> Sequence[GatewayEvent]:
        """The ends of the rebalance and the steps, if the group is at rest in this state."""
        if state not in _AT_REST or not self.is_measuring:
            return ()
        self._pass_time(at_ms)
        ended: list[GatewayEvent] = []
        if self._rebalance is not None:
            ended.append(self._rebalance_ended(self._rebalance, was_interrupted=False))
            self._rebalance = None
            self._unowned.clear()  # no member subscribes to what is left
            self._unowned_count = 0
        for step in self._steps:
            if self._present[step.after.actor]:  # it may have left again
                ended.append(self._step_ended(step))
            step.window.users -= 1
        self._steps.clear()
        self.finish(at_ms)
        return ended

    # -- members ---------------------------------------------------------------------------------

    def _join(self, event: MemberJoined, at_ms: int) -> None:
        consumer = _consumer(event.member_id, event)
        if not (self._present[consumer.actor] or consumer.actor in self._replaced):
            for window in self._all_windows():
                window.came.add(consumer.actor)
        self._present[consumer.actor] += 1
        departure = self._take_departure(consumer)
        if departure is None:
            self._wait(self._early, consumer, at_ms)
        elif departure.consumer.protocol == consumer.protocol:  # it was only restarted
            departure.window.users -= 1
        else:
            window, started_ms, before = departure
            self._steps.append(_Step(window, started_ms, before, consumer))

    def _take_departure(self, consumer: _Consumer) -> _Departure | None:
        """The departure of the consumer that has come back, or else of any other that spoke the
        other protocol: a new process may have another name and address."""
        best_rank, best = 0, ""
        for actor, departure in self._away.items():
            rank = _likeness(departure.consumer, consumer)
            if rank > best_rank:
                best_rank, best = rank, actor
        return self._away.pop(best) if best_rank else None

    def _depart(self, event: MemberLeft | MemberFenced | MemberReplaced, at_ms: int) -> None:
        member = self._group.members.get(event.member_id)
        if member is None:
            return
        consumer = _consumer(event.member_id, member)
        self._present[consumer.actor] -= 1
        if not self._present[consumer.actor]:
            del self._present[consumer.actor]
        if isinstance(event, MemberReplaced):
            self._replaced.add(consumer.actor)
        self._drop(self._early, consumer.actor)
        if (early := self._take_early(consumer)) is None:
            self._wait(self._away, consumer, at_ms)
        else:
            self._steps.append(_Step(early.window, early.at_ms, consumer, early.consumer))

    def _take_early(self, departed: _Consumer) -> _Departure | None:
        """The consumer of the same client that came while this one was there, and speaks the other
        protocol."""
        for actor, early in self._early.items():
            is_same = _likeness(departed, early.consumer) > _ONLY_ONE
            is_later = departed.actor not in early.window.came
            if is_same and is_later and early.consumer.protocol != departed.protocol:
                return self._early.pop(actor)
        return None

    def _wait(self, waiting: OrderedDict[str, _Departure], consumer: _Consumer, at_ms: int) -> None:
        assert self._opened is not None
        self._drop(waiting, consumer.actor)
        self._opened.users += 1
        waiting[consumer.actor] = _Departure(self._opened, at_ms, consumer)

    def _switch(self, event: MemberSwitched, at_ms: int) -> None:
        member = self._group.members.get(event.member_id)
        if member is None or member.protocol == event.protocol:
            return
        assert self._opened is not None
        before = _consumer(event.member_id, member)
        after = before._replace(protocol=event.protocol)
        self._opened.users += 1
        self._steps.append(_Step(self._opened, at_ms, before, after))

    # -- partitions ------------------------------------------------------------------------------

    def _assign(self, event: PartitionsAssigned) -> None:
        actor = self._group.actor_of(event.member_id)
        is_disturbed = False
        for topic, numbers in event.partitions.items():
            owners = self._group.owners_of(topic)
            for number in numbers:
                if number in owners:  # it may keep the partition after all
                    continue
                had = self._ended.get((topic, number))
                self._record(topic, number, had)
                is_disturbed |= had != actor
            self._mark_owned(topic, numbers)
        if is_disturbed:
            self._disturb(actor)

    def _end_grant(self, event: GrantEnded) -> None:
        actor = self._group.actor_of(event.member_id)
        for topic, numbers in event.partitions.items():
            for number in numbers:
                if event.cause != "topic_deleted":
                    self._ended[topic, number] = actor
                    self._record(topic, number, actor)
            if event.cause != "topic_deleted":
                unowned = self._unowned.setdefault(topic, set())
                self._unowned_count += len({*numbers} - unowned)
                unowned.update(numbers)
        if event.cause not in ("replaced", "topic_deleted"):
            self._disturb(actor)

    def _mark_owned(self, topic: str, numbers: Iterable[int]) -> None:
        """The partitions have an owner again."""
        if (unowned := self._unowned.get(topic)) is not None:
            before = len(unowned)
            unowned.difference_update(numbers)
            self._unowned_count -= before - len(unowned)
            if not unowned:
                del self._unowned[topic]

    def _record(self, topic: str, number: int, had: str | None) -> None:
        for window in self._all_windows():
            window.before.setdefault(topic, {}).setdefault(number, had)

    def _disturb(self, actor: str) -> None:
        for window in self._all_windows():
            window.disturbed.add(actor)

    def _all_windows(self) -> Iterator[_Window]:
        if self._rebalance is not None:
            yield self._rebalance.window
        yield from self._windows

    def _pass_time(self, at_ms: int) -> None:
        if self._present:
            self._unowned_ms += self._unowned_count * max(0, at_ms - self._counted_ms)
        self._counted_ms = max(at_ms, self._counted_ms)

    # -- figures ---------------------------------------------------------------------------------

    def _figures(self, window: _Window, step: _Step | None = None) -> _Figures:
        gained: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        for topic, numbers in window.before.items():
            owners = self._group.owners_of(topic)
            for number, had in numbers.items():
                if step is not None and had == step.before.actor:
                    had = step.after.actor  # noqa: PLW2901
                owner_id = owners.get(number)
                has = None if owner_id is None else self._group.actor_of(owner_id)
                if has is not None and has != had:
                    gained[has] += 1
                    if had is not None:
                        lost[had] += 1
        disturbed = self._present.keys() if window.is_whole_group else window.disturbed
        own = () if step is None else (step.before.actor, step.after.actor)
        return _Figures(
            partitions_moved=gained.total(),
            least_possible=sum(n - min(n, lost[actor]) for actor, n in gained.items()),
            members_disturbed=sum(
                actor in self._present and actor not in window.came and actor not in own
                for actor in disturbed
            ),
            unowned_ms=self._unowned_ms - window.unowned_ms,
        )

    def _rebalance_ended(self, rebalance: _Rebalance, *, was_interrupted: bool) -> RebalanceEnded:
        figures = self._figures(rebalance.window)
        return RebalanceEnded(
            started_ms=rebalance.window.started_ms,
            epoch=self._group.group_epoch if rebalance.epoch is None else rebalance.epoch,
            cause=rebalance.cause,
            members=len(self._group.members),
            was_interrupted=was_interrupted,
            **figures._asdict(),
        )

    def _step_ended(self, step: _Step) -> StepEnded:
        figures = self._figures(step.window, step)
        return StepEnded(
            client_id=step.after.client_id,
            client_host=step.after.client_host,
            instance_id=step.after.instance_id,
            from_protocol=step.before.protocol,
            to_protocol=step.after.protocol,
            started_ms=step.started_ms,
            members=len(self._group.members),
            **figures._asdict(),
        )

    # -- beginnings ------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._present.clear()
        self._unowned.clear()
        self._unowned_count = 0
        self._rebalance = self._opened = None
        self._away.clear()
        self._early.clear()
        self._steps.clear()
        self._windows.clear()

    def _load(self, loaded: GroupLoaded) -> None:
        """Begin with a group as it is. What happened before is not known."""
        self._clear()
        for member in loaded.members:
            self._present[member.instance_id or member.member_id] += 1


def _consumer(member_id: str, member: MemberJoined | TrackedMember) -> _Consumer:
    return _Consumer(
        member.instance_id or member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        member.protocol,
    )


def _likeness(departed: _Consumer, joined: _Consumer) -> int:
    """How likely it is that the consumer that joined is the one that departed; 0: it is not."""
    if departed.instance_id is not None and departed.instance_id == joined.instance_id:
        return 4
    if departed.client_id == joined.client_id:
        return 3 if departed.client_host == joined.client_host else 2
    return _ONLY_ONE if departed.protocol != joined.protocol else 0


def _begun_rebalance(events: Sequence[GatewayEvent]) -> tuple[str, int | None] | None:
    """The cause and the epoch of the rebalance that a decision begins, if it does."""
    for event in events:
        match event:
            case GroupEpochBumped(cause=epoch_cause, group_epoch=epoch):
                return epoch_cause.value, epoch
            case GroupStateChanged(
                from_state=ClassicPhase.EMPTY | ClassicPhase.STABLE,
                to_state=ClassicPhase.PREPARING_REBALANCE,
            ):
                return _classic_cause(events), None
            case _:
                pass
    return None


def _classic_cause(events: Sequence[GatewayEvent]) -> str:
    cause = "member_rejoined"
    for event in events:
        match event:
            case GroupConverted():
                return "converted"
            case MemberJoined():
                cause = "member_joined"
            case MemberLeft() | MemberFenced():
                cause = "member_removed"
            case _:
                pass
    return cause
