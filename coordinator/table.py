"""A mapping whose fork costs nothing, and then what is written to it."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Generic, Self, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Table(Mapping[K, V], Generic[K, V]):
    """Rows of one kind. `handle` decides on forks of the tables, `apply` writes the real ones.

    A fork lays its own rows over those it borrowed, and hides what it dropped of them; it iterates
    in the order that a dict written alike would have. The original must not be written while a
    fork is in use: the engine drops its draft before it applies the records.
    """

    __slots__ = ("_borrowed", "_hidden", "_own")

    def __init__(self, rows: Mapping[K, V] | None = None) -> None:
        self._own: dict[K, V] = dict(rows or {})
        self._borrowed: dict[K, V] = {}
        self._hidden: set[K] = set()

    def fork(self) -> Self:
        """A table with the same rows, to write without the original noticing."""
        twin = type(self).__new__(type(self))
        if self._borrowed:
            twin._own, twin._borrowed = self._own.copy(), self._borrowed
            twin._hidden = self._hidden.copy()
        else:
            twin._own, twin._borrowed, twin._hidden = {}, self._own, set()
        return twin

    def put(self, key: K, value: V) -> None:
        """Add or replace one row."""
        self._own[key] = value

    def drop(self, key: K) -> None:
        """Remove one row, if it is there."""
        self._own.pop(key, None)
        if key in self._borrowed:
            self._hidden.add(key)

    def clear(self) -> None:
        """Remove every row."""
        self._own, self._borrowed, self._hidden = {}, {}, set()

    def __getitem__(self, key: K) -> V:
        if key in self._own:
            return self._own[key]
        if key in self._hidden:
            raise KeyError(key)
        return self._borrowed[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        if key in self._own:
            return self._own[key]
        if key in self._hidden:
            return default
        return self._borrowed.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._own or (key in self._borrowed and key not in self._hidden)

    def __iter__(self) -> Iterator[K]:
        return chain((k for k in self._borrowed if k not in self._hidden), self._added())

    def __len__(self) -> int:
        return len(self._borrowed) - len(self._hidden) + sum(1 for _ in self._added())

    def keys(self) -> KeysView[K]:
        return self._rows().keys()

    def values(self) -> ValuesView[V]:
        return self._rows().values()

    def items(self) -> ItemsView[K, V]:
        return self._rows().items()

    def _rows(self) -> dict[K, V]:
        """All rows; looking at all of them is the one thing that may cost as much."""
        if not self._borrowed:
            return self._own
        if not (self._own or self._hidden):
            return self._borrowed
        kept = {key: value for key, value in self._borrowed.items() if key not in self._hidden}
        return {**kept, **self._own}

    def _added(self) -> Iterator[K]:
        """Keys of own rows that replace no borrowed one."""
        return (k for k in self._own if k not in self._borrowed or k in self._hidden)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._rows() == other._rows()

    __hash__ = None  # type: ignore[assignment]  # a table changes

    def __repr__(self) -> str:
        return f"Table({self._rows()!r})"
