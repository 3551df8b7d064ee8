"""Which process of a fleet has which groups, and under which ids clients find it.

A group belongs to a shard by the hash of its id, for ever; a shard belongs to a slot as long as the
fleet runs, and a slot is one process at a time. Clients find a process by its *coordinator nodes*:
one for each broker, because a client's connection leads to one broker. These stand in Metadata next
to the brokers and lead no partition. A group's coordinator node has one address for the whole life
of the fleet, because clients do not notice when a node's address changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

SHARDS = 16
"""The shards of a new state."""
BROKER_ID_MAX = 999_999
"""The largest broker id that leaves room for the ids of coordinator nodes."""
ID_DIGITS = 10
"""The digits of the id of a coordinator node."""
_FIRST_ID = 1_000_000_000
_IDS_PER_SLOT = BROKER_ID_MAX + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """The view of one process."""

    slot: int
    """The process's own, from 0."""
    slots: int
    shards: int
    """Fixed when the state is made."""

    @property
    def own_shards(self) -> range:
        """The shards of this process."""
        return range(self.slot, self.shards, self.slots)

    def slot_of(self, group_id: str) -> int:
        """The slot that has the group."""
        return shard_of(group_id, self.shards) % self.slots

    def owns(self, group_id: str) -> bool:
        """Whether this process has the group."""
        return self.slot_of(group_id) == self.slot

    def coordinator_ids(self, broker_id: int) -> Iterator[int]:
        """The ids of the coordinator nodes that lead to this broker, in the order of the slots."""
        for slot in range(self.slots):
            yield coordinator_id(slot, broker_id)

    def node_ids(self, broker_id: int) -> tuple[int, ...]:
        """The ids of all nodes that lead to this broker: its own, and the coordinator nodes."""
        return (broker_id, *self.coordinator_ids(broker_id))


def shard_of(group_id: str, shards: int) -> int:
    """The shard of a group. Must never change: the shards on disk depend on it."""
    return crc32(group_id.encode("utf-8", "surrogatepass")) % shards


def coordinator_id(slot: int, broker_id: int) -> int:
    """The id of the coordinator node of a slot that leads to this broker."""
    return _FIRST_ID + slot * _IDS_PER_SLOT + broker_id


def is_coordinator(node_id: int) -> bool:
    """Whether this is the id of a coordinator node."""
    return node_id >= _FIRST_ID


def broker_of(node_id: int) -> int:
    """The broker that a coordinator node leads to. A broker leads to itself."""
    return (node_id - _FIRST_ID) % _IDS_PER_SLOT if is_coordinator(node_id) else node_id
