"""Each step of a migration, a consumer that switches its protocol, and whether it made things
worse: a fold of the events, and of the lag. Pure.

A step is one in a group that has other members, so not the join of an empty one, and it is judged
if the group still has members. It made it worse if the group has fallen behind since, by more than
a share of what it consumed before. It also did if the consumer's own partitions are behind by that
share of their part, and have fallen behind since, or the consumer reads less than before by the
same share. A consumer without lag reads less because there is less to read. Partitions that were
not counted at the step, or no longer are, do not count: the topic may have no subscribers any more.
A consumer that switches again and again flaps.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gateway.board.group_stats import AllGroupStats
from gateway.board.lags import GroupLag, Lags
from gateway.data_path.removal import ClientIdentity
from gateway.data_path.traffic import Rates, Traffic
from gateway.events.event import Envelope, GatewayEvent
from gateway.events.gateway_events import UpstreamBack, UpstreamLost
from gateway.events.group_events import (
    ClientFlapped,
    GroupConverted,
    GroupDeleted,
    StepMadeWorse,
)
from gateway.events.member_events import MemberJoined, MemberSwitched, Protocol
from gateway.events.offset_events import OffsetsCommitted

JUDGED_AFTER_MS = 60_000
"""How long after a step it is judged: its rebalance is over, and commits have followed."""
BEFORE_MS = 60_000
"""The time before it that counts."""
SAMPLE_EVERY_MS, SAMPLES_MAX = 5_000, 20
"""How often it is noted how much a group has consumed, and how many notes are kept."""
LEFT_BEHIND_MIN = 100
"""A group that has fallen behind by fewer records has not become worse."""
FLAPS_MIN, FLAPS_WITHIN_MS = 3, 600_000
"""How many switches of one client, and in how short a time, count as flapping."""
FLAPS_UNTOLD_MAX = 1_000
"""Clients whose flapping is told from one call of `judge` to the next, at most."""
GROUPS_MAX = 5_000
"""Groups whose clients are remembered; of more, those without an event for the longest time are
forgotten."""
CLIENTS_MAX = 2_000
"""Clients remembered per group."""
ENTRIES_MAX = 100_000
"""Entries in the tables of all groups. Of more, the groups without an event for the longest time
are forgotten."""
LINE_CHARS_MAX = 2_000
"""A member whose event is longer is not watched: clients choose the lengths of names."""
OPEN_STEPS_MAX = 1_000
"""Steps that wait for their judgement. More are not judged."""

_K = TypeVar("_K")
_V = TypeVar("_V")
_Client = tuple[str, str]
"""Client id and host."""


class _Latest(NamedTuple):
    protocol: Protocol | None
    switches: tuple[int, ...]
    """The times of the last ones."""


@dataclass(slots=True)
class _GroupSteps:
    protocols: dict[_Client, Protocol] = field(default_factory=dict)
    latest: dict[str, _Latest] = field(default_factory=dict)
    """The latest steps by client id, for clients whose host is new: a container that restarts has
    another."""
    clients: dict[str, _Client] = field(default_factory=dict)
    """The clients by member id."""
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    """Time, and how much the group had consumed."""
    converted_ms: int | None = None
    lag_before: int | None = None
    """The lag when the group was converted."""

    @property
    def size(self) -> int:
        """The entries of its tables."""
        return len(self.protocols) + len(self.latest) + len(self.clients)


@dataclass(slots=True)
class _Own:
    """The partitions of one client."""

    partitions: int = 0
    lag: int = 0


@dataclass(slots=True, kw_only=True)
class _SwitchStep:
    group_id: str
    client: _Client
    to: Protocol
    at_ms: int
    group: GroupLag
    lag: int
    rescoped: int
    per_s: float
    """Records that the group consumed."""
    consumed: int
    rates: Rates | None
    """The rates of the client before the step."""
    own_lag: int | None = None
    """The lag of the client's partitions at the first measurement after the step."""


