"""The view of a gateway whose fleet runs on several machines: who has which groups, and where
clients reach each node, by the latest table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from zlib import crc32

from gateway.fleet.member import (
    FleetMember,
    broker_of,
    coordinator_id,
    is_coordinator,
    slot_of_node,
)
from gateway.fleet.table import FleetTable, Seat

FLEET_CLIENT_ID = "groupferry-fleet-call"
"""The client id of a gateway that asks one on another machine."""


class AnnouncePorts(Protocol):
    """Tells the other gateways of a fleet about the ports of this one."""

    def __call__(self, broker_id: int, *, broker_port: int, node_port: int) -> None:
        """The ports of a broker, and of the coordinator node that leads to it."""


@dataclass(slots=True, kw_only=True, eq=False)
class SeatedMember(FleetMember):
    """A process of its own in the fleet. The leader of the fleet's group says who has which shard,
    and `follow` learns it. `slots` are those of its machine."""

    table: FleetTable
    seen_ms: dict[str, int] = field(default_factory=dict)
    """When each gateway was first in a table here, by the key of its process, in milliseconds since
    1970 (UTC)."""

    def follow(self, table: FleetTable, now_ms: int) -> None:
        """Show clients the nodes of this table from now on."""
        self.table = table
        self.seen_ms = {
            seat.process_key: self.seen_ms.get(seat.process_key, now_ms) for seat in table.seats
        }

    @property
    def process(self) -> int:
        """See `FleetMember`."""
        return self._own_seat.process

    def process_in(self, slot: int) -> int | None:
        """See `FleetMember`."""
        seat = self.table.seat_in(slot)
        is_here = seat is not None and seat.address == self._own_seat.address
        return seat.process if seat is not None and is_here else None

    def name_owner(self, group_id: str) -> str:
        """See `FleetMember`."""
        seat = self.table.seat_in(self.slot_of(group_id))
        if seat is None:
            return "no gateway of the fleet yet"
        return f"gateway {seat.label}"

    def other_slots(self) -> Iterator[int]:
        """See `FleetMember`."""
        return (seat.slot for seat in self.table.seats if seat.slot != self.slot)

    @property
    def _own_seat(self) -> Seat:
        seat = self.table.seat_in(self.slot)
        assert seat is not None, "it follows only tables that have its seat"
        return seat

    def is_home(self, shard: int) -> bool:  # noqa: ARG002
        """See `FleetMember`. No shard has a home."""
        return True

    def coordinator_ids(self, broker_id: int) -> Iterator[int]:
        """See `FleetMember`. Those of gateways that have gone recently are among them."""
        slots = {seat.slot for seat in self.table.seats} | {gone.slot for gone in self.table.gone}
        for slot in sorted(slots):
            if self._find_seat(slot, broker_id) is not None:
                yield coordinator_id(slot, broker_id)

    def node_of(self, group_id: str, broker_id: int) -> int | None:
        """See `FleetMember`."""
        slot = self.slot_of(group_id)
        is_listed = self._find_seat(slot, broker_id) is not None
        return coordinator_id(slot, broker_id) if is_listed else None

    def own_node_ids(self, broker_id: int) -> tuple[int, ...]:
        """See `FleetMember`."""
        return broker_id, coordinator_id(self.slot, broker_id)

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where clients reach a node; None if no gateway has announced a port for it yet. The
        same at every gateway that has the same table."""
        broker_id = broker_of(node_id)
        if is_coordinator(node_id):
            seat = self._find_seat(slot_of_node(node_id), broker_id)
            return None if seat is None else (seat.address.host, seat.node_ports[broker_id])
        seats = [seat for seat in self.table.seats if broker_id in seat.broker_ports]
        seat = _choose(seats, broker_id)
        return None if seat is None else (seat.address.host, seat.broker_ports[broker_id])

    def _find_seat(self, slot: int, broker_id: int) -> Seat | None:
        """The gateway that serves the coordinator node of this slot: its own, or any if that has
        gone."""
        seat = self.table.seat_in(slot)
        if seat is not None:
            return seat if broker_id in seat.node_ports else None
        if all(gone.slot != slot for gone in self.table.gone):
            return None
        seats = [seat for seat in self.table.seats if broker_id in seat.node_ports]
        return _choose(seats, coordinator_id(slot, broker_id))


def _choose(seats: Sequence[Seat], node_id: int) -> Seat | None:
    """The gateway that serves a node, by rendezvous hashing: a gateway that comes or goes moves
    only its own nodes. A gateway that leaves serves none if there is another one."""
    staying = [seat for seat in seats if not seat.is_leaving] or seats

    def weigh(seat: Seat) -> tuple[int, int]:
        place = f"{seat.address.host}:{seat.address.port}/{node_id}"
        return crc32(place.encode("utf-8", "surrogatepass")), seat.slot

    return max(staying, key=weigh, default=None)
