"""Members by load, the number of partitions in their target.

An index kept with the target, so that an assignor finds members with more or fewer partitions
without a scan. Members of equal load are in the order in which they got their target.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Self

from coordinator.copy_on_write.table import Forkable, Table

_NO_MEMBERS: Table[str, None] = Table()


class Loads(Forkable):
    """The load of each member; every member has one, possibly 0."""

    __slots__ = ("_by_load", "_load_of", "_written")

    def __init__(self) -> None:
        self._load_of: Table[str, int] = Table()
        self._by_load: Table[int, Table[str, None]] = Table()
        self._written: set[int] = set()

    def fork(self) -> Self:
        twin = super().fork()
        twin._load_of, twin._written = self._load_of.fork(), set()
        return twin

    def put(self, member_id: str, load: int) -> None:
        """Set a member's load. The member sorts behind others of the same load."""
        self.drop(member_id)
        self._load_of.put(member_id, load)
        self._writable(load).put(member_id, None)

    def drop(self, member_id: str) -> None:
        """Remove a member if it is known."""
        load = self._load_of.get(member_id)
        if load is None:
            return
        self._load_of.drop(member_id)
        peers = self._writable(load)
        peers.drop(member_id)
        if not peers:
            self._by_load.drop(load)
            self._written.discard(load)

    def move(self, member_id: str, to: "Loads") -> int:
        """Move a member to other loads. Returns its load. Raises KeyError if it is not known."""
        load = self._load_of[member_id]
        self.drop(member_id)
        to.put(member_id, load)
        return load

    def at(self, load: int) -> Iterator[str]:
        """The members with this load."""
        return iter(self._by_load.get(load, _NO_MEMBERS))

    def above(self, load: int) -> Iterator[str]:
        """The members with a greater load, greatest first."""
        return chain.from_iterable(
            self.at(more) for more in sorted(self._by_load, reverse=True) if more > load
        )

    def below(self, load: int) -> Iterator[str]:
        """The members with a smaller load, greatest first."""
        return chain.from_iterable(
            self.at(less) for less in sorted(self._by_load, reverse=True) if less < load
        )

    def count_above(self, load: int) -> int:
        """The number of members with a greater load."""
        return sum(len(peers) for more, peers in self._by_load.items() if more > load)

    def get(self, member_id: str) -> int | None:
        """The member's load, None if it is not known."""
        return self._load_of.get(member_id)

    def heaviest(self) -> str:
        """A member with the greatest load. Raises ValueError if there is no member."""
        return next(self.at(max(self._by_load)))

    def lightest(self) -> str:
        """A member with the smallest load. Raises ValueError if there is no member."""
        return next(self.at(min(self._by_load)))

    def sizes(self) -> Iterable[int]:
        """The loads that occur."""
        return self._by_load.keys()

    def total(self) -> int:
        """The sum of all loads."""
        return sum(load * len(peers) for load, peers in self._by_load.items())

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_of)

    def __len__(self) -> int:
        return len(self._load_of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loads) and self._load_of == other._load_of

    __hash__ = None  # type: ignore[assignment]  # loads change

    def __repr__(self) -> str:
        return f"Loads({self._by_load!r})"

    def _writable(self, load: int) -> Table[str, None]:
        """The members with this load, as a table that this fork may change."""
        if load not in self._written:
            peers = self._by_load.get(load)
            self._by_load.put(load, Table() if peers is None else peers.fork())
            self._written.add(load)
        return self._by_load[load]
