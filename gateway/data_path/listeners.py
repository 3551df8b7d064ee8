"""The listening ports: one for bootstrap, and one per broker, opened when the broker appears.

If the brokers have names, the bootstrap port serves them all.
"""

import errno
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
import trio

from gateway.batches import batches
from gateway.cluster.broker_connection import Address
from gateway.data_path.accepting import accept_clients
from gateway.data_path.brokers import BrokerRoute, Brokers
from gateway.data_path.config import DataPathConfig
from gateway.data_path.errors import BrokerLost, ListenError
from gateway.data_path.ports import PortBook
from gateway.data_path.rewrite import addresses_in, with_addresses
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import Coordinator, FindCoordinatorResponse

log = structlog.get_logger()

Accept = Callable[[BrokerRoute, socket.socket], None]
"""Begins to serve one client of the broker that the port represents."""


async def check_ports(config: DataPathConfig, node_ids: Iterable[int]) -> None:
    """Raises ListenError if one of the fixed ports is taken: the bootstrap port, or one kept for a
    broker or a coordinator node."""
    book = PortBook(config.state_folder, config.listen_port)
    if config.member is not None:
        node_ids = [listed for broker in node_ids for listed in config.member.own_node_ids(broker)]
    ports = [] if config.broker_names else [book.find_port(node_id) for node_id in node_ids]
    for port in (config.listen_port, *ports):
        if port is None:
            continue
        try:
            listeners = await trio.open_tcp_listeners(port, host=config.listen_host)
        except OSError as error:
            raise cannot_listen(config, port, error) from None
        for listener in listeners:
            await listener.aclose()


def cannot_listen(
    config: DataPathConfig, port: int, error: OSError, whose: str = ""
) -> ListenError:
    """The error for a port that cannot be opened. `whose`: what it is for."""
    reason = error.strerror or str(error)
    return ListenError(
        f"cannot listen on {config.listen_host}:{port}{whose}: {reason}; give another --listen"
    )


class Listeners:
    """Opens ports for brokers, and rewrites addresses to them."""

    def __init__(
        self,
        config: DataPathConfig,
        *,
        brokers: Brokers,
        accept: Accept,
        accepting: trio.Nursery,
    ) -> None:
        """`accepting` runs the listening tasks; its owner cancels it to stop listening.

        Raises ListenError if the port file cannot be read.
        """
        self._config = config
        self._brokers = brokers
        self._accept = accept
        self._accepting = accepting
        self._book = PortBook(config.state_folder, config.listen_port)
        self._bootstrap_port = 0
        self._ports: dict[int, int] = {}
        self._learning = trio.Lock()

    async def open_bootstrap(self) -> Address:
        """Listen on the bootstrap port, which represents any broker. Returns its address.

        Raises ListenError.
        """
        port = self._config.listen_port
        try:
            route = BrokerRoute(self._brokers, None, self._config.broker_names)
            port = self._bootstrap_port = await self._listen(port, route)
        except OSError as error:
            raise cannot_listen(self._config, port, error) from None
        log.info("bootstrap_listener_opened", port=port)
        return self._config.advertised_host, port

    async def learn(self, brokers: Mapping[int, Address]) -> None:
        """Open a listener for each of these brokers that has none.

        Raises ListenError, also if there are too many, BrokerLost if the gateway is stopping.
        """
        self._brokers.learn(brokers)
        if brokers.keys() <= self._ports.keys():
            return
        if self._accepting.cancel_scope.cancel_called:
            raise BrokerLost("a new broker appeared while the gateway is stopping")
        async with self._learning:
            for node_id in sorted(brokers.keys() - self._ports.keys()):
                if len(self._ports) >= self._config.limits.max_brokers:
                    raise ListenError(
                        "the cluster has more brokers than one gateway has"
                        " listeners: use --listen-sni"
                    )
                await self._represent(node_id)
                log.info("broker_listener_opened", node_id=node_id, port=self._ports[node_id])

    async def _represent(self, node_id: int) -> None:
        """Open the ports of a new broker. Raises ListenError."""
        is_named = self._config.broker_names is not None
        self._ports[node_id] = self._bootstrap_port if is_named else await self._open(node_id)

    async def rewrite(self, answer: Struct) -> Struct:
        """The answer with our addresses, each with an open listener. Raises as `learn` does."""
        if not isinstance(answer, FindCoordinatorResponse):
            rewritten: Struct = await self._rewrite(answer)
            return rewritten
        coordinators: list[Coordinator] = []
        for batch in batches(answer.coordinators):
            part = await self._rewrite(replace(answer, coordinators=batch))
            coordinators += part.coordinators
            await trio.lowlevel.checkpoint()  # a client may ask for thousands of coordinators
        rest: FindCoordinatorResponse = await self._rewrite(replace(answer, coordinators=()))
        return replace(rest, coordinators=tuple(coordinators))

    async def _rewrite(self, answer: Struct) -> Any:
        if named := addresses_in(answer):
            await self.learn(named)
        return with_addresses(answer, self._readdress)

    def _readdress(self, node_id: int, _: Address) -> Address:
        names = self._config.broker_names
        host = self._config.advertised_host if names is None else names.host_of(node_id)
        return host, self._ports[node_id]

    async def _open(self, node_id: int) -> int:
        route = BrokerRoute(self._brokers, node_id)
        port = self._book.find_port(node_id)
        if port is not None:
            try:
                return await self._listen(port, route)
            except OSError as error:
                raise cannot_listen(self._config, port, error, f" for broker {node_id}") from None
        for port in self._book.free():
            try:
                opened = await self._listen(port, route)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise cannot_listen(self._config, port, error, f" for broker {node_id}") from None
            self._book.keep(node_id, opened)
            return opened
        raise ListenError(
            f"no free port above {self._config.listen_port} for broker {node_id}:"
            " give another --listen"
        )

    async def _bind(self, port: int, _route: BrokerRoute) -> list[trio.SocketListener]:
        """Bind a port. Raises OSError."""
        listeners = await trio.open_tcp_listeners(port, host=self._config.listen_host)
        if port == 0:  # a host name with two addresses would get two ports
            for surplus in listeners[1:]:
                await surplus.aclose()
            del listeners[1:]
        return listeners

    async def _listen(self, port: int, route: BrokerRoute) -> int:
        listeners = await self._bind(port, route)
        self._accepting.start_soon(self._serve, listeners, route)
        return int(listeners[0].socket.getsockname()[1])

    async def _serve(self, listeners: list[trio.SocketListener], route: BrokerRoute) -> None:
        """Accept clients until cancelled, and close the listeners then."""
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(accept_clients, listener, partial(self._accept, route))
