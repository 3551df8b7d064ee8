"""Which gateway of a fleet has which slot and which shards, decided without IO.

The gateways are members of one group in the cluster. Each announces what it holds and where clients
reach it, and the leader of a round deals: it makes the table of the whole fleet, which the
cluster's SyncGroup gives to all members. Each announcement has the latest table of its gateway, so
that any leader can continue from the newest one.

A shard moves in two rounds, as partitions of a cooperative assignment do. In the first one its new
owner stands in the table, and the gateway that holds the shard gives it up. The second one has the
announcement without it, and only then may the owner open it. Nothing depends on this for safety:
the shard's writer is fenced by the cluster.

A slot is a number in the ids of coordinator nodes, and belongs to one address, because clients do
not notice that a node has another address. The slot of a gateway that has gone is given to no other
for some minutes, in which its nodes are listed at a living address.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.fleet.member import NO_SLOT

SLOTS_MAX = 100
"""Slots of one fleet, those of gateways that have gone recently included."""
GONE_MS = 300_000
"""How long the nodes of a gateway that has gone are listed at another address."""
ENCODED_BYTES_MAX = 1 << 20
DECODED_BYTES_MAX = 16 << 20

Ports = dict[int, int]
"""Ports by broker."""


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GatewayAddress(_Value):
    """Where clients reach a gateway: what a slot belongs to."""

    host: str
    port: int
    """The bootstrap port."""


class Seat(_Value):
    """A gateway in the table."""

    name: str
    member_id: str
    """The gateway's member id in the group, by which another gateway may remove it."""
    stamp: str
    """The announcement that the table was made from."""
    slot: int
    address: GatewayAddress
    process: int = 0
    """The gateway's number among the processes of its address."""
    is_leaving: bool = False
    broker_ports: Ports = Field(default_factory=dict)
    """The ports that represent brokers. There are none until it serves."""
    node_ports: Ports = Field(default_factory=dict)
    """The ports of its coordinator nodes, by the broker that each leads to."""

    @property
    def serves(self) -> bool:
        """Whether clients can reach it."""
        return bool(self.node_ports)

    @property
    def process_key(self) -> str:
        """The key that distinguishes it from earlier and later processes of its name."""
        return self.stamp.rpartition("-")[0]

    @property
    def label(self) -> str:
        """The name and address of the gateway, for people."""
        return f"{self.name} at {self.address.host}:{self.address.port}"


class GoneSlot(_Value):
    """The slot of a gateway that has gone."""

    slot: int
    address: GatewayAddress
    until_ms: int
    """The end of the absence, by the wall clock of the leader that first missed the gateway."""


class FleetTable(_Value):
    """The whole fleet, as dealt in one round."""

    generation: int
    """The generation of the group in which it was dealt. It grows as long as the cluster knows the
    group, also if all who know the latest table are gone."""
    log_id: str
    """The id of the state log."""
    first_run: int
    """What the runs of its shards count from; see `run_of`."""
    seats: tuple[Seat, ...]
    owners: tuple[int, ...]
    """The slot that owns each shard, NO_SLOT if no process serves yet."""
    awaited: frozenset[int] = frozenset()
    """The shards that another gateway than the owner may hold."""
    gone: tuple[GoneSlot, ...] = ()

    def seat_of(self, name: str) -> Seat | None:
        """The seat of the gateway of this name."""
        return next((seat for seat in self.seats if seat.name == name), None)

    def seat_in(self, slot: int) -> Seat | None:
        """The seat with this slot."""
        return next((seat for seat in self.seats if seat.slot == slot), None)

    def shards_of(self, slot: int) -> frozenset[int]:
        """The shards that the slot owns."""
        return frozenset(shard for shard, owner in enumerate(self.owners) if owner == slot)

    def granted_to(self, slot: int) -> frozenset[int]:
        """The shards that the slot owns, and that no other process may hold."""
        return self.shards_of(slot) - self.awaited

    def run_of(self, slot: int) -> int:
        """The run of the shards that a gateway opens by this table: its own, and greater than any
        by earlier tables."""
        return self.first_run + self.generation * SLOTS_MAX + slot


class Announcement(_Value):
    """What a gateway says of itself."""

    name: str
    stamp: str
    """A text that differs after each change."""
    address: GatewayAddress
    process: int = 0
    """The gateway's number among the processes of its address."""
    slot: int = NO_SLOT
    """The slot that it had at this address, as far as it remembers."""
    is_leaving: bool = False
    broker_ports: Ports = Field(default_factory=dict)
    node_ports: Ports = Field(default_factory=dict)
    holds: frozenset[int] = frozenset()
    """The shards that it has open, or is opening or closing."""
    outrun: int | None = None
    """The `first_run` of a table by which it could not open a shard: a gateway that is not in the
    fleet has had the shard later."""
    table: FleetTable | None = None
    """The latest that it knows, without ports."""


_Kind = TypeVar("_Kind", Announcement, FleetTable)


def encode(value: Announcement | FleetTable) -> bytes:
    """The bytes for the group's protocol."""
    return zlib.compress(value.model_dump_json(exclude_defaults=True).encode())


def decode(kind: type[_Kind], data: bytes) -> _Kind | None:
    """What another gateway has encoded; None if it is not that."""
    if len(data) > ENCODED_BYTES_MAX:
        return None
    try:
        text = zlib.decompressobj().decompress(data, DECODED_BYTES_MAX)
        return kind.model_validate_json(text)
    except (zlib.error, ValidationError):
        return None


def without_ports(table: FleetTable) -> FleetTable:
    """The table as it is announced: the dealer has the ports from their owners."""
    bare: dict[str, Ports] = {"broker_ports": {}, "node_ports": {}}
    return table.model_copy(
        update={"seats": tuple(seat.model_copy(update=bare) for seat in table.seats)}
    )


