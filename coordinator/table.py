"""A mapping whose fork is free until one of the two is written."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Generic, Self, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Table(Mapping[K, V], Generic[K, V]):
    """Rows of one kind. `handle` decides on forks of the tables, `apply` writes the real ones.

    A fork borrows the rows and copies them at its first write. The original must not be written
    while a fork is in use: the engine drops its draft before it applies the records.
    """

    __slots__ = ("_borrowed", "_rows")

    def __init__(self, rows: Mapping[K, V] | None = None) -> None:
        self._rows: dict[K, V] = dict(rows or {})
        self._borrowed = False

    def fork(self) -> Self:
        """A table with the same rows, to write without the original noticing."""
        twin = type(self).__new__(type(self))
        twin._rows = self._rows
        twin._borrowed = True
        return twin

    def put(self, key: K, value: V) -> None:
        """Add or replace one row."""
        self._own()
        self._rows[key] = value

    def drop(self, key: K) -> None:
        """Remove one row, if it is there."""
        if key in self._rows:
            self._own()
            del self._rows[key]

    def clear(self) -> None:
        """Remove every row."""
        self._rows = {}
        self._borrowed = False

    def _own(self) -> None:
        if self._borrowed:
            self._rows = dict(self._rows)
            self._borrowed = False

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def keys(self) -> KeysView[K]:
        return self._rows.keys()

    def values(self) -> ValuesView[V]:
        return self._rows.values()

    def items(self) -> ItemsView[K, V]:
        return self._rows.items()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]  # a table changes

    def __repr__(self) -> str:
        return f"Table({self._rows!r})"
