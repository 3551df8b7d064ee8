"""What the parent of a fleet does with its processes and their shards, decided without IO.

The first process starts alone: what keeps it from starting would keep the others as well, and one
line says so. Later a process that ends is started again in its slot, because its ports, and the ids
that clients know, belong to the slot. A process that is silent is killed.

Each shard has a *home*, the slot that has it while all processes serve; while its home does not
serve, another slot owns it. A process is told to open a shard only once its last holder has given
it up or has ended, so that no shard ever has two holders.

The processes of a fleet that runs on several machines have no shards here: they take and leave
those of the fleet by themselves, and linger when they are drained.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from gateway.fleet.member import home_of

TICK_S = 0.5
"""How often each process gives a sign of life, and how often the parent counts them."""
SILENT_TICKS_MAX = 10
"""Ticks without a sign of life. Ticks and not seconds: a pause of the whole machine is one tick."""
DELAY_TICKS_MAX = 20
"""The longest delay before a process that cannot start is tried again."""
UNOPENED_TICKS = 10
"""Before a shard that could not be opened is tried again."""
SETTLE_TICKS = 6
"""Before a process that was started again gets its shards back: their clients have just found
another one."""


LINGER_TICKS = 12
"""Before a process that has given up its shards ends its connections. By then their clients have
sent a heartbeat there, and know that another process has their group. A port that is closed instead
makes some of them join again (franz-go)."""


class SlotPhase(Enum):
    """What the process of a slot does."""

    VACANT = auto()
    """There is none yet, or it has ended and is about to be started again."""
    STARTING = auto()
    SERVING = auto()
    LEAVING = auto()
    """The process gives its shards to the others and drains, to be started again."""
    KILLED = auto()
    """Killed because it was silent, and not ended yet."""


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start a process in this slot, which opens these shards at its start."""

    slot: int
    shards: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KillProcess:
    """End the process of this slot with SIGKILL."""

    slot: int


@dataclass(frozen=True, slots=True)
class DrainProcess:
    """Tell the process of this slot to drain; told twice, it ends without."""

    slot: int


@dataclass(frozen=True, slots=True)
class CloseSharedPorts:
    """Have the process of this slot leave new clients to the others."""

    slot: int


@dataclass(frozen=True, slots=True)
class AnnounceOwners:
    """Tell all processes which slot owns each shard."""

    owners: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenShards:
    """Have the process of this slot open shards that no process holds."""

    slot: int
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndFleet:
    """No process is left: exit with this status."""

    status: int


Action = (
    StartProcess
    | KillProcess
    | DrainProcess
    | CloseSharedPorts
    | AnnounceOwners
    | OpenShards
    | EndFleet
)


@dataclass(slots=True)
class _Slot:
    phase: SlotPhase = SlotPhase.VACANT
    silent_ticks: int = 0
    failures: int = 0
    """Processes in a row that ended before they served."""
    delay_ticks: int = 0
    """Before the next one is started."""
    settle_ticks: int = 0
    """Before it gets the shards back that others serve."""
    linger_ticks: int = 0
    """Since it had no shard any more, while it leaves."""
    is_draining: bool = False


