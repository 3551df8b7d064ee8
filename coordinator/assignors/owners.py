"""The target seen from the partitions: who is to have each, and which are meant for nobody.

An index that is kept with the target, so that the partitions of a member that left, or of a topic
that grew, are found without a look at all the others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from uuid import UUID

from coordinator.forkable import Forkable
from coordinator.table import Table
from coordinator.topics import Partition

BLOCK = 1_024
"""How many partitions of a topic share a row. Not all of a topic's do: numbers come from clients
as well, through the classic assignments that a conversion takes over, and may be huge."""


class Owners(Forkable):
    """`_owned` has a row for each block of a topic's partitions in which some have an owner: an
    integer whose bits say which."""

    __slots__ = ("_members", "_owned")

    def __init__(self) -> None:
        self._members: Table[Partition, str] = Table()
        self._owned: Table[tuple[UUID, int], int] = Table()

    def give(self, partitions: Collection[Partition], member_id: str) -> None:
        """The member is to have these, whoever was before."""
        for partition in partitions:
            self._members.put(partition, member_id)
        for block, bits in _places(partitions).items():
            self._owned.put(block, self._owned.get(block, 0) | bits)

    def take(self, partitions: Collection[Partition], member_id: str) -> None:
        """The member is no longer to have these. It may be told after their next owner is: of two
        members between which a partition moves, either may be written first."""
        mine = [partition for partition in partitions if self._members.get(partition) == member_id]
        for partition in mine:
            self._members.drop(partition)
        for block, bits in _places(mine).items():
            owned = self._owned[block] & ~bits
            if owned:
                self._owned.put(block, owned)
            else:
                self._owned.drop(block)

    def __getitem__(self, partition: Partition) -> str:
        """Who is to have it. Raises KeyError if nobody is."""
        return self._members[partition]

    def missing(self, topic_id: UUID, count: int) -> Iterator[Partition]:
        """The partitions below `count` that nobody is to have, ascending."""
        for number in range(0, count, BLOCK):
            size = min(BLOCK, count - number)
            owned = self._owned.get((topic_id, number // BLOCK), 0)
            for at in _bits(~owned & ((1 << size) - 1)):
                yield Partition(topic_id, number + at)

    def beyond(self, counts: Mapping[UUID, int]) -> Iterator[Partition]:
        """Owned partitions of other topics than these, and those not below their counts."""
        for (topic_id, block), owned in self._owned.items():
            first = block * BLOCK
            count = counts.get(topic_id, 0) if first >= 0 else first
            allowed = min(max(count - first, 0), BLOCK)
            for at in _bits(owned >> allowed):
                yield Partition(topic_id, first + allowed + at)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Owners)
            and self._members == other._members
            and self._owned == other._owned
        )

    __hash__ = None  # type: ignore[assignment]  # owners change

    def __repr__(self) -> str:
        return f"Owners({self._members!r})"


def _places(partitions: Iterable[Partition]) -> dict[tuple[UUID, int], int]:
    """The bits of these partitions, block by block."""
    places: dict[tuple[UUID, int], int] = {}
    for topic_id, number in partitions:
        block, at = divmod(number, BLOCK)
        places[topic_id, block] = places.get((topic_id, block), 0) | 1 << at
    return places


def _bits(number: int) -> Iterator[int]:
    """Which bits are set, ascending."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
