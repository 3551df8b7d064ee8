"""What has become of each group since this process began to watch it: a fold of the events.

The engine knows how a group stands, not how it came there. These are the sums that only the events
have, with the rules of the report: a partition is unowned from its release to its next assignment.
Nobody misses it while the group has no members, or once a rebalance has ended without giving it to
a member. A group at rest may wait for one all the same: in a roll, a consumer's partitions wait for
its replacement, and no rebalance begins.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from coordinator.interface.roll_policy import RollPolicy
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import Envelope, GatewayEvent
from gateway.events.group_events import (
    ConversionRefused,
    GroupConfigsAltered,
    GroupConverted,
    GroupDeleted,
    GroupEpochBumped,
    GroupForwarded,
    GroupStateChanged,
    RebalanceEnded,
    StepEnded,
    TopicsDeleted,
)
from gateway.events.member_events import (
    ClientSeen,
    GrantEnded,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    PartitionsAssigned,
    PartitionsRevoked,
    PartitionsStated,
)
from gateway.observers.counts import Durations

GROUPS_MAX = 20_000
"""Groups with such sums. Of more, those without an event for the longest time are forgotten."""
CLIENTS_MAX = 2_000
"""Clients remembered per group. Of more, the first one seen is forgotten."""
CLIENTS_IN_ALL_MAX = 10_000
"""Clients remembered of all groups, 2 KiB each. Of more, the one seen first is forgotten."""
GROUP_CHARS_MAX = 1_000
"""Groups with longer names have no sums: their clients choose the names."""
LINE_CHARS_MAX = 2_000
"""A client whose event is longer is not remembered: it chooses the lengths of its names. The rest
of a longer reason is not kept either."""
PARTITIONS_MAX = 500_000
"""Partitions of all groups. Of more, the groups without an event for the longest time are
forgotten: a classic leader may assign partitions that do not exist."""

REBALANCE_BOUNDS_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

_AT_REST = frozenset({"Stable"})
_EMPTY = frozenset({"Empty", "Dead"})


@dataclass(slots=True)
class GroupStats:
    """The sums of one group."""

    since_ms: int
    """The time of its first event in this process."""
    last_ms: int
    """Up to when the sums go."""
    unowned_partition_ms: int = 0
    """The time that partitions had no owner, summed over them."""
    owned_twice: int = 0
    """How often a member was granted a partition that another one held, or stated that it owned
    one. It must stay 0."""
    conversions: int = 0
    disturbed: int = 0
    """How often a member had to give up partitions."""
    refusal: str | None = None
    """Why the latest client that would have converted the group was refused."""
    _refused: tuple[str, str] | None = None
    """The client id and the protocol of that client."""
    _policy: RollPolicy | None = None
    """What an operator lets the migration do, once that has changed."""
    last_step: StepEnded | None = None
    """The latest step of a roll."""
    clients: dict[str, ClientSeen] = field(default_factory=dict)
    """What each member's client said of itself, by member id."""
    _owners: dict[str, dict[int, str]] = field(default_factory=dict)
    _owned: int = 0
    _held: Counter[str] = field(default_factory=Counter)
    """The number of partitions of each member."""
    _unowned: set[tuple[str, int]] = field(default_factory=set)
    _changed_ms: int = 0
    """The time of the latest event."""
    _rebalances_since_ms: int | None = None
    """When the present rebalance began."""

    @property
    def partitions(self) -> int:
        """The partitions with an owner, and those that had one."""
        return self._owned + len(self._unowned)

    @property
    def unowned_count(self) -> int:
        """The partitions that had an owner, and have none now."""
        return len(self._unowned)

    def owners(self) -> Iterator[tuple[tuple[str, int], str]]:
        """Each partition with the member that has it."""
        for topic, owners in self._owners.items():
            for number, member_id in owners.items():
                yield (topic, number), member_id

    def advance(self, now_ms: int, state: str) -> None:
        """Let time pass, during which the group was in this state."""
        if state not in _EMPTY:
            self.unowned_partition_ms += self.unowned_count * max(0, now_ms - self.last_ms)
        self.last_ms = max(now_ms, self.last_ms)

    def end_rebalance(self, now_ms: int, state: str) -> float | None:
        """The length in seconds of a rebalance that has ended. Events are reported just before the
        group changes its state, so the new state counts from the next moment on."""
        is_over = state in _AT_REST or state in _EMPTY
        since_ms = self._rebalances_since_ms
        if since_ms is None or not is_over or now_ms <= self._changed_ms:
            return None
        self._rebalances_since_ms = None
        return max(0, self._changed_ms - since_ms) / 1000

    def add(self, event: GatewayEvent, at_ms: int) -> None:  # noqa: PLR0912  # one case each
        """Count an event."""
        self._changed_ms = at_ms
        match event:
            case GroupEpochBumped() | GroupStateChanged(to_state=ClassicPhase.PREPARING_REBALANCE):
                if self._rebalances_since_ms is None:
                    self._rebalances_since_ms = at_ms
            case PartitionsAssigned(member_id=member_id, partitions=partitions):
                self._assign(member_id, partitions)
            case GrantEnded(member_id=member_id, partitions=partitions):
                self._release(member_id, partitions)
            case PartitionsRevoked():
                self.disturbed += 1
            case PartitionsStated(member_id=member_id, partitions=partitions):
                self._check_statement(member_id, partitions)
            case MemberLeft() | MemberFenced() | MemberReplaced():
                self._release(event.member_id, self._rest_of(event.member_id))
                self._forget_client(event)
            case TopicsDeleted(topics=topics):
                self._forget(topics)
            case RebalanceEnded(was_interrupted=False):
                self._unowned.clear()
            case StepEnded():
                self.last_step = event
            case GroupConverted():
                self.conversions += 1
                self.refusal = None
            case ConversionRefused():
                self.refusal = event.reason[:LINE_CHARS_MAX] or "its protocol cannot carry a reason"
                protocol = event.direction.rpartition(">")[2]
                self._refused = (event.client_id[:LINE_CHARS_MAX], protocol)
            case GroupConfigsAltered(overrides=overrides):
                policy = RollPolicy().overridden(overrides)
                if policy != self._policy:  # other configs do not refuse members
                    self._policy, self.refusal = policy, None
            case MemberJoined() if (event.client_id, event.protocol) == self._refused:
                self.refusal = None
            case ClientSeen():
                self._see(event)
            case GroupForwarded():  # no event reports what the cluster's coordinator grants
                self._owners.clear()
                self._owned = 0
                self._held.clear()
                self._unowned.clear()
                self._rebalances_since_ms = None
            case _:
                pass

    def _assign(self, member_id: str, partitions: Mapping[str, tuple[int, ...]]) -> None:
        for topic, numbers in partitions.items():
            owners = self._owners.setdefault(topic, {})
            for number in numbers:
                before = owners.get(number)
                if before == member_id:
                    continue
                if before is None:
                    self._owned += 1
                else:
                    self.owned_twice += 1
                    self._held[before] -= 1
                owners[number] = member_id
                self._held[member_id] += 1
                self._unowned.discard((topic, number))

    def _check_statement(self, member_id: str, partitions: Mapping[str, tuple[int, ...]]) -> None:
        """Count what a member states to own although the group has given it to another: its client
        took it too late, or has not heard yet that it lost it."""
        for topic, numbers in partitions.items():
            owners = self._owners.get(topic, {})
            self.owned_twice += sum(owners.get(n, member_id) != member_id for n in numbers)

    def _release(self, member_id: str, partitions: Mapping[str, tuple[int, ...]]) -> None:
        for topic, numbers in partitions.items():
            owners = self._owners.get(topic, {})
            for number in numbers:
                # The grant was perhaps before this process; then the partition is unowned as well.
                if owners.get(number, member_id) == member_id:
                    if owners.pop(number, None) is not None:
                        self._owned -= 1
                        self._held[member_id] -= 1
                    self._unowned.add((topic, number))
            if not owners:
                self._owners.pop(topic, None)
        if self._held[member_id] <= 0:
            del self._held[member_id]

    def _rest_of(self, member_id: str) -> dict[str, tuple[int, ...]]:
        """What a member that is gone has not released by an event of its own: seldom anything."""
        if self._held[member_id] <= 0:
            return {}
        return {
            topic: tuple(number for number, owner in owners.items() if owner == member_id)
            for topic, owners in self._owners.items()
        }

    def _forget(self, topics: tuple[str, ...]) -> None:
        for topic in topics:
            for owner in self._owners.pop(topic, {}).values():
                self._owned -= 1
                self._held[owner] -= 1
        self._unowned = {partition for partition in self._unowned if partition[0] not in topics}

    def _forget_client(self, event: MemberLeft | MemberFenced | MemberReplaced) -> None:
        """A native client that was fenced comes back under the same id, and is not seen again."""
        client = self.clients.get(event.member_id)
        if not (isinstance(event, MemberFenced) and client and client.protocol == "consumer"):
            self.clients.pop(event.member_id, None)

    def _see(self, client: ClientSeen) -> None:
        self.clients.pop(client.member_id, None)
        self.clients[client.member_id] = client
        if len(self.clients) > CLIENTS_MAX:
            del self.clients[next(iter(self.clients))]


