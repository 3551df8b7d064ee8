"""The ports of one process of a fleet.

All processes of a machine share the bootstrap port and those of the brokers: the system gives a new
connection to one of them. The coordinator nodes of a process have ports of its own. All know the
ports of all, because Metadata is the same at each.
"""

import errno
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import trio

from gateway.cluster.broker_connection import Address
from gateway.data_path.brokers import BrokerRoute
from gateway.data_path.errors import ListenError
from gateway.data_path.listeners import Listeners, cannot_listen
from gateway.data_path.rewrite import addresses_in, with_addresses
from gateway.data_path.shared_ports import SocketAddress, bound_socket, listen_shared, resolve
from gateway.fleet.coordinator_nodes import add_coordinators
from gateway.fleet.member import (
    BROKER_ID_MAX,
    FleetMember,
    broker_of,
    coordinator_id,
    is_coordinator,
)
from gateway.fleet.seated_member import AnnouncePorts, SeatedMember
from kafka_codecs.declaration import Struct
from kafka_codecs.metadata import MetadataResponse


class FleetListeners(Listeners):
    """Opens the shared ports and those of this process, and rewrites addresses to all of them."""

    def __init__(self, member: FleetMember, *args: Any, **kwargs: Any) -> None:
        """The other arguments are those of `Listeners`."""
        super().__init__(*args, **kwargs)
        self._member = member
        self._coordinator_ports: dict[int, int] = {}

    async def learn(self, brokers: Mapping[int, Address]) -> None:
        """See `Listeners`. Raises ListenError for a broker whose id leaves no room for those of
        coordinator nodes."""
        if (highest := max(brokers, default=0)) > BROKER_ID_MAX:
            raise ListenError(
                f"broker {highest}: with processes, broker ids are at most {BROKER_ID_MAX}; leave"
                " that setting out"
            )
        await super().learn(brokers)

    async def _represent(self, node_id: int) -> None:
        addresses = await self._resolve()
        with self._book.lock():
            ports = {
                listed_id: self._book.find_port(listed_id) or self._reserve(listed_id, addresses)
                for listed_id in self._member.own_node_ids(node_id)
            }
        own_id = coordinator_id(self._member.slot, node_id)
        bound: list[tuple[list[trio.SocketListener], BrokerRoute]] = []
        with ExitStack() as closing:  # both ports or none: the next Metadata tries again
            for listed_id in (own_id, node_id):
                route = BrokerRoute(self._brokers, node_id)
                if listed_id == own_id:
                    stands_in_for = partial(self._stands_in, own_id)
                    route = replace(route, listed_id=own_id, stands_in_for=stands_in_for)
                try:
                    listeners = await self._bind(ports[listed_id], route)
                except OSError as error:
                    whose = f" for broker {node_id}"
                    raise cannot_listen(self._config, ports[listed_id], error, whose) from None
                for listener in listeners:
                    closing.callback(listener.socket.close)
                bound.append((listeners, route))
            closing.pop_all()
        for listeners, route in bound:
            self._accepting.start_soon(self._serve, listeners, route)
        self._ports[node_id] = ports.pop(node_id)
        self._coordinator_ports |= ports
        self._on_represented(node_id, own_id)

    def _on_represented(self, node_id: int, own_id: int) -> None:
        """The ports of a broker, and of the own coordinator node that leads to it, are open."""

    def _stands_in(self, own_id: int, node_id: int) -> bool:  # noqa: ARG002
        """Whether clients find another node at the address of the own one."""
        return False

    def _reserve(self, node_id: int, addresses: list[SocketAddress]) -> int:
        """Find a port that is free at all addresses, and note it for this node. Raises
        ListenError."""
        for port in self._book.free():
            if port in self._config.other_ports:
                continue
            try:
                for address in addresses:
                    bound_socket(address, port).close()
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise cannot_listen(self._config, port, error) from None
            self._book.keep(node_id, port)
            return port
        raise ListenError(
            f"no free port above {self._config.listen_port} for node {node_id}:"
            " give another --listen"
        )

    async def _bind(self, port: int, route: BrokerRoute) -> list[trio.SocketListener]:
        if route.listed_id is not None:
            return await super()._bind(port, route)
        return [listen_shared(address, port) for address in await self._resolve()]

    async def _serve(self, listeners: list[trio.SocketListener], route: BrokerRoute) -> None:
        leaving = self._config.leaving
        if route.listed_id is not None or leaving is None:
            return await super()._serve(listeners, route)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super()._serve, listeners, route)
            await leaving.wait()
            nursery.cancel_scope.cancel()
        return None

    async def _resolve(self) -> list[SocketAddress]:
        return await resolve(self._config.listen_host)

    async def _rewrite(self, answer: Struct) -> Any:
        if named := addresses_in(answer):
            await self.learn({broker_of(node_id): address for node_id, address in named.items()})
        rewritten = with_addresses(answer, self._readdress)
        if isinstance(rewritten, MetadataResponse):
            return add_coordinators(self._member, rewritten, self._address_of)
        return rewritten

    def _readdress(self, node_id: int, _: Address) -> Address:
        return self._address_of(node_id)

    def _address_of(self, node_id: int) -> Address:
        ports = self._coordinator_ports if is_coordinator(node_id) else self._ports
        return self._config.advertised_host, ports[node_id]


class SeatedListeners(FleetListeners):
    """The listeners of a gateway whose fleet runs on several machines: addresses are those of the
    fleet's table, and the ports of this gateway go into it."""

    def __init__(
        self, member: SeatedMember, announce_ports: AnnouncePorts, *args: Any, **kwargs: Any
    ) -> None:
        """The other arguments are those of `Listeners`."""
        super().__init__(member, *args, **kwargs)
        self._seated = member
        self._announce_ports = announce_ports

    def _on_represented(self, node_id: int, own_id: int) -> None:
        self._announce_ports(
            node_id, broker_port=self._ports[node_id], node_port=self._coordinator_ports[own_id]
        )

    def _stands_in(self, own_id: int, node_id: int) -> bool:
        address = self._seated.address_of(node_id)
        return address is not None and address == self._seated.address_of(own_id)

    def _address_of(self, node_id: int) -> Address:
        address = self._seated.address_of(node_id)
        if address is not None:
            return address
        # The table does not have the own ports yet, or another one has just come.
        is_own = is_coordinator(node_id)
        own_id = coordinator_id(self._seated.slot, broker_of(node_id)) if is_own else node_id
        return super()._address_of(own_id)
