"""The data path as a whole: opens the listeners, serves client connections, and drains them."""

import contextvars
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog
import trio
from structlog.contextvars import bind_contextvars

from gateway.cluster.broker_connection import Address
from gateway.cluster.cluster import Cluster
from gateway.data_path.brokers import BrokerRoute, Brokers
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.config import DataPathConfig
from gateway.data_path.connection import ClientConnection
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.connection_limiter import ConnectionLimiter, ConnectionSlot
from gateway.data_path.connection_tasks import ConnectionTasks
from gateway.data_path.errors import BrokerLost, ListenError, TooManyConnections
from gateway.data_path.fleet_listeners import FleetListeners, SeatedListeners
from gateway.data_path.found_coordinators import FoundCoordinators
from gateway.data_path.grants import OF_THE_ANONYMOUS_MAX, Grants
from gateway.data_path.group_apis import GroupApis
from gateway.data_path.held_requests import HeldRequests
from gateway.data_path.listeners import Listeners
from gateway.data_path.offer import client_side_apis
from gateway.data_path.private_names import NOTHING_PRIVATE, PrivateNames
from gateway.data_path.removal import Removal
from gateway.data_path.stream import StreamResources
from gateway.events.event import EventSink
from gateway.events.gateway_events import DrainFinished, DrainStarted
from gateway.fleet.seated_member import SeatedMember
from gateway.logs import write_to_log
from gateway.transport.certificates import TlsContext
from gateway.transport.sockets import Transport, close, limit_silence
from gateway.transport.tls import TlsSocket, begin_tls

log = structlog.get_logger()

PLAIN_TEXT = (
    "plain text: this port speaks TLS, set security.protocol=SSL,"
    " or SASL_SSL if the cluster wants SASL"
)
_TLS_HANDSHAKE = b"\x16"
IDLE_LOOKS = 10
"""How many times to look for silent clients within the shortest limit."""


