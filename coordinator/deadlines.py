"""The next deadline of a group, and those that are due, found without looking at all of them."""

import heapq
from collections.abc import Iterator, Mapping

from coordinator.volatile import DeadlineKey, DeadlineSet

ENTRIES_PER_DEADLINE_MAX = 16
"""Each restart of a deadline leaves an entry behind; with more of them the queue is made anew."""


class DeadlineQueue:
    """An index over the deadlines of a state; entries that no longer hold are dropped lazily."""

    __slots__ = ("_heap",)

    def __init__(self, deadlines: Mapping[DeadlineKey, int]) -> None:
        self._rebuild(deadlines)

    def __len__(self) -> int:
        return len(self._heap)

    def copy(self) -> "DeadlineQueue":
        """The same entries, to change without this one noticing."""
        twin = DeadlineQueue({})
        twin._heap = self._heap.copy()
        return twin

    def note(self, record: DeadlineSet) -> None:
        """Take in a deadline; that it was cleared or moved is found out when its turn comes."""
        heapq.heappush(self._heap, (record.at_ms, record.key))

    def next_ms(self, deadlines: Mapping[DeadlineKey, int]) -> int | None:
        """When the next deadline is due, None if there is none."""
        if len(self._heap) > ENTRIES_PER_DEADLINE_MAX * (len(deadlines) + 1):
            self._rebuild(deadlines)
        while self._heap:
            at_ms, key = self._heap[0]
            if deadlines.get(key) == at_ms:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def due(self, deadlines: Mapping[DeadlineKey, int], now_ms: int) -> list[DeadlineKey]:
        """Those that ran out by now, in the order in which they did. Changes nothing."""
        reached = {entry for entry in self._reached(now_ms) if deadlines.get(entry[1]) == entry[0]}
        return [key for _, key in sorted(reached)]

    def _reached(self, now_ms: int) -> Iterator[tuple[int, DeadlineKey]]:
        """In a heap no entry comes before the one above it: below a later one, all are later."""
        below = [0]
        while below:
            position = below.pop()
            if position < len(self._heap) and self._heap[position][0] <= now_ms:
                yield self._heap[position]
                below += (2 * position + 1, 2 * position + 2)

    def _rebuild(self, deadlines: Mapping[DeadlineKey, int]) -> None:
        self._heap = [(at_ms, key) for key, at_ms in deadlines.items()]
        heapq.heapify(self._heap)
