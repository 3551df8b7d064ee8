"""The data path as a whole: opens the listeners, runs the clients' connections, drains them.

It must not know how a group works or how the cluster is watched.
"""

import itertools
import socket

import structlog
import trio

from gateway.cluster.broker_connection import Address
from gateway.cluster.cluster import Cluster
from gateway.data_path.brokers import Brokers, Way
from gateway.data_path.config import DataPathConfig
from gateway.data_path.connection import ClientConnection, Surroundings
from gateway.data_path.errors import BadFrame, ListenError, UpstreamLost
from gateway.data_path.group_apis import GroupApis
from gateway.data_path.listeners import Listeners
from gateway.data_path.private_names import NOTHING_PRIVATE, PrivateNames
from gateway.data_path.splice import PipePool
from gateway.data_path.stream import BufferPool
from gateway.events.event import Tell
from gateway.events.gateway_events import DrainFinished, DrainStarted
from gateway.events.log_lines import write_to_log

log = structlog.get_logger()

IDLE_LOOKS = 10
"""How often idle connections are looked for, in the time that they may be idle."""


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
    """Serve clients until `stop`, then answer what is in flight, and return.

    Reports the bootstrap address once every known broker has its listener; the cluster must be
    running by then. Raises ListenError when a port cannot be had at the start. Cancelled, it closes
    every connection at once.
    """
    pipes = PipePool()
    surroundings = Surroundings(
        limits=config.limits,
        group_apis=group_apis,
        rewrite=lambda answer: listeners.rewrite(answer),  # noqa: PLW0108  # not made yet
        topic_names=cluster.names_of,
        recall_metadata=cluster.recall,
        private_names=private_names,
        buffers=BufferPool(),
        pipes=pipes,
    )
    clients = _Clients(surroundings)
    failure: ListenError | None = None
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            try:
                listeners = Listeners(
                    config,
                    brokers=Brokers(lambda: cluster.brokers, accepting),
                    accept=clients.accept,
                    accepting=accepting,
                    clients=connections,
                )
                address = await listeners.open_bootstrap()
                await listeners.learn(cluster.brokers)
            except ListenError as error:
                failure = error  # raised below: a nursery would make a group of it
            else:
                accepting.start_soon(_follow, cluster, listeners)
                accepting.start_soon(clients.end_idle)
                task_status.started(address)
                await stop.wait()
            accepting.cancel_scope.cancel()
        if failure:
            connections.cancel_scope.cancel()  # it never served
        else:
            connections.cancel_scope.deadline = trio.current_time() + config.limits.drain_timeout_s
            tell(DrainStarted(connections=clients.count))
            clients.drain()
    pipes.close()
    if failure:
        raise failure
    tell(DrainFinished(in_time=not connections.cancel_scope.cancelled_caught))


async def _follow(cluster: Cluster, listeners: Listeners) -> None:
    """Open listeners for the brokers that the cluster's own watch finds."""
    while True:
        changed = cluster.changed
        try:
            await listeners.learn(cluster.brokers)
        except (ListenError, BadFrame) as error:
            log.error("broker_listener_failed", reason=str(error))  # noqa: TRY400  # not a bug
        except UpstreamLost:
            return  # stopping: a nursery that ends must not fail over a broker that just came
        await changed.wait()


class _Clients:
    """The clients' connections, over all listeners."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._connections: set[ClientConnection] = set()
        self._ids = itertools.count(1)

    @property
    def count(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def accept(self, way: Way, stream: trio.SocketStream) -> None:
        """Serve one client until it or its broker closes."""
        sock = socket.socket(fileno=stream.socket.detach())
        try:
            client_host = sock.getpeername()[0]
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:  # gone already
            sock.close()
            return
        if self.count >= self._surroundings.limits.max_connections:
            sock.close()
            log.warning("connection_refused", client_host=client_host, connections=self.count)
            return
        connection = ClientConnection(
            sock,
            client_host=client_host,
            way=way,
            surroundings=self._surroundings,
        )
        self._connections.add(connection)
        try:
            with structlog.contextvars.bound_contextvars(connection_id=f"c{next(self._ids)}"):
                await connection.serve()
        finally:
            self._connections.discard(connection)

    async def end_idle(self) -> None:
        """End those that say nothing for long, for ever."""
        while True:
            await trio.sleep(self._surroundings.limits.idle_timeout_s / IDLE_LOOKS)
            for connection in tuple(self._connections):
                connection.end_if_idle()

    def drain(self) -> None:
        """Let every connection end once its requests in flight are answered."""
        for connection in tuple(self._connections):
            connection.drain()
