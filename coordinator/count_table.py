"""Counts that follow from other tables, and are kept with them."""

from collections.abc import Iterable
from typing import TypeVar

from coordinator.table import Table

K = TypeVar("K")


class CountTable(Table[K, int]):
    """How often each key counts; one that does not count has no row."""

    __slots__ = ()

    def add(self, keys: Iterable[K]) -> None:
        """Each of these counts once more."""
        for key in keys:
            self.put(key, self.get(key, 0) + 1)

    def remove(self, keys: Iterable[K]) -> None:
        """Each of these, which were added before, counts once less."""
        for key in keys:
            count = self[key] - 1
            if count:
                self.put(key, count)
            else:
                self.drop(key)
