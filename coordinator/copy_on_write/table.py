"""State with copy-on-write forks. The fork of an object costs only what is read and written on it,
that of a table only what is written to it."""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

COPIED_ROWS_MAX = 64
"""Up to this size, copying a table costs less than looking through an overlay."""

_MISSING: Any = object()


class Forkable:
    """An object with slots, which hold immutable values, tables, and other forkable objects.

    A fork copies each field at its first use, because most rules use few. The original must not be
    written while a fork is in use.
    """

    __slots__ = ("_original",)
    _original: Self
    Fork: ClassVar[type[Any]]
    """The class of the forks."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not issubclass(cls, _LooksThrough):
            place = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.Fork"}
            cls.Fork = type("Fork", (_LooksThrough, cls), {"__slots__": (), **place})
            cls.Fork.__slots__ = cls.__slots__  # for those who look for its fields

    def fork(self) -> Self:
        """A lazy copy to decide on, independent of the original."""
        twin: Self = object.__new__(self.Fork)
        twin._original = self
        return twin


class _LooksThrough:
    """What only forks have: with it, Python finds every attribute ten times as slowly."""

    __slots__ = ()

    if not TYPE_CHECKING:  # so that the type checker still reports unknown attributes

        def __getattr__(self, name: str) -> Any:
            """Called only for slots that are still empty."""
            if name == "_original":
                raise AttributeError(name)
            field = getattr(self._original, name)
            fork = getattr(field, "fork", None)
            if fork is not None:
                field = fork()
            setattr(self, name, field)
            return field


class Overlay(Mapping[K, V], Generic[K, V]):
    """The fork of a large table. It overlays the borrowed rows with its own and hides those that it
    dropped. It iterates in the order of an equivalent dict. The borrowed rows must not be written
    while it is in use: the engine discards the forks of a step before it applies the records.
    """

    __slots__ = ("_borrowed", "_hidden", "_own", "_replaced_count")

    def __init__(self, borrowed: Mapping[K, V]) -> None:
        self._own: dict[K, V] = {}
        self._borrowed = borrowed
        self._replaced_count = 0
        self._hidden: set[K] = set()

    def fork(self) -> Self:
        """An overlay with the same rows, independent of the original."""
        twin = type(self)(self._borrowed)
        twin._own, twin._hidden = self._own.copy(), self._hidden.copy()
        twin._replaced_count = self._replaced_count
        return twin

    def put(self, key: K, value: V) -> None:
        """Add or replace one row."""
        if key not in self._own and self._shows(key):
            self._replaced_count += 1
        self._own[key] = value

    def drop(self, key: K) -> None:
        """Remove one row if it exists."""
        was_own = self._own.pop(key, _MISSING) is not _MISSING
        if self._shows(key):
            self._replaced_count -= was_own
            self._hidden.add(key)

    def clear(self) -> None:
        """Remove every row."""
        self._own, self._borrowed = {}, {}
        self._replaced_count, self._hidden = 0, set()

    def __getitem__(self, key: K) -> V:
        row: V = self._own.get(key, _MISSING)
        if row is not _MISSING:
            return row
        if key in self._hidden:
            raise KeyError(key)
        return self._borrowed[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        row: V | D = self._own.get(key, _MISSING)
        if row is not _MISSING:
            return row
        if key in self._hidden:
            return default
        return self._borrowed.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._own or self._shows(key)

    def __iter__(self) -> Iterator[K]:
        borrowed = (key for key in self._borrowed if key not in self._hidden)
        return chain(borrowed, (key for key in self._own if not self._shows(key)))

    def __len__(self) -> int:
        gone = len(self._hidden) + self._replaced_count
        return len(self._borrowed) - gone + len(self._own)

    def keys(self) -> KeysView[K]:
        return self.copy().keys()

    def values(self) -> ValuesView[V]:
        return self.copy().values()

    def items(self) -> ItemsView[K, V]:
        return self.copy().items()

    def copy(self) -> dict[K, V]:
        """All rows. This costs the size of the table."""
        hidden = self._hidden
        borrowed = {key: value for key, value in self._borrowed.items() if key not in hidden}
        return {**borrowed, **self._own}

    def _shows(self, key: object) -> bool:
        """Whether a borrowed row has this key and was not dropped. An own row may replace it."""
        return key in self._borrowed and key not in self._hidden

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self.copy() == dict(other)

    __hash__ = None  # type: ignore[assignment]  # a table changes

    def __repr__(self) -> str:
        return repr(self.copy())


class Table(dict[K, V]):
    """Rows of one kind. `handle` decides on forks of the tables; `apply` writes the originals.

    The fork of a small table is a copy, that of a large one an `Overlay`, during whose use the
    original must not be written.
    """

    __slots__ = ()

    overlay: ClassVar[type[Overlay]] = Overlay  # type: ignore[type-arg]  # of any rows

    def fork(self) -> Self:
        """A table with the same rows, independent of the original. It has the methods of this class
        and of `Mapping`, and no others of `dict`."""
        if len(self) <= COPIED_ROWS_MAX:
            return type(self)(self)
        return cast("Self", self.overlay(self))

    put = dict.__setitem__
    """Add or replace one row."""

    def drop(self, key: K) -> None:
        """Remove one row if it exists."""
        self.pop(key, None)


class CountTable(Table[K, int]):
    """Counts derived from other tables, and updated with them. A key with count zero has no row."""

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
