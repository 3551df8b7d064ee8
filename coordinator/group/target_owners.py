"""The target by partition: the target owner of each, and the partitions without one.

An index kept with the target, so that an assignor finds the partitions of a member that left, or of
a topic that grew, without a scan.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from uuid import UUID

from coordinator.copy_on_write.table import Forkable, Table
from coordinator.interface.topics import Partition

BLOCK = 1_024
"""How many partitions of a topic share a row. A row per topic could be huge, because partition
numbers also come from clients, in the classic assignments that an upgrade takes over."""


class Owners(Forkable):
    """The owners. `_owned` has a row for each block of partitions with at least one owner: an
    integer with a bit for each owned partition."""

    __slots__ = ("_members", "_owned")

    def __init__(self) -> None:
        self._members: Table[Partition, str] = Table()
        self._owned: Table[tuple[UUID, int], int] = Table()

    def give(self, partitions: Collection[Partition], member_id: str) -> None:
        """Make the member the owner of these partitions, in place of any other."""
        for partition in partitions:
            self._members.put(partition, member_id)
        for block, bits in _places(partitions).items():
            self._owned.put(block, self._owned.get(block, 0) | bits)

    def take(self, partitions: Collection[Partition], member_id: str) -> None:
        """Remove the member as owner of these partitions. Their next owner may be set before: of
        two members between which a partition moves, either record may come first."""
        freed = [partition for partition in partitions if self._members.get(partition) == member_id]
        for partition in freed:
            self._members.drop(partition)
        for block, bits in _places(freed).items():
            owned = self._owned[block] & ~bits
            if owned:
                self._owned.put(block, owned)
            else:
                self._owned.drop(block)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._members

    def __getitem__(self, partition: Partition) -> str:
        """The target owner. Raises KeyError if there is none."""
        return self._members[partition]

    def missing(self, topic_id: UUID, count: int) -> Iterator[Partition]:
        """The partitions below `count` without an owner, ascending."""
        for number in range(0, count, BLOCK):
            size = min(BLOCK, count - number)
            owned = self._owned.get((topic_id, number // BLOCK), 0)
            for at in _bits(~owned & ((1 << size) - 1)):
                yield Partition(topic_id, number + at)

    def beyond(self, counts: Mapping[UUID, int]) -> Iterator[Partition]:
        """Owned partitions of topics that are not in `counts`, or not below their count."""
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
    """The bits of these partitions by block."""
    places: dict[tuple[UUID, int], int] = {}
    for topic_id, number in partitions:
        block, at = divmod(number, BLOCK)
        places[topic_id, block] = places.get((topic_id, block), 0) | 1 << at
    return places


def _bits(number: int) -> Iterator[int]:
    """The positions of the set bits, ascending."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
