"""The simulated state log of the group: durable batches, one writer at a time.

The log may be slow, fail, or leave a write in doubt. A gateway that takes it fences the earlier
ones, whose writes fail from then on.
"""

from collections.abc import Iterable, Sequence

from coordinator.interface.records import DurableRecord
from gateway.hosting.inputs import Damage
from tests.simulation.replay import compact_log
from tests.simulation.world import World

WRITE_MS_MAX = 4
SLOW_WRITE_MS_MAX = 1_200

Batch = tuple[DurableRecord, ...]


class SimulatedLog:
    """A batch has the records of one decision. Those of one write are stored together."""

    def __init__(self, world: World) -> None:
        self.batches: list[Batch] = []
        self.failure_rate = 0.0
        self.doubt_rate = 0.0
        """The share of writes with an unknown outcome."""
        self.slow_rate = 0.0
        self._world = world
        self._writer = 0
        self._compacted = 0
        """How many batches fewer there are since they were compacted."""
        self._has_compacted = False
        """Whether the first of the batches is what compaction has left."""

    def take(self) -> int:
        """Fence all earlier writers. Returns the number of the new one."""
        self._writer += 1
        return self._writer

    def is_owned_by(self, writer: int) -> bool:
        """Whether no other gateway has taken the log since."""
        return writer == self._writer

    def delay_ms(self) -> int:
        """How long the next write is on its way."""
        is_slow = self.slow_rate and self._world.chance(self.slow_rate)
        return self._world.between(0, SLOW_WRITE_MS_MAX if is_slow else WRITE_MS_MAX)

    def append(self, writer: int, batches: Iterable[Batch]) -> Damage | None:
        """Store the batches, all or none. Returns what a failure leaves behind."""
        world = self._world
        if not self.is_owned_by(writer):
            return Damage.NONE
        if self.failure_rate and world.chance(self.failure_rate):
            world.trace("log", "cannot be written")
            return Damage.NONE
        is_in_doubt = self.doubt_rate and world.chance(self.doubt_rate)
        if is_in_doubt:
            is_written = world.chance(0.5)
            world.trace("log", f"is in doubt; it {'has' if is_written else 'lacks'} the batch")
            world.counts["batches in doubt"] += 1
            if not is_written:
                return Damage.UNSURE
        self.batches += [batch for batch in batches if batch]
        return Damage.UNSURE if is_in_doubt else None

    def fails_to_read(self) -> bool:
        """Whether a read fails now."""
        return bool(self.failure_rate) and self._world.chance(self.failure_rate)

    @property
    def batches_stored(self) -> int:
        """How many batches were ever stored."""
        return self._compacted + len(self.batches)

    def since(self, stored: int) -> Sequence[Batch] | None:
        """The batches after this many; None if some of them were compacted."""
        first = stored - self._compacted
        return self.batches[first:] if first >= self._has_compacted else None

    def records(self) -> Sequence[DurableRecord]:
        """All records, in the order of writing."""
        return [record for batch in self.batches for record in batch]

    def compact(self) -> None:
        """Compact a random part of the log."""
        cut = self._world.between(0, len(self.batches))
        compact = tuple(compact_log(record for batch in self.batches[:cut] for record in batch))
        self.batches[:cut] = [compact] if compact else []
        if cut:
            self._has_compacted = bool(compact)
            self._compacted += cut - self._has_compacted
