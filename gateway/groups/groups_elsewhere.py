"""The groups of gateways on other machines, for operators who look at the list of all groups.

Each gateway is asked at its coordinator nodes by ListGroups, with the gateway's own user, and names
the groups that it knows (`FleetGroupService`). None is asked unless an operator looks.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.fleet.member import coordinator_id
from gateway.fleet.seated_member import FLEET_CLIENT_ID, SeatedMember
from gateway.fleet.table import Seat
from kafka_codecs.error_codes import name_of
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

FRESH_FOR_S = 5.0
"""How old a list may be before an operator's next look asks for another one."""
WAIT_S = 2.0
"""How long a look waits for the other gateways. After that it shows what they said before."""
CONNECTIONS_MAX = 8
"""Nodes that are asked at a time."""

_GROUP_TYPES: Mapping[str, Literal["classic", "consumer"]] = {
    "classic": "classic",
    "consumer": "consumer",
}


@dataclass(frozen=True, slots=True)
class GroupElsewhere:
    """A group that a gateway on another machine has, as that one lists it."""

    gateway: str
    """The name and address of the gateway that has the group."""
    type: Literal["classic", "consumer"] | None
    state: str


class GroupsElsewhere:
    """The latest lists. One process of a machine asks for all of them."""

    def __init__(
        self, member: SeatedMember, access: Access, broker_ids: Callable[[], Collection[int]]
    ) -> None:
        """`access`: that of the gateway's own user to other gateways. `broker_ids`: those of the
        cluster."""
        self._member, self._access, self._broker_ids = member, access, broker_ids
        self._latest: dict[int, dict[str, ListedGroup]] = {}
        self._trouble: dict[int, str] = {}
        self._asked_s: float | None = None
        self._asking = trio.Lock()

    def trouble_of(self, slot: int) -> str:
        """Why the groups of a slot could not be listed at the latest look; empty if they were."""
        return self._trouble.get(slot, "")

    async def list_groups(self) -> Mapping[str, GroupElsewhere]:
        """The groups by id, without those of this machine. What has moved since its gateway
        listed it is left out until the next one does."""
        async with self._asking:
            now_s = trio.current_time()
            if self._asked_s is None or now_s - self._asked_s >= FRESH_FOR_S:
                await self._ask_all()
                self._asked_s = trio.current_time()
        groups: dict[str, GroupElsewhere] = {}
        for seat in self._seats():
            for group_id, group in self._latest.get(seat.slot, {}).items():
                if self._member.slot_of(group_id) == seat.slot:
                    groups[group_id] = GroupElsewhere(
                        seat.label, _type_of(group), group.group_state
                    )
        return groups

    def _seats(self) -> Collection[Seat]:
        """The gateways on other machines that clients can reach."""
        member = self._member
        return [
            seat
            for seat in member.table.seats
            if seat.serves and member.process_in(seat.slot) is None
        ]

    async def _ask_all(self) -> None:
        """Ask all at the same time. A gateway counts as silent until each of its nodes has
        answered."""
        seats = self._seats()
        slots = {seat.slot for seat in seats}
        self._latest = {slot: groups for slot, groups in self._latest.items() if slot in slots}
        self._trouble = dict.fromkeys(slots, f"no answer in {WAIT_S:g} s")
        places = trio.CapacityLimiter(CONNECTIONS_MAX)
        with trio.move_on_after(WAIT_S):
            async with trio.open_nursery() as nursery:
                for seat in seats:
                    nursery.start_soon(self._ask_gateway, seat, places)

    async def _ask_gateway(self, seat: Seat, places: trio.CapacityLimiter) -> None:
        listed: dict[str, ListedGroup] = {}
        reasons: list[str] = []

        async def ask_node(address: tuple[str, int]) -> None:
            try:
                async with (
                    places,
                    await BrokerConnection.open(
                        *address, access=self._access, client_id=FLEET_CLIENT_ID
                    ) as connection,
                ):
                    answer = cast(ListGroupsResponse, await connection.ask(ListGroupsRequest()))
            except UpstreamError as error:
                reasons.append(str(error))
                return
            if answer.error_code:
                reasons.append(f"it answers {name_of(answer.error_code)}")
            listed.update((group.group_id, group) for group in answer.groups)

        async with trio.open_nursery() as nursery:
            for broker_id in self._broker_ids():
                address = self._member.address_of(coordinator_id(seat.slot, broker_id))
                if address is not None:
                    nursery.start_soon(ask_node, address)
        if reasons:
            self._trouble[seat.slot] = reasons[0]
            return
        self._latest[seat.slot] = listed
        del self._trouble[seat.slot]


def _type_of(group: ListedGroup) -> Literal["classic", "consumer"] | None:
    """The protocol of a group; None if the gateway has not said it."""
    return _GROUP_TYPES.get(group.group_type.lower())
