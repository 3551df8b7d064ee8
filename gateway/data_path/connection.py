"""One client connection: reads requests and serves each as the table of treatments says.

The reader here and the pump of the upstream connection are its two tasks. While there is only
relaying to do, both wait and the poller's task relays; after a while both end, until there is work
for one of them. The poller also sees the client close its connection, even while no task reads, and
the request in progress ends.
"""

import contextvars

import structlog
import trio

from gateway.cluster.errors import UpstreamError
from gateway.data_path.api_table import LAST_WORDS
from gateway.data_path.authentication import Authentication
from gateway.data_path.brokers import BrokerRoute, ClientSoftware
from gateway.data_path.client_frames import REQUEST_START, SHORTEST_REQUEST, ClientFrames
from gateway.data_path.client_lifetime import ClientLifetime
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.connection_tasks import ConnectionTasks
from gateway.data_path.errors import (
    BadAnswer,
    BadFrame,
    BrokerLost,
    ConnectionAbandoned,
    ListenError,
    NotAuthenticated,
    RequestRefused,
    TooManyConnections,
    TooMuchHeld,
    UpstreamChanged,
)
from gateway.data_path.group_requests import GroupRequests
from gateway.data_path.introductions import introduce_at_once
from gateway.data_path.not_kafka import what_instead
from gateway.data_path.offer import NOTHING_OFFERED
from gateway.data_path.relayed_requests import RelayedRequests
from gateway.data_path.removal import ClientIdentity
from gateway.data_path.request_server import RequestServer
from gateway.data_path.splice import StreamEnded
from gateway.data_path.states import CLIENT_MOVES, ClientState
from gateway.data_path.stream import Arrival, FrameSource
from gateway.data_path.upstream import Upstream
from gateway.data_path.upstream_connection import SIZE
from gateway.moves import check_move
from gateway.transport.sockets import Transport, close
from kafka_codecs import WireError

log = structlog.get_logger()

HALF_SENT_LOOK_S = 0.25
"""How often a drain looks for a request that is still incomplete after its time."""

# Each arrival asks for these, and Python 3.11 takes long to find a member.
_RESTING, _SERVING, _DRAINING = ClientState.RESTING, ClientState.SERVING, ClientState.DRAINING
_STARTING = {
    ClientState.RESTING: ClientState.FINISHING,
    ClientState.SERVING: ClientState.ABANDONED,
}
_READING = frozenset({ClientState.RESTING, ClientState.SERVING, ClientState.DRAINING})


