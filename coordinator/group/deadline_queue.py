"""Finds the next deadline of a group, and the due ones, without a scan of all deadlines."""

import heapq
from collections.abc import Iterator, Mapping

from coordinator.interface.volatile_records import DeadlineKey, DeadlineSet

ENTRIES_PER_DEADLINE_MAX = 16
"""Each restart of a deadline leaves a stale entry. Beyond this ratio the queue is rebuilt."""


class DeadlineQueue:
    """An index over the deadlines of a state. Stale entries are dropped lazily."""

    __slots__ = ("_heap",)

    def __init__(self, deadlines: Mapping[DeadlineKey, int]) -> None:
        self._rebuild(deadlines)

    def __len__(self) -> int:
        return len(self._heap)

    def record(self, record: DeadlineSet, deadlines: Mapping[DeadlineKey, int]) -> None:
        """Add a deadline. If it is later cleared or moved, its entry becomes stale."""
        heapq.heappush(self._heap, (record.at_ms, record.key))
        if len(self._heap) > ENTRIES_PER_DEADLINE_MAX * (len(deadlines) + 1):
            self._rebuild(deadlines)

    def next_ms(self, deadlines: Mapping[DeadlineKey, int]) -> int | None:
        """The time of the next deadline, or None."""
        while self._heap:
            at_ms, key = self._heap[0]
            if deadlines.get(key) == at_ms:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def due(self, deadlines: Mapping[DeadlineKey, int], now_ms: int) -> list[DeadlineKey]:
        """The deadlines that have expired, in order. Changes nothing."""
        reached = {
            entry for entry in self._entries_until(now_ms) if deadlines.get(entry[1]) == entry[0]
        }
        return [key for _, key in sorted(reached)]

    def _entries_until(self, now_ms: int) -> Iterator[tuple[int, DeadlineKey]]:
        """The entries up to `now_ms`. In a heap, all children of a later entry are later too."""
        below = [0]
        while below:
            position = below.pop()
            if position < len(self._heap) and self._heap[position][0] <= now_ms:
                yield self._heap[position]
                below += (2 * position + 1, 2 * position + 2)

    def _rebuild(self, deadlines: Mapping[DeadlineKey, int]) -> None:
        self._heap = [(at_ms, key) for key, at_ms in deadlines.items()]
        heapq.heapify(self._heap)