class Steps:
    """`take` sees every event, after `lags` and `group_stats` have; `judge` tells what has become
    worse."""

    def __init__(
        self, lags: Lags, group_stats: AllGroupStats, traffic: Traffic, *, share: float
    ) -> None:
        """`share`: of what a group or a client consumes, the part that a step may cost."""
        self._lags = lags
        self._group_stats = group_stats
        self._traffic = traffic
        self._share = share
        self._groups: dict[str, _GroupSteps] = {}
        """The one with the latest event is the last."""
        self._entries = 0
        self._open: deque[_SwitchStep] = deque()
        self._flapped: deque[tuple[str, ClientFlapped]] = deque(maxlen=FLAPS_UNTOLD_MAX)

    def take(self, envelope: Envelope) -> None:
        """See an event."""
        if (group_id := envelope.group_id) is None:
            if isinstance(envelope.fields, UpstreamLost | UpstreamBack):
                self.drop_open()
            return
        match envelope.fields:
            case MemberJoined() as joined if len(envelope.line) <= LINE_CHARS_MAX:
                client = (joined.client_id, joined.client_host)
                self._see(group_id, joined.member_id, client, joined.protocol, envelope.at_ms)
            case MemberSwitched(member_id=member_id, protocol=protocol):
                group = self._touch(group_id)
                if (known := group.clients.get(member_id)) is not None:
                    self._see(group_id, member_id, known, protocol, envelope.at_ms)
            case GroupConverted(direction="classic->consumer"):
                group = self._touch(group_id)
                group.lag_before = self._lags.total(group_id, envelope.at_ms)
                group.converted_ms = envelope.at_ms
            case OffsetsCommitted():
                self._sample(group_id, envelope.at_ms)
            case GroupDeleted():
                self._forget(group_id)
            case _:
                pass

    def drop_open(self) -> None:
        """Do not judge the steps of the last minute: consumers could not read for a time, because
        the gateway was paused, or no broker answered."""
        self._open.clear()

    def _sample(self, group_id: str, at_ms: int) -> None:
        if (lag := self._lags.of(group_id)) is None:
            return
        group = self._touch(group_id)
        if not group.samples or at_ms - group.samples[-1][0] >= SAMPLE_EVERY_MS:
            group.samples.append((at_ms, lag.consumed))

    def lag_before(self, group_id: str) -> int | None:
        """The lag of a group when it was converted last; None if it is not known."""
        group = self._groups.get(group_id)
        return None if group is None else group.lag_before

    @property
    def groups_to_judge(self) -> list[str]:
        """The groups whose steps wait for their judgement."""
        return list(dict.fromkeys(step.group_id for step in self._open))

    def judge(self, now_ms: int) -> Iterator[tuple[str, GatewayEvent]]:
        """What has become worse since the last call."""
        while self._flapped:
            yield self._flapped.popleft()
        clients: dict[str, Mapping[_Client, _Own]] = {}
        for step in tuple(self._open):
            is_due = now_ms - step.at_ms >= JUDGED_AFTER_MS
            if not is_due and (step.own_lag is not None or not self._was_measured_since(step)):
                continue
            if step.group_id not in clients:
                clients[step.group_id] = self._own_of(step.group_id, now_ms)
            own = clients[step.group_id].get(step.client)
            if not is_due:
                step.own_lag = None if own is None else own.lag
                continue
            self._open.popleft()  # the oldest one
            if (worse := self._judge_step(step, own, now_ms)) is not None:
                yield step.group_id, worse

    def _was_measured_since(self, step: _SwitchStep) -> bool:
        group = self._lags.of(step.group_id)
        return (
            group is not None and group.measured_ms is not None and group.measured_ms >= step.at_ms
        )

    def _judge_step(self, step: _SwitchStep, own: _Own | None, now_ms: int) -> StepMadeWorse | None:
        lag, group = self._lags.total(step.group_id, now_ms), self._lags.of(step.group_id)
        if lag is None or group is not step.group or not self._was_measured_since(step):
            return None
        if self._group_stats.is_empty(step.group_id):
            return None
        lag_before = step.lag + group.rescoped - step.rescoped
        length_s = (now_ms - step.at_ms) / 1000
        after_per_s = (group.consumed - step.consumed) / length_s
        # Some records are always on their way: more in a group that has more to read than before.
        allowed = self._share * max(step.per_s, after_per_s) * length_s
        left_behind = lag - lag_before
        if left_behind < LEFT_BEHIND_MIN:
            return None
        rates = None
        if left_behind < allowed:
            part = 0.0 if own is None else own.partitions / max(1, len(group.committed))
            own_min = max(LEFT_BEHIND_MIN, part * allowed)
            if own is None or step.own_lag is None or own.lag < own_min:
                return None
            rates = self._traffic.rates_now(_identity_of(step.client))
            has_fallen_behind = own.lag - step.own_lag >= own_min
            if not has_fallen_behind and not _reads_less(step.rates, rates, self._share):
                return None
        client_id, client_host = step.client
        return StepMadeWorse(
            client_id=client_id,
            client_host=client_host,
            protocol=step.to,
            lag_before=max(0, lag_before),
            lag_after=lag,
            records_per_s_before=round(step.per_s, 1),
            records_per_s_after=round(after_per_s, 1),
            client_lag=None if own is None else own.lag,
            **_label_rates(step.rates, "before"),
            **_label_rates(rates or self._traffic.rates_now(_identity_of(step.client)), "after"),
        )

    def _own_of(self, group_id: str, now_ms: int) -> Mapping[_Client, _Own]:
        """What each client of a group has. The cost follows the group's partitions."""
        owned: defaultdict[_Client, _Own] = defaultdict(_Own)
        stats, group = self._group_stats.of(group_id, now_ms), self._groups.get(group_id)
        lags = self._lags.of(group_id)
        if stats is None or group is None or lags is None:
            return owned
        for partition, member_id in stats.owners():
            client, lag = group.clients.get(member_id), lags.of((partition,))
            if client is not None and lag is not None:
                owned[client].partitions += 1
                owned[client].lag += lag
        return owned

    def _see(
        self, group_id: str, member_id: str, client: _Client, protocol: Protocol, at_ms: int
    ) -> None:
        group, client_id = self._touch(group_id), client[0]
        size, latest = group.size, group.latest.get(client_id) or _Latest(None, ())
        before, switches = group.protocols.get(client) or latest.protocol, latest.switches
        is_step = before != protocol and (before is not None or at_ms == group.converted_ms)
        if is_step:
            switches = (*switches, at_ms)[-FLAPS_MIN:]
            if len(switches) == FLAPS_MIN and at_ms - switches[0] <= FLAPS_WITHIN_MS:
                flapped = ClientFlapped(client_id=client_id, switches=FLAPS_MIN, protocol=protocol)
                self._flapped.append((group_id, flapped))
                switches = ()
            if not self._group_stats.is_empty(group_id):
                self._open_step(group_id, group, client, protocol, at_ms)
        _remember(group.clients, member_id, client)
        _remember(group.protocols, client, protocol)
        _remember(group.latest, client_id, _Latest(protocol, switches))
        self._entries += group.size - size
        while self._entries > ENTRIES_MAX:
            self._forget(next(iter(self._groups)))

    def _open_step(
        self, group_id: str, group: _GroupSteps, client: _Client, protocol: Protocol, at_ms: int
    ) -> None:
        lag, known = self._lags.total(group_id, at_ms), self._lags.of(group_id)
        if lag is None or known is None or len(self._open) >= OPEN_STEPS_MAX:
            return
        since = next((sample for sample in group.samples if at_ms - sample[0] <= BEFORE_MS), None)
        if since is None or at_ms <= since[0]:
            return  # what it consumed before is not known
        per_s = 1000 * (known.consumed - since[1]) / (at_ms - since[0])
        self._open.append(
            _SwitchStep(
                group_id=group_id,
                client=client,
                to=protocol,
                at_ms=at_ms,
                group=known,
                lag=lag,
                rescoped=known.rescoped,
                per_s=per_s,
                consumed=known.consumed,
                rates=self._traffic.rates_before(_identity_of(client)),
            )
        )

    def _touch(self, group_id: str) -> _GroupSteps:
        group = self._groups.pop(group_id, None) or _GroupSteps()
        self._groups[group_id] = group
        if len(self._groups) > GROUPS_MAX:
            self._forget(next(iter(self._groups)))
        return group

    def _forget(self, group_id: str) -> None:
        if (group := self._groups.pop(group_id, None)) is not None:
            self._entries -= group.size


def _identity_of(client: _Client) -> ClientIdentity:
    client_id, client_host = client
    return ClientIdentity(client_host.removeprefix("/"), client_id)


def _reads_less(before: Rates | None, after: Rates | None, share: float) -> bool:
    """Whether it is less by more than this share. A client without connections reads nothing."""
    if before is None:
        return False
    now_per_s = 0.0 if after is None else after.bytes_per_s
    return now_per_s < (1 - share) * before.bytes_per_s


def _label_rates(rates: Rates | None, when: str) -> Mapping[str, float]:
    fields = {} if rates is None else rates._asdict()
    return {f"{name}_{when}": rate for name, rate in fields.items()}


def _remember(table: dict[_K, _V], key: _K, value: _V) -> None:
    table.pop(key, None)
    table[key] = value
    if len(table) > CLIENTS_MAX:
        del table[next(iter(table))]
