"""The next deadline of a group, found without looking at all of them."""

import heapq
from collections.abc import Mapping

from coordinator.volatile import DeadlineCleared, DeadlineKey, DeadlineSet


class DeadlineQueue:
    """An index over the deadlines of a state; entries that no longer hold are dropped lazily."""

    __slots__ = ("_heap",)

    def __init__(self, deadlines: Mapping[DeadlineKey, int]) -> None:
        self._heap = [(at_ms, key) for key, at_ms in deadlines.items()]
        heapq.heapify(self._heap)

    def note(self, record: DeadlineSet | DeadlineCleared) -> None:
        if isinstance(record, DeadlineSet):
            heapq.heappush(self._heap, (record.at_ms, record.key))

    def next_ms(self, deadlines: Mapping[DeadlineKey, int]) -> int | None:
        """When the next deadline is due, None if there is none."""
        while self._heap:
            at_ms, key = self._heap[0]
            if deadlines.get(key) == at_ms:
                return at_ms
            heapq.heappop(self._heap)
        return None