async def serve(
    config: DataPathConfig,
    group_apis: GroupApis,
    cluster: Cluster,
    *,
    stop: trio.Event,
    limiter: ConnectionLimiter | None = None,
    held: HeldRequests | None = None,
    removal: Removal | None = None,
    private_names: PrivateNames = NOTHING_PRIVATE,
    emit: EventSink = write_to_log,
    client_warnings: ClientWarnings | None = None,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve clients until `stop`, then finish requests in flight and return.

    Reports the bootstrap address once every known broker has its listener. The cluster must be
    running already. Raises ListenError if a port is not available at the start. Cancellation closes
    all connections at once. `limiter` counts the connections for others to see, `held` their long
    requests, `client_warnings` what clients do wrong; `removal` sends the clients away when it is
    told to.
    """
    limiter = limiter or ConnectionLimiter(config.limits)
    resources = StreamResources(pressure=limiter.traffic.pressure)
    found_coordinators: FoundCoordinators | None = None
    if config.member is None:
        found_coordinators = FoundCoordinators(config.names, group_apis.record_recalled)
    context = ConnectionContext(
        limits=config.limits,
        group_apis=group_apis,
        rewrite=lambda answer: listeners.rewrite(answer),  # noqa: PLW0108  # not made yet
        topic_names=cluster.names_of,
        cluster_id=lambda: cluster.cluster_id,
        recall_metadata=cluster.recall,
        private_names=private_names,
        client_side_apis=client_side_apis(config.client_side_api_key),
        clients_authenticate=config.clients_authenticate,
        anonymous_grants=Grants(config.limits, OF_THE_ANONYMOUS_MAX, config.names),
        found_coordinators=found_coordinators,
        held=held or HeldRequests(config.limits),
        resources=resources,
        removal=removal or Removal(),
        client_warnings=client_warnings or ClientWarnings(),
    )
    failure: ListenError | None = None
    clients = _Clients(context, config.tls, limiter)
    async with looking_after(resources), clients.serve_all() as connections:
        async with trio.open_nursery() as accepting:
            try:
                brokers = Brokers(
                    lambda: cluster.brokers,
                    accepting,
                    access=config.to_brokers,
                    limits=config.limits,
                )
                listeners = _make_listeners(config)(
                    config, brokers=brokers, accept=clients.accept, accepting=accepting
                )
                await brokers.learn_offers()
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
            emit(DrainStarted(connections=clients.count))
            clients.drain()
    if failure:
        raise failure
    emit(DrainFinished(in_time=not connections.cancel_scope.cancelled_caught))


@asynccontextmanager
async def looking_after(resources: StreamResources) -> AsyncIterator[None]:
    """Run what all connections share until they have ended, and close it."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(resources.poller.run)
            nursery.start_soon(resources.broker_timeouts.run)
            yield
            nursery.cancel_scope.cancel()
    finally:
        resources.close()


def _make_listeners(config: DataPathConfig) -> Callable[..., Listeners]:
    """What opens the ports of a single gateway, or of one in a fleet."""
    member = config.member
    if member is None:
        return Listeners
    if isinstance(member, SeatedMember) and config.announce_ports is not None:
        return partial(SeatedListeners, member, config.announce_ports)
    return partial(FleetListeners, member)


async def _follow(cluster: Cluster, listeners: Listeners) -> None:
    """Open listeners for new brokers as the cluster's watch finds them."""
    while True:
        changed = cluster.changed
        try:
            await listeners.learn(cluster.brokers)
        except ListenError as error:
            log.error("broker_listener_failed", reason=str(error))  # noqa: TRY400  # not a bug
        except BrokerLost:
            return  # stopping: a new broker must not fail the nursery
        await changed.wait()


class _Clients:
    """The client connections of all listeners."""

    def __init__(
        self, context: ConnectionContext, tls: TlsContext | None, limiter: ConnectionLimiter
    ) -> None:
        self._surroundings = context
        self._tls = tls
        self._nursery: trio.Nursery
        self._tasks: ConnectionTasks[ClientConnection]
        self._limiter = limiter
        self._is_draining = False
        self._ids = itertools.count(1)
        # A listener's own may have the names of the connection that made it known.
        self._context = contextvars.copy_context()
        self._connections: set[ClientConnection] = set()
        context.removal.visitors = limiter.traffic.open = self._connections

    @asynccontextmanager
    async def serve_all(self) -> AsyncIterator[trio.Nursery]:
        """Serve clients within the block, and until all have ended."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._tasks = ConnectionTasks(self._nursery, self._forget)
                yield self._nursery
        finally:
            for connection in tuple(self._connections):  # asleep: no task can be cancelled
                connection.close()
                self._forget(connection)

    @property
    def count(self) -> int:
        """The number of connected clients, including those in a handshake."""
        return self._limiter.count

    def accept(self, route: BrokerRoute, sock: socket.socket) -> None:
        """Begin to serve one client."""
        try:
            client_host = sock.getpeername()[0]
            limit_silence(sock, self._surroundings.limits.idle_timeout_s)
        except OSError:  # the client has gone already
            sock.close()
            return
        has_handshake = self._tls is not None or self._surroundings.clients_authenticate
        try:
            slot = self._limiter.take(client_host, has_handshake=has_handshake)
        except TooManyConnections as error:
            sock.close()
            self._refuse(client_host, str(error))
            return
        guest = _Guest(client_host, slot, self._context.copy())
        guest.log_context.run(bind_contextvars, connection_id=f"c{next(self._ids)}")
        if self._tls is None:
            self._begin(guest, route, sock)
        else:
            shake = partial(self._begin_tls, guest, route, sock, self._tls.current)
            guest.log_context.run(self._nursery.start_soon, shake)

    def _refuse(self, client_host: str, reason: str) -> None:
        self._surroundings.client_warnings.warn("connection_refused", client_host, reason=reason)

    async def _begin_tls(
        self, guest: "_Guest", route: BrokerRoute, sock: socket.socket, tls: ssl.SSLContext
    ) -> None:
        """Shake hands, and find out whose connection it is, and to which broker."""
        begun = False
        try:
            transport = await self._handshake(sock, guest.host, tls)
            if transport is None:
                return
            certificate = route.to(transport.asked_host)
            if certificate is None:
                close(transport)
                name = transport.asked_host
                self._refuse(guest.host, f"the cluster has no broker with the name {name}")
                return
            subject = transport.subject
            if not self._surroundings.clients_authenticate:
                try:
                    guest.slot.end_handshake(subject)
                except TooManyConnections as error:
                    close(transport)
                    self._refuse(guest.host, str(error))
                    return
            if subject is not None:
                guest.log_context.run(bind_contextvars, tls_subject=subject)
            self._begin(guest, certificate, transport)
            begun = True
        finally:
            if not begun:
                guest.slot.leave()

    def _begin(self, guest: "_Guest", route: BrokerRoute, transport: Transport) -> None:
        connection = ClientConnection(
            transport,
            client_host=guest.host,
            route=route,
            slot=guest.slot,
            context=self._surroundings,
            log_context=guest.log_context,
            tasks=self._tasks,
        )
        self._connections.add(connection)
        connection.sleep()
        if self._is_draining:
            connection.drain()

    def _forget(self, connection: ClientConnection) -> None:
        """The connection has ended. It may say so twice, if that was found as it went idle."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._limiter.traffic.record_end(connection)
        connection.slot.leave()

    async def _handshake(
        self, sock: socket.socket, client_host: str, tls: ssl.SSLContext
    ) -> TlsSocket | None:
        """Shake hands with the client. None, with the socket closed, if that fails."""
        complain, limits = self._surroundings.client_warnings.warn, self._surroundings.limits
        try:
            with trio.fail_after(limits.handshake_timeout_s):
                if not await _begins_tls(sock):
                    close(sock)
                    complain("bad_frame_received", client_host, reason=PLAIN_TEXT)
                    return None
                made = await begin_tls(sock, tls)
        except trio.TooSlowError:
            close(sock)
            complain("tls_handshake_failed", client_host, reason="the client is too slow")
        except ssl.SSLError as error:
            complain("tls_handshake_failed", client_host, reason=_why_failed(error))
        except OSError as error:  # the client has gone
            close(sock)
            log.debug("connection_lost", reason=str(error))
        except BaseException:
            close(sock)
            raise
        else:
            if not self._is_draining:
                return made
            close(made)
        return None

    async def end_idle(self) -> None:
        """Regularly close connections of silent clients."""
        limits = self._surroundings.limits
        while True:
            await trio.sleep(min(limits.idle_timeout_s, limits.half_sent_timeout_s) / IDLE_LOOKS)
            for connection in tuple(self._connections):
                connection.end_if_idle()

    def drain(self) -> None:
        """End every connection once its requests in flight are answered."""
        self._is_draining = True
        for connection in tuple(self._connections):
            connection.drain()


@dataclass(frozen=True, slots=True)
class _Guest:
    """A client that has been accepted."""

    host: str
    slot: ConnectionSlot
    log_context: contextvars.Context


def _why_failed(error: ssl.SSLError) -> str:
    """In the words of OpenSSL, which says `alert` of what the client has said."""
    explanation = getattr(error, "reason", None) or str(error)  # our own errors have no reason
    reason = explanation.lower().replace("_", " ")
    if "alert" in reason and ("certificate" in reason or "unknown ca" in reason):
        return f"the client does not accept our certificate: {reason}"
    return reason


async def _begins_tls(sock: socket.socket) -> bool:
    """Wait for the client's first byte, and look at it. Raises OSError if there is none."""
    await trio.lowlevel.wait_readable(sock)
    first = sock.recv(1, socket.MSG_PEEK)
    if not first:
        raise ConnectionResetError("closed before its first byte")
    return first == _TLS_HANDSHAKE