class ClientConnection:
    """Serves one client until either side closes.

    It has tasks while it `serve`s. It begins and sleeps without.
    """

    __slots__ = (
        "_authentication",
        "_begun_s",
        "_client_host",
        "_frames",
        "_groups",
        "_is_asleep",
        "_lifetime",
        "_reading",
        "_relayed",
        "_route",
        "_shared",
        "_sock",
        "_source",
        "_state",
        "_task_runner",
        "_tasks",
        "_upstream",
        "accepted_s",
        "log_context",
        "slot",
    )

    def __init__(
        self,
        sock: Transport,
        *,
        client_host: str,
        route: BrokerRoute,
        slot: ConnectionSlot,
        context: ConnectionContext,
        log_context: contextvars.Context,
        tasks: "ConnectionTasks[ClientConnection]",
    ) -> None:
        """Owns the socket. `tasks` runs `serve`, and what it logs is in `log_context`."""
        self._sock = sock
        self._client_host = client_host
        self._route = route
        self.slot = slot
        self._shared = context
        self._task_runner = tasks
        self._tasks: trio.Nursery | None = None  # while it serves
        self._reading: trio.CancelScope | None = None  # while it reads
        self._is_asleep = False
        self._state = ClientState.RESTING
        self.accepted_s = trio.current_time()
        self._begun_s = 0.0  # when the first bytes of the current request arrived
        limits = context.limits
        self._lifetime = ClientLifetime(limits)
        self._source = FrameSource(sock, context.resources, "broker", self._lifetime.end)
        self._upstream = Upstream(
            route, sock, limits=limits, resources=context.resources, slot=slot
        )
        self._authentication: Authentication | None = None
        if context.clients_authenticate:
            self._authentication = Authentication(
                self._upstream, self.slot, timeout_s=limits.handshake_timeout_s
            )
        self._frames = ClientFrames(
            sock, self._source, self._upstream, context, slot, lifetime=self._lifetime
        )
        self._relayed = RelayedRequests(self._frames, context, self._authentication)
        self.log_context = log_context
        self._groups = GroupRequests(
            self._frames,
            context,
            self._authentication,
            self._relayed,
            client_host=client_host,
            slot=slot,
            log_context=log_context,
            on_end=self._record_end_of_request,
        )

    def sleep(self) -> None:
        """Begin, or continue, without a task. Work for one may be here already."""
        self._is_asleep = True
        self._source.sleep(self._relay_arrivals, self._end_or_wake)
        if self._is_asleep:
            self._upstream.sleep(self._wake)
        if self._state not in _STARTING:
            self._wake()

    @property
    def is_asleep(self) -> bool:
        """Whether it has no task."""
        return self._is_asleep

    def go_idle(self) -> bool:
        """Let the tasks end if they have nothing to do. False if they have."""
        is_parked = self._source.is_parked and self._upstream.is_parked
        if self._tasks is None or self._state is not ClientState.RESTING or not is_parked:
            return False
        self._source.go_idle()
        self._upstream.go_idle()
        return True

    def _end_or_wake(self) -> None:
        """End without a task if the client of an idle connection has gone."""
        if not (
            self._is_asleep
            and self._state is _RESTING
            and self._source.is_at_end
            and self._upstream.connection is None
            and not self._groups.has_begun()
        ):
            self._wake()
            return
        self._is_asleep = False
        self.slot.record_end(by_client=True)
        self.close()
        self._task_runner.record_end(self)

    def _wake(self) -> None:
        if self._is_asleep:
            self._is_asleep = False
            self._source.end_sleep()
            self._upstream.end_sleep()
            self._task_runner.start(self)

    async def serve(self) -> None:
        """Serve until the end, or until `go_idle`. Errors of the connection are logged and never
        raised."""
        goes_idle = goes_on = False
        try:
            async with trio.open_nursery() as self._tasks:
                self._upstream.resume(self._tasks)
                if self._state is ClientState.DRAINING:
                    self._tasks.start_soon(self._abandon_half_sent)
                try:
                    goes_idle = await self._serve_requests()
                except Exception as error:  # Trio would keep what leaves the block in a cycle
                    self._report_end(error)
                if not goes_idle:
                    self._tasks.cancel_scope.cancel()
        except* Exception as group:
            self._report_end(group)
        else:
            goes_on = goes_idle
        finally:
            self._tasks = None
            if goes_on:
                self.sleep()
            else:
                self.close()

    async def _serve_requests(self) -> bool:
        """Returns whether the connection goes idle."""
        goes_idle = False
        if self._state in _READING:
            with trio.CancelScope() as reading:
                self._reading = reading
                try:
                    goes_idle = await self._read_requests()
                finally:
                    self._reading = None
                    if not goes_idle:
                        self.slot.record_end(by_client=self._lifetime.has_ended)
                        if self._state in _READING:
                            self._move(ClientState.FINISHING)
        if self._state is ClientState.FINISHING and not goes_idle:  # otherwise nothing is pumped
            # A Fetch may wait for minutes, and has no effect.
            only_polls = self._relayed.is_fetch_latest and self._upstream.owes_one
            with trio.move_on_after(self._shared.limits.linger_timeout_s):
                with self._lifetime.limit_work(lingers=not only_polls):
                    await self._upstream.finish()
            return False
        return goes_idle

    def _report_end(self, error: Exception) -> None:
        """Log why the connection ends."""
        client_warnings, host = self._shared.client_warnings, self._client_host
        match error:
            case ExceptionGroup():
                for member in error.exceptions:
                    self._report_end(member)
            case RequestRefused():
                client_warnings.warn(
                    "unknown_request_received",
                    host,
                    api_key=error.api_key,
                    api_version=error.api_version,
                    reason=error.reason,
                )
            case NotAuthenticated():
                client_warnings.warn("request_refused", host, reason=str(error))
            case TooManyConnections() | TooMuchHeld():
                client_warnings.warn("connection_refused", host, reason=str(error))
            case BadFrame() | WireError():
                client_warnings.warn("bad_frame_received", host, reason=str(error))
            case BadAnswer():
                client_warnings.warn("bad_answer_received", host, reason=str(error))
            case ListenError():
                log.error("broker_listener_failed", reason=str(error))
            case (
                OSError()
                | StreamEnded()
                | ConnectionAbandoned()
                | BrokerLost()
                | UpstreamChanged()
                | UpstreamError()
            ):
                log.debug("connection_lost", reason=str(error))
            case _:  # the boundary: a bug ends this connection only
                log.error("connection_failed", exc_info=error)

    @property
    def has_ended(self) -> bool:
        """Whether the sockets are closed."""
        return self._state is ClientState.CLOSED

    @property
    def client(self) -> ClientIdentity:
        """Whose connection it is."""
        return ClientIdentity(self._client_host, self.software.client_id)

    @property
    def moved_bytes(self) -> tuple[int, int]:
        """The bytes that have come from the client, and from its broker."""
        return self._source.received, self._upstream.received_bytes

    @property
    def fetches(self) -> int:
        """The client's Fetch requests."""
        return self._relayed.fetches

    @property
    def software(self) -> ClientSoftware:
        """What the client has introduced itself as."""
        return self._upstream.software

    @property
    def is_at_bootstrap(self) -> bool:
        """Whether its port is the one that `bootstrap.servers` names."""
        return self._route.node_id is None

    def drain(self) -> None:
        """Read no further request, answer those in flight, then end `serve`."""
        if self._state is ClientState.RESTING:
            self._stop_reading(ClientState.FINISHING)
        elif self._state is ClientState.SERVING:
            self._move(ClientState.DRAINING)
            if self._tasks is not None:
                self._tasks.start_soon(self._abandon_half_sent)
            else:
                self._wake()

    def end_if_idle(self) -> None:
        """End `serve` if the client has been silent for too long."""
        since_s, limits = self._source.waits_since_s, self._shared.limits
        if since_s is None or self._groups.has_begun():
            return
        now_s = trio.current_time()
        waits_s = now_s - since_s
        authentication = self._authentication
        is_overdue = authentication is not None and authentication.is_overdue(now_s)
        if self._state in _STARTING and is_overdue:
            reason = "the client has not authenticated in time"
            self._shared.client_warnings.warn("request_refused", self._client_host, reason=reason)
            self._stop_reading(_STARTING[self._state])
            return
        if self._state is ClientState.RESTING:
            if waits_s >= limits.idle_timeout_s and self._upstream.is_idle:
                self._stop_reading(ClientState.FINISHING)
        elif self._state is ClientState.SERVING:
            begun_s = now_s - self._begun_s
            if waits_s >= limits.half_sent_timeout_s or begun_s >= limits.idle_timeout_s:
                self._shared.client_warnings.warn("half_sent_request", self._client_host)
                self._stop_reading(ClientState.ABANDONED)

    async def _abandon_half_sent(self) -> None:
        """End `serve` after a while unless the request has arrived. It may still be waiting for the
        broker then, and for its rest afterwards."""
        await trio.sleep(self._shared.limits.linger_timeout_s)
        while self._state is ClientState.DRAINING:
            is_answering = self._groups.has_begun()
            if self._source.waits_since_s is not None and not is_answering:
                self._stop_reading(ClientState.ABANDONED)
            await trio.sleep(HALF_SENT_LOOK_S)

    def _stop_reading(self, state: ClientState) -> None:
        self._move(state)
        if self._reading is not None:
            self._reading.cancel()
        else:
            self._wake()

    def _move(self, state: ClientState) -> None:
        self._state = check_move(CLIENT_MOVES, self._state, state)

    def close(self) -> None:
        """Close the sockets immediately. No task may `serve`."""
        if self._state in _READING:
            self._move(ClientState.FINISHING)
        self._upstream.close()
        self._groups.close()
        self._frames.let_go()
        self._source.close()
        close(self._sock)
        self._move(ClientState.CLOSED)

    async def _read_requests(self) -> bool:
        """Read until the end, or until `go_idle`. Returns whether it was the latter."""
        self._source.raise_error()
        requests = RequestServer(
            self._frames,
            self._shared,
            self._authentication,
            self._relayed,
            self._groups,
            client_host=self._client_host,
            slot=self.slot,
        )
        while (arrival := await self._relay_up_to_work()) is Arrival.WORK:
            await self._work(requests)
            self._frames.let_go()
            self._begun_s = trio.current_time()
            if self._state is ClientState.DRAINING:
                break
            if not self._source.is_empty():
                await trio.lowlevel.checkpoint()  # a client may send many requests at once
        while self._source.has_run or self._source.rest:
            await self._catch_up()
            if self._source.rest and not await self._source.fill():
                raise StreamEnded
        return arrival is Arrival.IDLE

    async def _work(self, requests: RequestServer) -> None:
        """Finish the request that has begun, or serve the next one. It ends with its client, unless
        it counts without. Raises ConnectionAbandoned if nothing can follow it."""
        source, groups = self._source, self._groups
        begin = end = source.position
        size = 0
        if groups.has_begun():
            work, lingers = groups.finish_begun, groups.lingers
        else:
            size, api_key, _version, _correlation_id = source.unpack(REQUEST_START)
            end += SIZE.size + size
            work, lingers = requests.serve, api_key in LAST_WORDS
        is_overdue = False
        if lingers or not self._lifetime.has_ended:
            with self._lifetime.limit_work(lingers=lingers) as scope:
                await work()
            if not scope.cancelled_caught:
                return
            is_overdue = scope.deadline <= trio.current_time()
        is_torn = source.has_run or source.position not in (begin, end)
        if is_overdue or is_torn or self._frames.is_sending:
            raise ConnectionAbandoned("its client has gone")
        groups.abandon()
        self._frames.silence()
        if source.position < end:
            await source.drop(size)

    async def _relay_up_to_work(self) -> Arrival:
        """Relay requests, until the next one has to be served otherwise: WORK. END after the last,
        DOZE after `go_idle`."""
        source, poller = self._source, self._shared.resources.poller
        while self._state is not ClientState.DRAINING and not self._groups.has_begun():
            poller.begin_turn()  # the latest may have begun long before the task resumed
            if self._relay_requests():
                arrival = await self._arrivals()
                if arrival is Arrival.IDLE:
                    return arrival
                if arrival is Arrival.END:
                    return Arrival.WORK if self._groups.has_begun() else arrival
            elif source.has_run or source.rest:
                await self._catch_up()
            else:
                return Arrival.WORK
        if self._groups.has_begun():
            return Arrival.WORK
        # Of the requests that have arrived, only one that is incomplete is still served.
        while not source.is_empty() and not source.rest:
            if source.ready(REQUEST_START.size):
                return Arrival.WORK
            if not await source.fill():
                raise StreamEnded
        return Arrival.END

    def _relay_requests(self) -> bool:
        """Relay or answer the requests that are here. False if one takes time, or the broker takes
        no more for now."""
        source, upstream = self._source, self._upstream.connection
        if self._groups.has_begun():
            return False  # as in a broker, what follows a commit waits for it
        relay_at_once, is_new = self._relayed.relay_at_once, False
        is_known = self._upstream.offer is not NOTHING_OFFERED
        answer_at_once = self._groups.answer_at_once if is_known else self._answer_first
        while (start := source.next_start(REQUEST_START)) is not None:
            size, api_key, version, correlation_id = start
            self._check_size(size)
            is_done = upstream is not None and relay_at_once(
                upstream, size, api_key, version, correlation_id
            )
            if not is_done and (
                self._lifetime.has_ended  # what still counts is left to the task
                or not answer_at_once(size, api_key, version)
            ):
                return False
            is_new = True
        if not source.is_empty():
            if not source.rest and source.ready(SIZE.size):
                self._check_size(*source.unpack(SIZE))  # after a bad size nothing more may come
            if is_new or (source.has_run and not source.rest):  # the one before has ended
                self._begun_s = trio.current_time()
            if source.rest_is_long:
                return False
        return upstream is None or source.send_run(upstream.sock)

    def _answer_first(self, size: int, api_key: int, version: int) -> bool:
        """Answer one of the first requests of the client immediately. False if it is to be
        served."""
        if self._upstream.is_negotiated:
            return self._groups.answer_at_once(size, api_key, version)
        answer = introduce_at_once(self._frames, self._shared, self.slot, size, api_key)
        if answer is None:
            return self._groups.answer_at_once(size, api_key, version)
        if self._sock.send(answer) < len(answer):  # the first bytes of a connection find room
            raise StreamEnded
        return True

    async def _arrivals(self) -> Arrival:
        """Wait for what cannot be relayed immediately."""
        if self._source.is_empty() and not self._groups.has_begun():
            if self._state is not ClientState.RESTING:
                self._move(ClientState.RESTING)
            self._task_runner.record_rest(self)
        arrival = await self._source.arrivals(self._relay_arrivals)
        if arrival is Arrival.END and not self._source.is_empty():
            raise StreamEnded
        return arrival

    def _relay_arrivals(self) -> bool:
        has_rested = self._state is _RESTING
        if not has_rested and self._state is not _SERVING:
            return False
        is_done = self._relay_requests()
        rests = is_done and self._source.is_empty() and not self._groups.has_begun()
        if has_rested and not rests:
            self._begun_s = self._shared.resources.poller.turn_s
            self._move(_SERVING)
        elif rests and not has_rested:
            self._move(_RESTING)
        return is_done

    def _record_end_of_request(self) -> None:
        """A request that was under way without a task has its answer."""
        if self._groups.has_begun() or self._state is _DRAINING:
            self._source.wake()
        elif self._state is _SERVING and self._source.is_parked:
            self._move(_RESTING)

    async def _catch_up(self) -> None:
        upstream = self._upstream.connection
        assert upstream is not None, "a request was relayed"
        with self._lifetime.limit_work(lingers=True) as scope:
            await self._source.catch_up(upstream.sock)
        if scope.cancelled_caught:
            raise ConnectionAbandoned("its client has gone, and its broker takes nothing")

    def _check_size(self, size: int) -> None:
        if not SHORTEST_REQUEST <= size <= self._shared.limits.max_request_bytes:
            raise BadFrame(what_instead(SIZE.pack(size)) or f"a request of {size} bytes")