@dataclass(slots=True)
class Supervision:
    """The processes of a fleet."""

    slots: int
    shards: int
    _slots: list[_Slot] = field(init=False)
    _owners: list[int] = field(init=False)
    """The slot that owns each shard: it holds it, or is about to."""
    _holders: list[int | None] = field(init=False)
    """The slot whose process may have each shard open."""
    _delays: dict[int, int] = field(init=False, default_factory=dict)
    """The ticks for which shards that could not be opened are left alone."""
    _restarts: deque[int] = field(init=False, default_factory=deque)
    """The slots that are to be restarted."""
    _is_complete: bool = False
    """Whether all slots have served."""
    _is_ending: bool = False
    _status: int = 0

    def __post_init__(self) -> None:
        self._slots = [_Slot() for _ in range(self.slots)]
        self._owners = [home_of(shard, self.slots) for shard in range(self.shards)]
        self._holders = [None] * self.shards

    @property
    def is_complete(self) -> bool:
        """Whether every slot has had a process that served."""
        return self._is_complete

    @property
    def owners(self) -> tuple[int, ...]:
        """The slot that owns each shard."""
        return tuple(self._owners)

    def begin(self) -> Iterator[Action]:
        """Start the first process."""
        yield self._start(0)

    def on_beat(self, slot: int) -> None:
        """A process has given a sign of life."""
        self._slots[slot].silent_ticks = 0

    def on_serving(self, slot: int) -> Iterator[Action]:
        """A process serves clients."""
        one = self._slots[slot]
        one.phase, one.failures = SlotPhase.SERVING, 0
        if self._is_ending:
            return
        if self._is_complete:
            one.settle_ticks = SETTLE_TICKS
            yield from self._deal()
            return
        if slot == 0:
            for other in range(1, self.slots):
                yield self._start(other)
        self._is_complete = all(one.phase is SlotPhase.SERVING for one in self._slots)

    def on_ended(self, slot: int, status: int) -> Iterator[Action]:
        """A process has ended."""
        was, ended = self._slots[slot].phase, self._slots[slot]
        ended.phase = SlotPhase.VACANT
        self._holders = [None if holder == slot else holder for holder in self._holders]
        if self._is_ending:
            self._status = max(self._status, min(status, 1))
            yield from self._end_if_vacant()
        elif not self._is_complete:  # it could not be started
            self._status = min(status, 1)
            yield from self.on_drain()
        else:
            yield from self._deal()
            if was is SlotPhase.STARTING:
                ended.failures += 1
                ended.delay_ticks = min(2**ended.failures, DELAY_TICKS_MAX)
            else:
                yield self._start(slot)

    def on_tick(self) -> Iterator[Action]:
        """Another `TICK_S` has passed."""
        for slot, one in enumerate(self._slots):
            if one.phase is SlotPhase.VACANT:
                if one.delay_ticks > 0 and not self._is_ending:
                    one.delay_ticks -= 1
                    if one.delay_ticks == 0:
                        yield self._start(slot)
                continue
            one.silent_ticks += 1
            if one.silent_ticks > SILENT_TICKS_MAX and one.phase is not SlotPhase.KILLED:
                one.phase = SlotPhase.KILLED
                yield KillProcess(slot)
            elif one.settle_ticks > 0:
                one.settle_ticks -= 1
            elif one.phase is SlotPhase.LEAVING:
                yield from self._drain_if_left(slot, ticks=1)
        self._delays = {shard: ticks - 1 for shard, ticks in self._delays.items() if ticks > 1}
        if self._is_complete and not self._is_ending:
            yield from self._deal()
            yield from self._begin_restart()

    def on_gave_up(self, slot: int, shard: int) -> Iterator[Action]:
        """A process has closed a shard, as the owners that it was told demand."""
        if self._holders[shard] == slot:
            self._holders[shard] = None
        if not self._is_ending:
            yield from self._hand_out()

    def on_opened(self, shard: int) -> None:
        """A process serves a shard that it was told to open. If it stands in for another one, the
        shard's clients find it only now."""
        home = self._slots[home_of(shard, self.slots)]
        home.settle_ticks = SETTLE_TICKS if home.settle_ticks else 0

    def on_not_opened(self, slot: int, shards: Sequence[int]) -> None:
        """A process has not opened shards that it was to open. They are tried again later, there or
        wherever they belong then: what keeps one process from it may keep all."""
        for shard in shards:
            if self._holders[shard] == slot:
                self._holders[shard] = None
                self._delays[shard] = UNOPENED_TICKS

    def on_restart(self, slots: Sequence[int]) -> None:
        """An operator wants these slots to be restarted: one after another, as soon as all
        serve."""
        self._restarts += [slot for slot in slots if slot not in self._restarts]

    def on_drain_asked(self) -> Iterator[Action]:
        """A command wants the fleet to end. Given twice, it does not end a drain."""
        if not self._is_ending:
            yield from self.on_drain()

    def on_log_lost(self) -> Iterator[Action]:
        """Another gateway has taken the state log, or it is gone from the cluster: the fleet ends,
        or both would take it from each other for ever."""
        self._status = 1
        yield from self.on_drain_asked()

    def on_drain(self) -> Iterator[Action]:
        """The fleet is to end. The second time, it ends without a drain."""
        is_repeated, self._is_ending = self._is_ending, True
        for slot, one in enumerate(self._slots):
            if one.phase is not SlotPhase.VACANT and (is_repeated or not one.is_draining):
                one.is_draining = True
                yield DrainProcess(slot)
        yield from self._end_if_vacant()

    # -- shards ----------------------------------------------------------------------------------

    def _deal(self) -> Iterator[Action]:
        """Give each shard to a slot that serves, and to its home if that does."""
        loads = dict.fromkeys(
            (slot for slot, one in enumerate(self._slots) if one.phase is SlotPhase.SERVING), 0
        )
        orphans: list[int] = []
        owners = list(self._owners)
        for shard in range(self.shards):
            owner = self._find_owner(shard)
            if owner is None:
                orphans.append(shard)
            else:
                owners[shard] = owner
                loads[owner] = loads.get(owner, 0) + 1
        for shard in orphans:
            serving = [slot for slot in loads if self._slots[slot].phase is SlotPhase.SERVING]
            home = home_of(shard, self.slots)
            owners[shard] = min(serving, key=lambda slot: loads[slot], default=home)
            if serving:
                loads[owners[shard]] += 1
        if owners != self._owners:
            self._owners = owners
            yield AnnounceOwners(tuple(owners))
        yield from self._hand_out()

    def _find_owner(self, shard: int) -> int | None:
        """The slot that is to have the shard; None if any that serves may."""
        home, owner, holder = home_of(shard, self.slots), self._owners[shard], self._holders[shard]
        if holder is not None and self._slots[holder].phase is SlotPhase.STARTING:
            return holder
        is_served_elsewhere = owner != home and self._slots[owner].phase is SlotPhase.SERVING
        if self._slots[home].phase is SlotPhase.SERVING and not (
            is_served_elsewhere and self._slots[home].settle_ticks
        ):
            return home
        return owner if is_served_elsewhere else None

    def _hand_out(self) -> Iterator[OpenShards]:
        """Have shards opened that no process holds."""
        for slot, one in enumerate(self._slots):
            if one.phase is SlotPhase.SERVING and (shards := self._free_shards(slot)):
                self._hold(slot, shards)
                yield OpenShards(slot, shards)

    def _free_shards(self, slot: int) -> tuple[int, ...]:
        """The shards that the slot owns and no process holds, and that may be tried."""
        return tuple(
            shard
            for shard in range(self.shards)
            if self._owners[shard] == slot
            and self._holders[shard] is None
            and shard not in self._delays
        )

    def _hold(self, slot: int, shards: Sequence[int]) -> None:
        for shard in shards:
            self._holders[shard] = slot

    # -- processes -------------------------------------------------------------------------------

    def _begin_restart(self) -> Iterator[Action]:
        """Restart the next slot, if all serve and have their own shards."""
        serve = (one.phase is SlotPhase.SERVING and not one.settle_ticks for one in self._slots)
        is_at_rest = all(serve) and all(
            holder == home_of(shard, self.slots) for shard, holder in enumerate(self._holders)
        )
        if not (self._restarts and is_at_rest):
            return
        slot = self._restarts.popleft()
        self._slots[slot].phase = SlotPhase.LEAVING
        if self.slots > 1:
            yield CloseSharedPorts(slot)
        yield from self._deal()
        yield from self._drain_if_left(slot)

    def _drain_if_left(self, slot: int, ticks: int = 0) -> Iterator[DrainProcess]:
        """Drain a process once it has given up all shards that others can take, and LINGER_TICKS
        have passed since. `ticks` have passed since the previous call."""
        one = self._slots[slot]
        keeps = any(
            holder == slot != owner
            for holder, owner in zip(self._holders, self._owners, strict=True)
        )
        if one.phase is not SlotPhase.LEAVING or keeps or one.is_draining:
            return
        one.linger_ticks += ticks
        if one.linger_ticks >= LINGER_TICKS or self.slots == 1 or not self.shards:
            one.is_draining = True
            yield DrainProcess(slot)

    def _end_if_vacant(self) -> Iterator[EndFleet]:
        if all(one.phase is SlotPhase.VACANT for one in self._slots):
            yield EndFleet(self._status)

    def _start(self, slot: int) -> StartProcess:
        one = self._slots[slot]
        one.phase, one.silent_ticks, one.settle_ticks = SlotPhase.STARTING, 0, 0
        one.linger_ticks, one.is_draining = 0, False
        shards = self._free_shards(slot)
        self._hold(slot, shards)
        return StartProcess(slot, shards)
