"""What the parent of a fleet does with its processes, decided without IO.

The first process starts alone: what keeps it from starting would keep the others as well, and one
line says so. Later a process that ends is started again in its slot, because its ports, and the ids
that clients know, belong to the slot. A process that is silent is killed, and its end is waited for
before the next one takes its shards.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

TICK_S = 0.5
"""How often each process gives a sign of life, and how often the parent counts them."""
SILENT_TICKS_MAX = 10
"""Ticks without a sign of life. Ticks and not seconds: a pause of the whole machine is one tick."""
DELAY_TICKS_MAX = 20
"""The longest delay before a process that cannot start is tried again."""


class SlotPhase(Enum):
    """What the process of a slot does."""

    VACANT = auto()
    """There is none yet, or it has ended and is about to be started again."""
    STARTING = auto()
    SERVING = auto()
    KILLED = auto()
    """Killed because it was silent, and not ended yet."""


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start a process in this slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class KillProcess:
    """End the process of this slot with SIGKILL."""

    slot: int


@dataclass(frozen=True, slots=True)
class DrainProcess:
    """Tell the process of this slot to drain; told twice, it ends without."""

    slot: int


@dataclass(frozen=True, slots=True)
class EndFleet:
    """No process is left: exit with this status."""

    status: int


Action = StartProcess | KillProcess | DrainProcess | EndFleet


@dataclass(slots=True)
class _Slot:
    phase: SlotPhase = SlotPhase.VACANT
    silent_ticks: int = 0
    failures: int = 0
    """Processes in a row that ended before they served."""
    delay_ticks: int = 0
    """Before the next one is started."""
    is_draining: bool = False


@dataclass(slots=True)
class Supervision:
    """The processes of a fleet."""

    slots: int
    _slots: list[_Slot] = field(init=False)
    _is_complete: bool = False
    """Whether all slots have served."""
    _is_ending: bool = False
    _status: int = 0

    def __post_init__(self) -> None:
        self._slots = [_Slot() for _ in range(self.slots)]

    @property
    def is_complete(self) -> bool:
        """Whether every slot has had a process that served."""
        return self._is_complete

    def begin(self) -> Iterator[Action]:
        """Start the first process."""
        yield self._start(0)

    def on_beat(self, slot: int) -> None:
        """A process has given a sign of life."""
        self._slots[slot].silent_ticks = 0

    def on_serving(self, slot: int) -> Iterator[Action]:
        """A process serves clients."""
        self._slots[slot].phase = SlotPhase.SERVING
        self._slots[slot].failures = 0
        if self._is_complete or self._is_ending:
            return
        if slot == 0:
            for other in range(1, self.slots):
                yield self._start(other)
        self._is_complete = all(one.phase is SlotPhase.SERVING for one in self._slots)

    def on_ended(self, slot: int, status: int) -> Iterator[Action]:
        """A process has ended."""
        was, ended = self._slots[slot].phase, self._slots[slot]
        ended.phase = SlotPhase.VACANT
        if self._is_ending:
            self._status = max(self._status, min(status, 1))
            yield from self._end_if_vacant()
        elif not self._is_complete:  # the fleet could not be started
            self._status = min(status, 1)
            yield from self.on_drain()
        elif was is SlotPhase.STARTING:
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

    def on_draining(self, slot: int) -> Iterator[Action]:
        """A process drains by itself, because a command has told it to: so do the others."""
        self._slots[slot].is_draining = True
        if not self._is_ending:
            yield from self.on_drain()

    def on_drain(self) -> Iterator[Action]:
        """The fleet is to end. The second time, it ends without a drain."""
        is_repeated, self._is_ending = self._is_ending, True
        for slot, one in enumerate(self._slots):
            if one.phase is not SlotPhase.VACANT and (is_repeated or not one.is_draining):
                one.is_draining = True
                yield DrainProcess(slot)
        yield from self._end_if_vacant()

    def _end_if_vacant(self) -> Iterator[EndFleet]:
        if all(one.phase is SlotPhase.VACANT for one in self._slots):
            yield EndFleet(self._status)

    def _start(self, slot: int) -> StartProcess:
        self._slots[slot].phase = SlotPhase.STARTING
        self._slots[slot].silent_ticks = 0
        return StartProcess(slot)
