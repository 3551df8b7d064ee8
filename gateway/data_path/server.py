"""The data path as a whole: opens the listeners, serves client connections, and drains them."""

import itertools
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import trio

from gateway.cluster.broker_connection import Address
from gateway.cluster.cluster import Cluster
from gateway.data_path.brokers import BrokerRoute, Brokers
from gateway.data_path.config import DataPathConfig
from gateway.data_path.connection import ClientConnection, ConnectionContext
from gateway.data_path.errors import BadFrame, ListenError, UpstreamLost
from gateway.data_path.group_apis import GroupApis
from gateway.data_path.listeners import Listeners, quiet_accept_failures
from gateway.data_path.private_names import NOTHING_PRIVATE, PrivateNames
from gateway.data_path.splice import PipePool
from gateway.data_path.stream import BufferPool
from gateway.events.event import Tell
from gateway.events.gateway_events import DrainFinished, DrainStarted
from gateway.events.log_lines import write_to_log

log = structlog.get_logger()

IDLE_LOOKS = 10
"""How many times to look for silent clients within the shortest limit."""
TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Linux closes a connection whose peer has acknowledged nothing for this many milliseconds."""


async def serve(
    config: DataPathConfig,
    group_apis: GroupApis,
    cluster: Cluster,
    *,
    stop: trio.Event,
    private_names: PrivateNames = NOTHING_PRIVATE,
    tell: Tell = write_to_log,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve clients until `stop`, then finish requests in flight and return.

    Reports the bootstrap address once every known broker has its listener. The cluster must be
    running already. Raises ListenError if a port is not available at the start. Cancellation closes
    all connections at once.
    """
    pipes = PipePool()
    context = ConnectionContext(
        limits=config.limits,
        group_apis=group_apis,
        rewrite=lambda answer: listeners.rewrite(answer),  # noqa: PLW0108  # not made yet
        topic_names=cluster.names_of,
        recall_metadata=cluster.recall,
        private_names=private_names,
        buffers=BufferPool(),
        pipes=pipes,
    )
    clients = _Clients(context)
    failure: ListenError | None = None
    async with trio.open_nursery() as connections:
        async with accepting_quietly() as accepting:
            try:
                listeners = Listeners(
                    config,
                    brokers=Brokers(
                        lambda: cluster.brokers,
                        accepting,
                        access=config.to_brokers,
                        timeout_s=config.limits.broker_timeout_s,
                    ),
                    accept=clients.accept,
                    accepting=accepting,
                    clients=connections,
                )
                address = await listeners.open_bootstrap()
                await listeners.learn(cluster.brokers)
            except ListenError as error:
                failure = error  # raised below: a nursery would wrap it in a group
            else:
                accepting.start_soon(_follow, cluster, listeners)
                accepting.start_soon(clients.end_idle)
                task_status.started(address)
                await stop.wait()
            accepting.cancel_scope.cancel()
        if failure:
            connections.cancel_scope.cancel()  # no client was served
        else:
            connections.cancel_scope.deadline = trio.current_time() + config.limits.drain_timeout_s
            tell(DrainStarted(connections=clients.count))
            clients.drain()
    pipes.close()
    if failure:
        raise failure
    tell(DrainFinished(in_time=not connections.cancel_scope.cancelled_caught))


@asynccontextmanager
async def accepting_quietly() -> AsyncIterator[trio.Nursery]:
    """A nursery for listeners."""
    with quiet_accept_failures():
        async with trio.open_nursery() as accepting:
            yield accepting


async def _follow(cluster: Cluster, listeners: Listeners) -> None:
    """Open listeners for new brokers as the cluster's watch finds them."""
    while True:
        changed = cluster.changed
        try:
            await listeners.learn(cluster.brokers)
        except (ListenError, BadFrame) as error:
            log.error("broker_listener_failed", reason=str(error))  # noqa: TRY400  # not a bug
        except UpstreamLost:
            return  # stopping: a new broker must not fail the nursery
        await changed.wait()


class _Clients:
    """The client connections of all listeners."""

    def __init__(self, context: ConnectionContext) -> None:
        self._surroundings = context
        self._connections: set[ClientConnection] = set()
        self._per_address: Counter[str] = Counter()
        self._ids = itertools.count(1)

    @property
    def count(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    async def accept(self, route: BrokerRoute, stream: trio.SocketStream) -> None:
        """Serve one client until the connection ends."""
        sock = socket.socket(fileno=stream.socket.detach())
        try:
            client_host = sock.getpeername()[0]
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if TCP_USER_TIMEOUT is not None:
                timeout_ms = round(self._surroundings.limits.idle_timeout_s * 1000)
                sock.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms)
        except OSError:  # the client has gone already
            sock.close()
            return
        if (why := self._why_full(client_host)) is not None:
            sock.close()
            complaints = self._surroundings.complaints
            complaints.tell("connection_refused", client_host, reason=why)
            return
        connection = ClientConnection(
            sock,
            client_host=client_host,
            route=route,
            context=self._surroundings,
        )
        self._connections.add(connection)
        self._per_address[client_host] += 1
        try:
            with structlog.contextvars.bound_contextvars(connection_id=f"c{next(self._ids)}"):
                await connection.serve()
        finally:
            self._connections.discard(connection)
            self._per_address[client_host] -= 1
            if not self._per_address[client_host]:
                del self._per_address[client_host]

    def _why_full(self, client_host: str) -> str | None:
        limits = self._surroundings.limits
        if self.count >= limits.max_connections:
            return f"{self.count} clients are connected, the most allowed"
        if self._per_address[client_host] >= limits.max_connections_per_address:
            return f"{self._per_address[client_host]} clients from this address are connected"
        return None

    async def end_idle(self) -> None:
        """Regularly close connections of silent clients."""
        limits = self._surroundings.limits
        while True:
            await trio.sleep(min(limits.idle_timeout_s, limits.half_sent_timeout_s) / IDLE_LOOKS)
            self._surroundings.complaints.sum_up()
            for connection in tuple(self._connections):
                connection.end_if_idle()

    def drain(self) -> None:
        """End every connection once its requests in flight are answered."""
        for connection in tuple(self._connections):
            connection.drain()
