"""Which process of a fleet has which groups, and under which ids clients find it.

A group belongs to a shard by the hash of its id, for ever; a shard belongs to a slot, and a slot is
one process at a time. While a process ends, others serve its shards. Clients find a process by its
*coordinator nodes*: one for each broker, because a client's connection leads to one broker. These
stand in Metadata next to the brokers and lead no partition. A group moves to another coordinator
node, and never does a coordinator node move to another address, because clients do not notice that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from zlib import crc32

SHARDS = 16
"""The shards of a new state."""
BROKER_ID_MAX = 999_999
"""The largest broker id that leaves room for the ids of coordinator nodes."""
ID_DIGITS = 10
"""The digits of the id of a coordinator node."""
NO_SLOT = -1
"""A value in place of a slot: no process has it."""
_FIRST_ID = 1_000_000_000
_IDS_PER_SLOT = BROKER_ID_MAX + 1


@dataclass(slots=True, kw_only=True, eq=False)
class FleetMember:
    """The view of one process. Its parent says who has which shard: a process's own ones, unless
    another one serves them because that one ends."""

    slot: int
    """The process's own, from 0."""
    slots: int
    shards: int
    """Fixed when the state is made."""
    owners: list[int] = field(default_factory=list)
    """The slot that has each shard, or is about to; unless a table says otherwise, each slot has
    its own shards."""
    serving: set[int] = field(default_factory=set)
    """The shards that this process has and has opened."""

    def __post_init__(self) -> None:
        if not self.owners:
            self.owners = [home_of(shard, self.slots) for shard in range(self.shards)]
        if not self.serving:
            self.serving = set(self.own_shards)

    @property
    def process(self) -> int:
        """The number of the process on its machine."""
        return self.slot

    @property
    def processes(self) -> int:
        """How many processes the machine has."""
        return self.slots

    def process_in(self, slot: int) -> int | None:
        """The process of this machine that has a slot; None if none of them has it."""
        return slot

    def process_of(self, group_id: str) -> int | None:
        """The process of this machine that has the group; None if none of them has it."""
        return self.process_in(self.slot_of(group_id))

    def name_owner(self, group_id: str) -> str:
        """A description of the process that has the group."""
        return f"process {self.slot_of(group_id)} of the gateway"

    def other_slots(self) -> Iterator[int]:
        """The slots of all others that may have groups."""
        return (slot for slot in range(self.slots) if slot != self.slot)

    @property
    def own_shards(self) -> tuple[int, ...]:
        """The shards that this process has, or is about to."""
        return tuple(shard for shard in range(self.shards) if self.owners[shard] == self.slot)

    def learn_owners(self, owners: Sequence[int]) -> None:
        """Follow the parent. A shard that another process has now is no longer served here."""
        self.owners = list(owners)
        self.serving.intersection_update(self.own_shards)

    def slot_of(self, group_id: str) -> int:
        """The slot that has the group."""
        return self.owners[shard_of(group_id, self.shards)]

    def is_home(self, shard: int) -> bool:
        """Whether the process has the shard while all serve."""
        return home_of(shard, self.slots) == self.slot

    def owns(self, group_id: str) -> bool:
        """Whether this process has the group, or is about to."""
        return self.slot_of(group_id) == self.slot

    def serves(self, group_id: str) -> bool:
        """Whether this process answers for the group now."""
        return shard_of(group_id, self.shards) in self.serving

    def coordinator_ids(self, broker_id: int) -> Iterator[int]:
        """The ids of the coordinator nodes that lead to this broker, in the order of the slots."""
        for slot in range(self.slots):
            yield coordinator_id(slot, broker_id)

    def node_of(self, group_id: str, broker_id: int) -> int | None:
        """The coordinator node of the group's process that leads to this broker; None if clients
        cannot reach it yet."""
        return coordinator_id(self.slot_of(group_id), broker_id)

    def own_node_ids(self, broker_id: int) -> tuple[int, ...]:
        """The ids of the nodes that lead to this broker and have a port at this machine: its own,
        and the coordinator nodes."""
        return (broker_id, *self.coordinator_ids(broker_id))


def home_of(shard: int, slots: int) -> int:
    """The slot that has a shard while all processes serve."""
    return shard % slots


def shard_of(group_id: str, shards: int) -> int:
    """The shard of a group. Must never change: the shards on disk depend on it."""
    return crc32(group_id.encode("utf-8", "surrogatepass")) % shards


def is_in_shard(shard: int, shards: int, group_id: str) -> bool:
    """Whether a group is in this shard; `shards` is their number."""
    return shard_of(group_id, shards) == shard


def coordinator_id(slot: int, broker_id: int) -> int:
    """The id of the coordinator node of a slot that leads to this broker."""
    return _FIRST_ID + slot * _IDS_PER_SLOT + broker_id


def is_coordinator(node_id: int) -> bool:
    """Whether this is the id of a coordinator node."""
    return node_id >= _FIRST_ID


def broker_of(node_id: int) -> int:
    """The broker that a coordinator node leads to. A broker leads to itself."""
    return (node_id - _FIRST_ID) % _IDS_PER_SLOT if is_coordinator(node_id) else node_id


def slot_of_node(node_id: int) -> int:
    """The slot of a coordinator node."""
    return (node_id - _FIRST_ID) // _IDS_PER_SLOT