def newest_table(
    announcements: Sequence[Announcement], own: FleetTable | None = None
) -> FleetTable | None:
    """The latest table that one of these gateways, or the leader itself, knows."""
    tables = [announced.table for announced in announcements if announced.table is not None]
    if own is not None:
        tables.append(own)
    return max(tables, key=lambda table: table.run_of(0), default=None)


def deal(
    announcements: Mapping[str, Announcement],
    before: FleetTable,
    *,
    generation: int,
    now_ms: int,
) -> FleetTable:
    """The next table of these gateways, by member id. `before`: the newest table; one without seats
    if there was none. `now_ms`: of the wall clock, which only ends the time of slots whose gateways
    have gone."""
    slots, gone = _assign_slots(announcements, before, now_ms)
    seats = tuple(
        Seat(
            name=announced.name,
            member_id=member_id,
            stamp=announced.stamp,
            slot=slots[member_id],
            address=announced.address,
            process=announced.process,
            is_leaving=announced.is_leaving,
            broker_ports=announced.broker_ports,
            node_ports=announced.node_ports,
        )
        for member_id, announced in sorted(announcements.items(), key=lambda item: item[1].name)
        if member_id in slots
    )
    holds = {
        slots[member_id]: announced.holds | _granted_since(announced, before)
        for member_id, announced in announcements.items()
        if member_id in slots
    }
    owners = _assign_shards(seats, holds, before)
    awaited = frozenset(
        shard
        for shard, owner in enumerate(owners)
        if any(shard in held for slot, held in holds.items() if slot != owner)
    )
    return before.model_copy(
        update={
            "generation": generation,
            "seats": seats,
            "owners": owners,
            "awaited": awaited,
            "gone": gone,
        }
    )


def _granted_since(announced: Announcement, before: FleetTable) -> frozenset[int]:
    """What a gateway may have opened since its announcement, which the cluster repeats for a member
    that does not join in time."""
    seat = before.seat_of(announced.name)
    if seat is None or seat.stamp != announced.stamp:
        return frozenset()
    return before.granted_to(seat.slot)


def _assign_slots(
    announcements: Mapping[str, Announcement], before: FleetTable, now_ms: int
) -> tuple[Mapping[str, int], tuple[GoneSlot, ...]]:
    """The slot of each member, and the slots that are still free. A gateway that has a slot keeps
    it. One that remembers a slot gets it, unless another address has it now. There may be too few
    slots: the last members then get none."""
    reserved = {gone.slot: gone for gone in before.gone if gone.until_ms > now_ms}
    for seat in before.seats:
        until_ms = now_ms + GONE_MS
        reserved[seat.slot] = GoneSlot(slot=seat.slot, address=seat.address, until_ms=until_ms)
    seated = {(seat.name, seat.address): seat.slot for seat in before.seats}
    slots: dict[str, int] = {}
    taken: set[int] = set()
    newcomers: list[str] = []
    by_name = sorted(announcements.items(), key=lambda item: item[1].name)
    for member_id, announced in by_name:
        if (slot := seated.get((announced.name, announced.address))) is not None:
            slots[member_id] = slot
            taken.add(slot)
        else:
            newcomers.append(member_id)
    for member_id in newcomers:
        announced = announcements[member_id]
        owner = reserved.get(announced.slot)
        is_own = owner is None or owner.address == announced.address
        if 0 <= announced.slot < SLOTS_MAX and announced.slot not in taken and is_own:
            slots[member_id] = announced.slot
            taken.add(announced.slot)
    free = (slot for slot in range(SLOTS_MAX) if slot not in taken | reserved.keys())
    for member_id, slot in zip(
        (member_id for member_id in newcomers if member_id not in slots), tuple(free), strict=False
    ):
        slots[member_id] = slot
        taken.add(slot)
    gone = tuple(reserved[slot] for slot in sorted(reserved.keys() - taken))
    return slots, gone


def _assign_shards(
    seats: Sequence[Seat], holds: Mapping[int, frozenset[int]], before: FleetTable
) -> tuple[int, ...]:
    """The slot that owns each shard. As few as possible move, and no slot has two more than
    another. A gateway that leaves keeps its shards if no other one serves."""
    serving = [seat for seat in seats if seat.serves]
    loads: dict[int, list[int]] = {seat.slot: [] for seat in serving if not seat.is_leaving}
    if not loads:
        loads = {seat.slot: [] for seat in serving}
    if not loads:
        return (NO_SLOT,) * len(before.owners)
    orphans: list[int] = []
    for shard, owner in enumerate(before.owners):
        holders = [owner, *sorted(slot for slot, held in holds.items() if shard in held)]
        keeper = next((slot for slot in holders if slot in loads), None)
        (orphans if keeper is None else loads[keeper]).append(shard)
    share, rest = divmod(len(before.owners), len(loads))
    by_load = sorted(loads, key=lambda slot: (-len(loads[slot]), slot))
    quotas = {slot: share + (rank < rest) for rank, slot in enumerate(by_load)}
    for slot, shards in loads.items():
        # What it does not have open yet costs nothing to move.
        shards.sort(key=lambda shard: (shard not in holds.get(slot, ()), shard))
        orphans += shards[quotas[slot] :]
        del shards[quotas[slot] :]
    for shard in sorted(orphans):
        slot = min(loads, key=lambda slot: (len(loads[slot]) - quotas[slot], slot))
        loads[slot].append(shard)
    owner_of = {shard: slot for slot, shards in loads.items() for shard in shards}
    return tuple(owner_of[shard] for shard in range(len(before.owners)))
