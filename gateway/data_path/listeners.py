"""The listening ports: one for bootstrap, one per broker.

It owns which port stands for which broker, and opens a new one when a new broker is heard of. It
must not know what clients say.
"""

import errno
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import structlog
import trio

from gateway.cluster.broker_connection import Address
from gateway.data_path.brokers import BrokerRoute, Brokers
from gateway.data_path.config import DataPathConfig
from gateway.data_path.errors import BadFrame, ListenError, UpstreamLost
from gateway.data_path.ports import PortBook
from gateway.data_path.rewrite import addresses_in, with_addresses
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import FindCoordinatorResponse

log = structlog.get_logger()

ACCEPT_FAILURES_INTERVAL_S = 60.0
"""How often it is said that clients cannot be accepted; Trio tries again ten times a second."""

REWRITTEN_MAX = 1_000
"""Coordinators whose addresses are replaced at once, in about five milliseconds. More are replaced
in a thread, because a client may ask for any number."""

Accept = Callable[[BrokerRoute, trio.SocketStream], Awaitable[None]]
"""Serves one client, given the way to the broker that its port stands for."""


class AcceptFailures(logging.Handler):
    """When a client cannot be accepted, Trio tells its own log, with a traceback; this is ours."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s = -math.inf

    def emit(self, record: logging.LogRecord) -> None:
        """Say why, unless that was said not long ago."""
        error = record.exc_info[1] if record.exc_info else None
        reason = error.strerror if isinstance(error, OSError) else record.getMessage()
        if trio.current_time() - self._said_s >= ACCEPT_FAILURES_INTERVAL_S:
            self._said_s = trio.current_time()
            log.warning("connection_not_accepted", reason=reason)


@contextmanager
def quiet_accept_failures() -> Iterator[None]:
    """As long as somebody listens."""
    trios, ours = logging.getLogger("trio.serve_listeners"), AcceptFailures()
    before, trios.propagate = trios.propagate, False
    trios.addHandler(ours)
    try:
        yield
    finally:
        trios.removeHandler(ours)
        trios.propagate = before


async def check_ports(config: DataPathConfig, node_ids: Iterable[int]) -> None:
    """Raises ListenError if a port that `Listeners` would insist on cannot be had: its own, or one
    that it keeps for a broker."""
    book = PortBook(config.state_folder, config.listen_port)
    kept = [book.kept(node_id) for node_id in node_ids]
    for port in (config.listen_port, *kept):
        if port is None:
            continue
        try:
            listeners = await trio.open_tcp_listeners(port, host=config.listen_host)
        except OSError as error:
            raise _cannot_listen(config, port, error) from None
        for each in listeners:
            await each.aclose()


def _cannot_listen(
    config: DataPathConfig, port: int, error: OSError, whose: str = ""
) -> ListenError:
    reason = error.strerror or str(error)
    return ListenError(f"cannot listen on {config.listen_host}:{port}{whose}: {reason}")


class Listeners:
    """Opens ports for brokers, and says where each broker is to be found."""

    def __init__(
        self,
        config: DataPathConfig,
        *,
        brokers: Brokers,
        accept: Accept,
        accepting: trio.Nursery,
        clients: trio.Nursery,
    ) -> None:
        """Listening tasks run in `accepting`, which the owner cancels to stop.

        Raises ListenError when the brokers' ports cannot be read back.
        """
        self._config = config
        self._brokers = brokers
        self._accept = accept
        self._accepting = accepting
        self._clients = clients
        self._book = PortBook(config.state_folder, config.listen_port)
        self._ports: dict[int, int] = {}
        self._learning = trio.Lock()

    async def open_bootstrap(self) -> Address:
        """Listen on the port that stands for any broker; returns its address.

        Raises ListenError.
        """
        port = self._config.listen_port
        try:
            port = await self._listen(port, BrokerRoute(self._brokers, None))
        except OSError as error:
            raise _cannot_listen(self._config, port, error) from None
        log.info("bootstrap_listener_opened", port=port)
        return self._config.advertised_host, port

    async def learn(self, brokers: Mapping[int, Address]) -> None:
        """Have a listener for each of these brokers.

        Raises ListenError, BadFrame if there are too many, UpstreamLost if the gateway is stopping.
        """
        self._brokers.learn(brokers)
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
        if isinstance(answer, FindCoordinatorResponse) and len(answer.coordinators) > REWRITTEN_MAX:
            return await trio.to_thread.run_sync(with_addresses, answer, self._readdress)
        return with_addresses(answer, self._readdress)

    def _readdress(self, node_id: int, _: Address) -> Address:
        return self._config.advertised_host, self._ports[node_id]

    async def _open(self, node_id: int) -> int:
        route = BrokerRoute(self._brokers, node_id)
        kept = self._book.kept(node_id)
        if kept is not None:
            try:
                return await self._listen(kept, route)
            except OSError as error:
                raise _cannot_listen(self._config, kept, error, f" for broker {node_id}") from None
        for port in self._book.free():
            try:
                opened = await self._listen(port, route)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise _cannot_listen(self._config, port, error, f" for broker {node_id}") from None
            self._book.keep(node_id, opened)
            return opened
        raise ListenError(f"no free port above {self._config.listen_port} for broker {node_id}")

    async def _listen(self, port: int, route: BrokerRoute) -> int:
        listeners = await trio.open_tcp_listeners(port, host=self._config.listen_host)
        if port == 0:  # a name with two addresses would get two ports
            for surplus in listeners[1:]:
                await surplus.aclose()
            del listeners[1:]
        self._accepting.start_soon(
            partial(
                trio.serve_listeners,
                partial(self._accept, route),
                listeners,
                handler_nursery=self._clients,
            )
        )
        return int(listeners[0].socket.getsockname()[1])