class AllGroupStats:
    """The sums of all groups, and of all that were forgotten."""

    def __init__(self, state_of: Callable[[str], str]) -> None:
        """`state_of` tells a group's state, in Kafka's words."""
        self._state_of = state_of
        self._group_stats: dict[str, GroupStats] = {}
        self.events: Counter[str] = Counter()
        """The number of events by name."""
        self.rebalances = Durations(REBALANCE_BOUNDS_S)
        """The durations of rebalances, from the event that began each to the last one before the
        group was at rest, or empty."""
        self._forgotten = GroupStats(since_ms=0, last_ms=0)
        self._partitions = 0
        self._seen: dict[tuple[str, str], None] = {}
        """Groups and member ids of clients, the one seen last at the end."""

    def take(self, envelope: Envelope) -> None:
        """Count an event."""
        self.events[envelope.event] += 1
        group_id = envelope.group_id
        if group_id is None or len(group_id) > GROUP_CHARS_MAX:
            return
        stats = self._group_stats.pop(group_id, None) or GroupStats(envelope.at_ms, envelope.at_ms)
        self._group_stats[group_id] = stats  # the latest one is the last
        self._partitions -= stats.partitions
        self._advance(stats, group_id, envelope.at_ms)
        if not isinstance(envelope.fields, ClientSeen):
            stats.add(envelope.fields, envelope.at_ms)
        elif len(envelope.line) <= LINE_CHARS_MAX:
            stats.add(envelope.fields, envelope.at_ms)
            self._see(group_id, envelope.fields.member_id)
        self._partitions += stats.partitions
        if isinstance(envelope.fields, GroupDeleted):
            self._drop(group_id)
        while len(self._group_stats) > GROUPS_MAX or self._partitions > PARTITIONS_MAX:
            self._drop(next(iter(self._group_stats)))

    def of(self, group_id: str, now_ms: int) -> GroupStats | None:
        """The sums of a group up to now; None if it had no event yet."""
        stats = self._group_stats.get(group_id)
        if stats is not None:
            self._advance(stats, group_id, now_ms)
        return stats

    def is_empty(self, group_id: str) -> bool:
        """Whether the group has no members; at an event, whether it had none just before."""
        return self._state_of(group_id) in _EMPTY

    def total(self, now_ms: int) -> GroupStats:
        """The sums of all groups that there have been, up to now."""
        total = replace(self._forgotten)
        for group_id in self._group_stats:
            _add(total, self.of(group_id, now_ms))
        return total

    def _advance(self, stats: GroupStats, group_id: str, now_ms: int) -> None:
        state = self._state_of(group_id)
        stats.advance(now_ms, state)
        if (length_s := stats.end_rebalance(now_ms, state)) is not None:
            self.rebalances.record(length_s)

    def _see(self, group_id: str, member_id: str) -> None:
        """Bound the clients of all groups. A refused client never leaves its group."""
        self._seen.pop((group_id, member_id), None)
        self._seen[group_id, member_id] = None
        if len(self._seen) > CLIENTS_IN_ALL_MAX:
            oldest = next(iter(self._seen))
            del self._seen[oldest]
            if (stats := self._group_stats.get(oldest[0])) is not None:
                stats.clients.pop(oldest[1], None)

    def _drop(self, group_id: str) -> None:
        stats = self._group_stats.pop(group_id)
        self._partitions -= stats.partitions
        _add(self._forgotten, stats)


def _add(total: GroupStats, stats: GroupStats | None) -> None:
    if stats is not None:
        total.unowned_partition_ms += stats.unowned_partition_ms
        total.owned_twice += stats.owned_twice
        total.conversions += stats.conversions
        total.disturbed += stats.disturbed
