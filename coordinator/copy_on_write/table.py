"""A mapping with copy-on-write forks: a fork costs only what is written to it."""

from typing import ClassVar, Self, TypeVar, cast

from coordinator.copy_on_write.overlay import Overlay

K = TypeVar("K")
V = TypeVar("V")

COPIED_ROWS_MAX = 64
"""Up to this size, copying a table costs less than looking through an overlay."""


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
