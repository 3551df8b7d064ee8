"""The next deadline of a group, found without looking at all of them."""

import heapq
from collections.abc import Mapping

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

    def _rebuild(self, deadlines: Mapping[DeadlineKey, int]) -> None:
        self._heap = [(at_ms, key) for key, at_ms in deadlines.items()]
        heapq.heapify(self._heap)
