"""The listening ports: one for bootstrap, one per broker.

It owns which port stands for which broker, and opens a new one when a new broker is heard of. It
must not know what clients say.
"""

import errno
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import structlog
import trio

from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.data_path.config import DataPathConfig
from gateway.data_path.connection import ClientSoftware, Connect
from gateway.data_path.errors import BadFrame, ListenError, UpstreamLost
from gateway.data_path.ports import PortBook
from gateway.data_path.rewrite import addresses_in, with_addresses
from kafka_codecs.declaration import Struct

log = structlog.get_logger()

Accept = Callable[[Connect, trio.SocketStream], Awaitable[None]]
"""Serves one client, given how to connect to the broker that its port stands for."""


class Listeners:
    """Opens ports for brokers, and says where each broker is to be found."""

    def __init__(
        self,
        config: DataPathConfig,
        *,
        live_brokers: Callable[[], Mapping[int, Address]],
        accept: Accept,
        accepting: trio.Nursery,
        clients: trio.Nursery,
    ) -> None:
        """Listening tasks run in `accepting`, which the owner cancels to stop.

        Raises ListenError when the brokers' ports cannot be read back.
        """
        self._config = config
        self._live_brokers = live_brokers
        self._accept = accept
        self._accepting = accepting
        self._clients = clients
        self._book = PortBook(config.state_folder, config.listen_port)
        self._upstream: dict[int, Address] = {}
        self._ports: dict[int, int] = {}
        self._learning = trio.Lock()
        self._turn = 0
        self._unreachable: set[int] = set()

    async def open_bootstrap(self) -> Address:
        """Listen on the port that stands for any broker; returns its address.

        Raises ListenError.
        """
        port = self._config.listen_port
        try:
            port = await self._listen(port, self._connect_to_any)
        except OSError as error:
            raise self._cannot_listen(port, error) from None
        log.info("bootstrap_listener_opened", port=port)
        return self._config.advertised_host, port

    async def learn(self, brokers: Mapping[int, Address]) -> None:
        """Have a listener for each of these brokers.

        Raises ListenError, BadFrame if there are too many, UpstreamLost if the gateway is stopping.
        """
        self._upstream.update(brokers)
        if brokers.keys() <= self._ports.keys():
            return
        if self._accepting.cancel_scope.cancel_called:
            raise UpstreamLost("the gateway is stopping, and a broker is new")
        async with self._learning:
            for node_id in sorted(brokers.keys() - self._ports.keys()):
                if len(self._ports) >= self._config.limits.max_brokers:
                    raise BadFrame("the cluster names more brokers than there may be listeners")
                self._ports[node_id] = await self._open(node_id)
                log.info("broker_listener_opened", node_id=node_id, port=self._ports[node_id])

    async def rewrite(self, answer: Struct) -> Struct:
        """The answer with our addresses, each with a listener behind it. Raises as `learn`."""
        named = addresses_in(answer)
        if not named:
            return answer
        await self.learn(named)
        return with_addresses(answer, self._readdress)

    def _readdress(self, node_id: int, _: Address) -> Address:
        return self._config.advertised_host, self._ports[node_id]

    async def _open(self, node_id: int) -> int:
        connect = partial(self._connect_to, node_id)
        kept = self._book.kept(node_id)
        if kept is not None:
            try:
                return await self._listen(kept, connect)
            except OSError as error:
                raise self._cannot_listen(kept, error, f" for broker {node_id}") from None
        for port in self._book.free():
            try:
                opened = await self._listen(port, connect)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise self._cannot_listen(port, error, f" for broker {node_id}") from None
            self._book.keep(node_id, opened)
            return opened
        raise ListenError(f"no free port above {self._config.listen_port} for broker {node_id}")

    async def _listen(self, port: int, connect: Connect) -> int:
        listeners = await trio.open_tcp_listeners(port, host=self._config.listen_host)
        if port == 0:  # a name with two addresses would get two ports
            for surplus in listeners[1:]:
                await surplus.aclose()
            del listeners[1:]
        self._accepting.start_soon(
            partial(
                trio.serve_listeners,
                partial(self._accept, connect),
                listeners,
                handler_nursery=self._clients,
            )
        )
        return int(listeners[0].socket.getsockname()[1])

    async def _connect_to(
        self, node_id: int, software: ClientSoftware
    ) -> tuple[int, BrokerConnection]:
        return node_id, await self._open_upstream(node_id, self._upstream[node_id], software)

    async def _connect_to_any(self, software: ClientSoftware) -> tuple[int, BrokerConnection]:
        brokers = sorted(self._live_brokers().items())
        self._turn += 1
        failure = UpstreamError("no broker is known")
        for place in range(len(brokers)):
            node_id, address = brokers[(self._turn + place) % len(brokers)]
            try:
                return node_id, await self._open_upstream(node_id, address, software)
            except UpstreamError as error:
                failure = error
        raise failure

    async def _open_upstream(
        self, node_id: int, address: Address, software: ClientSoftware
    ) -> BrokerConnection:
        """One line when a broker is lost and one when it is back, however often clients try."""
        host, port = address
        try:
            connection = await BrokerConnection.open(
                host,
                port,
                client_id=software.client_id,
                software_name=software.name,
                software_version=software.version,
            )
        except UpstreamError as error:
            if node_id not in self._unreachable:
                log.warning("broker_unreachable", node_id=node_id, reason=str(error))
            self._unreachable.add(node_id)
            raise
        if node_id in self._unreachable:
            log.info("broker_back", node_id=node_id)
        self._unreachable.discard(node_id)
        return connection

    def _cannot_listen(self, port: int, error: OSError, whose: str = "") -> ListenError:
        reason = error.strerror or str(error)
        return ListenError(f"cannot listen on {self._config.listen_host}:{port}{whose}: {reason}")
