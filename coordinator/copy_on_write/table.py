"""A mapping with copy-on-write forks: a fork costs only what is written to it."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Any, Generic, Self, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_MISSING: Any = object()


class Table(Mapping[K, V], Generic[K, V]):
    """Rows of one kind. `handle` decides on forks of the tables; `apply` writes the originals.

    A fork overlays the borrowed rows with its own and hides the rows that it dropped. It iterates
    in the order of an equivalent dict. The original must not be written while a fork is in use: the
    engine discards the forks of a step before it applies the records.
    """

    __slots__ = ("_borrowed", "_hidden", "_own", "_replaced_count")

    def __init__(self, rows: Mapping[K, V] | None = None) -> None:
        self._own: dict[K, V] = dict(rows or {})
        self._borrowed: dict[K, V] = {}
        self._replaced_count = 0
        self._hidden: set[K] | None = None

    def fork(self) -> Self:
        """A table with the same rows, independent of the original."""
        twin = type(self).__new__(type(self))
        if self._borrowed:
            twin._own, twin._borrowed = self._own.copy(), self._borrowed
            twin._replaced_count = self._replaced_count
            twin._hidden = set(self._hidden) if self._hidden else None
        else:
            twin._own, twin._borrowed = {}, self._own
            twin._replaced_count, twin._hidden = 0, None
        return twin

    def put(self, key: K, value: V) -> None:
        """Add or replace one row."""
        if self._borrowed and key not in self._own and self._shows(key):
            self._replaced_count += 1
        self._own[key] = value

    def drop(self, key: K) -> None:
        """Remove one row if it exists."""
        was_own = self._own.pop(key, _MISSING) is not _MISSING
        if self._borrowed and self._shows(key):
            self._replaced_count -= was_own
            if self._hidden is None:
                self._hidden = set()
            self._hidden.add(key)

    def clear(self) -> None:
        """Remove every row."""
        self._own, self._borrowed = {}, {}
        self._replaced_count, self._hidden = 0, None

    def __getitem__(self, key: K) -> V:
        row: V = self._own.get(key, _MISSING)
        if row is not _MISSING:
            return row
        if self._hidden and key in self._hidden:
            raise KeyError(key)
        return self._borrowed[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        if not self._borrowed:  # the original: heartbeats look nowhere else
            return self._own.get(key, default)
        row: V | D = self._own.get(key, _MISSING)
        if row is not _MISSING:
            return row
        if self._hidden and key in self._hidden:
            return default
        return self._borrowed.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._own or (bool(self._borrowed) and self._shows(key))

    def __iter__(self) -> Iterator[K]:
        hidden = self._hidden or ()
        kept = (key for key in self._borrowed if key not in hidden)
        return chain(kept, (key for key in self._own if not self._shows(key)))

    def __bool__(self) -> bool:
        return bool(self._own) or (bool(self._borrowed) and len(self) > 0)

    def __len__(self) -> int:
        if not self._borrowed:
            return len(self._own)
        gone = len(self._hidden or ()) + self._replaced_count
        return len(self._borrowed) - gone + len(self._own)

    def keys(self) -> KeysView[K]:
        return self._rows().keys()

    def values(self) -> ValuesView[V]:
        return self._rows().values()

    def items(self) -> ItemsView[K, V]:
        return self._rows().items()

    def copy(self) -> dict[K, V]:
        """All rows. Hashes no key again, which costs most of `dict(table.items())`."""
        return self._rows().copy()

    def _shows(self, key: object) -> bool:
        """Whether a borrowed row has this key and was not dropped. An own row may replace it."""
        return key in self._borrowed and not (self._hidden and key in self._hidden)

    def _rows(self) -> dict[K, V]:
        """All rows. This costs the size of the table."""
        if not self._borrowed:
            return self._own
        if not (self._own or self._hidden):
            return self._borrowed
        hidden = self._hidden or ()
        kept = {key: value for key, value in self._borrowed.items() if key not in hidden}
        return {**kept, **self._own}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._rows() == other._rows()

    __hash__ = None  # type: ignore[assignment]  # a table changes

    def __repr__(self) -> str:
        return f"Table({self._rows()!r})"
