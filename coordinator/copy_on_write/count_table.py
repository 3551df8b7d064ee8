"""Counts derived from other tables and updated with them."""

from collections.abc import Iterable
from typing import TypeVar

from coordinator.copy_on_write.overlay import Overlay
from coordinator.copy_on_write.table import Table

K = TypeVar("K")


class CountTable(Table[K, int]):
    """A count per key. A key with count zero has no row."""

    __slots__ = ()

    def add(self, keys: Iterable[K]) -> None:
        """Increase the count of each key by one."""
        for key in keys:
            self.put(key, self.get(key, 0) + 1)

    def remove(self, keys: Iterable[K]) -> None:
        """Decrease the count of each key by one. Each was added before."""
        for key in keys:
            count = self[key] - 1
            if count:
                self.put(key, count)
            else:
                self.drop(key)


class _CountOverlay(Overlay[K, int]):
    __slots__ = ()

    add, remove = CountTable.add, CountTable.remove


CountTable.overlay = _CountOverlay
