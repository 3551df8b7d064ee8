"""One connection to a broker, for a client's requests and for the gateway's own on its behalf.

A broker answers in the order of its requests, so a queue of expected answers says whose each one
is.
"""

import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import trio

from gateway.cluster.broker_connection import (
    Versions,
)
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.errors import BadAnswer, BrokerLost, UpstreamAway
from gateway.data_path.expected_answers import ExpectedAnswer, Inspect, Inspected, blaming_broker
from gateway.data_path.held_answers import HeldAnswer
from gateway.data_path.held_requests import COUNTED_FROM_BYTES
from gateway.data_path.states import UPSTREAM_MOVES, UpstreamState
from gateway.data_path.stream import Arrival, FrameSource, OnWork, StreamResources
from gateway.moves import check_move
from gateway.transport.sockets import NullSink, Sink, Transport, close, send_all
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader, encode_request_header

SIZE = struct.Struct(">i")
CORRELATION_ID_IN_ANSWER = 4
CORRELATION_ID_IN_REQUEST = 8
_INT32 = struct.Struct(">i")
_ANSWER_START = struct.Struct(">ii")  # size, correlation id
_SHORTEST_ANSWER = 4
_CORRELATION_ID_MAX = 2**31 - 1
_NULL_SINK = NullSink()
# Every answer asks, and Python 3.11 takes long to find an Enum's member.
_OPEN, _FAILED = UpstreamState.OPEN, UpstreamState.FAILED

Take = Callable[[bytes], Awaitable[bytes]]
"""Turns a held upstream answer (without its size) into a frame for the client."""


class _Changed(NamedTuple):
    """An expected answer that the client gets with another correlation id, or through `take`."""

    upstream_correlation_id: int
    client_correlation_id: int
    take: Take | None


class UpstreamConnection:
    """A connection to a broker, for one client.

    One task sends: the reader of the client's requests, or `send` while that reader waits for its
    answer. Another task runs `pump`.
    """

    __slots__ = (
        "_answers",
        "_asked",
        "_asking",
        "_changed",
        "_client",
        "_expected",
        "_has_unsent",
        "_last_unanswered_id",
        "_limits",
        "_next_id",
        "_slot",
        "_source",
        "sock",
        "state",
        "versions",
    )

    def __init__(
        self,
        sock: Transport,
        versions: Versions,
        *,
        limits: Limits,
        resources: StreamResources,
        slot: ConnectionSlot,
    ) -> None:
        """`slot`: whose connection it is."""
        self.versions = versions
        """The broker's versions by api key."""
        self.sock = sock
        self.state = UpstreamState.OPEN
        self._limits = limits
        self._slot = slot
        self._answers = resources.answers
        self._source = FrameSource(self.sock, resources, "client")
        # Just the correlation id of an answer that passes unchanged: nearly all of them. They are
        # few, and an empty deque is 600 bytes.
        self._expected: list[int | _Changed | ExpectedAnswer | Inspected] = []
        self._has_unsent = False  # whether an answer has not completely left for the client
        self._asked = 0  # the number of `ExpectedAnswer` and `Inspected` in `_expected`
        # Only while a client waits: each lot has 300 bytes.
        self._changed: trio.lowlevel.ParkingLot | None = None
        self._asking: trio.Lock | None = None
        self._client: Sink = _NULL_SINK
        self._next_id = 0
        self._last_unanswered_id = 0  # none yet

    # For the reader of the client's requests.

    def has_room(self) -> bool:
        """Whether another request can be sent immediately: the gateway's own go out whole."""
        return (
            self.state is _OPEN
            and len(self._expected) < self._limits.max_pipelined
            and self._asking is None
        )

    @property
    def received_bytes(self) -> int:
        """The bytes that the broker has sent."""
        return self._source.received

    def expect(self, client_correlation_id: int, take: Take | None = None) -> int:
        """Expect an answer to the next request sent. Returns the correlation id to send it with:
        the client's own unless that is negative, as those of unanswered requests are."""
        if client_correlation_id >= 0 and take is None:
            self._expected.append(client_correlation_id)
            return client_correlation_id
        upstream_id = self._take_id()
        self._expected.append(_Changed(upstream_id, client_correlation_id, take))
        return upstream_id

    def unanswered_id(self) -> int:
        """A correlation id for a request without an answer. If the broker answers anyway, it is
        dropped."""
        last = self._last_unanswered_id
        self._last_unanswered_id = last - 1 if last > -_CORRELATION_ID_MAX else -1
        return self._last_unanswered_id

    async def send_held(self, request: bytes, upstream_correlation_id: int) -> None:
        """Send a held request (without its size) under this id. Raises BrokerLost."""
        frame = bytearray(SIZE.pack(len(request)) + request)
        _INT32.pack_into(frame, CORRELATION_ID_IN_REQUEST, upstream_correlation_id)
        await self._send_whole(frame)

    def send_inspected(
        self, request: bytearray, client_correlation_id: int, inspect: Inspect
    ) -> tuple[Inspected, memoryview]:
        """Send a request, with its size, whose answer `inspect` sees first. Returns the expected
        answer, and what could not be sent immediately. The connection must have room."""
        expected = Inspected(self._take_id(), client_correlation_id, inspect)
        _INT32.pack_into(request, CORRELATION_ID_IN_REQUEST, expected.upstream_correlation_id)
        self._expected.append(expected)
        self._asked += 1
        try:
            sent = self.sock.send(request)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.give_up()
            sent = len(request)
        return expected, memoryview(request)[sent:]

    async def send_rest(self, rest: memoryview) -> None:
        """Send what `send_inspected` could not. Raises BrokerLost."""
        await self._send_whole(rest)

    async def room(self) -> None:
        """Wait until the number of expected answers is below its limit."""
        while len(self._expected) >= self._limits.max_pipelined:
            await self._change()

    @property
    def is_idle(self) -> bool:
        """Whether all answers for the client have been sent. Never again once one was lost."""
        return (
            not self._has_unsent
            and len(self._expected) == self._asked
            and self.state is not _FAILED
        )

    @property
    def owes_one(self) -> bool:
        """Whether exactly one answer for the client is outstanding, and every request has one."""
        return len(self._expected) - self._asked == 1 and not self._last_unanswered_id

    async def idle(self) -> None:
        """Wait until `is_idle`. Raises BrokerLost if an answer was lost: the client would take the
        next one for it."""
        while not self.is_idle:
            if self.state is _FAILED:
                raise BrokerLost
            await self._change()

    async def finish(self) -> None:
        """Wait until the client has all answers, and the broker has all requests without one.

        A close would not wait for the latter: an answer that the broker sends anyway would reset
        the connection, and requests that it has not read would be lost.
        """
        await self.idle()
        if self._last_unanswered_id < 0 and self.state is UpstreamState.OPEN:
            self._last_unanswered_id = 0  # the broker's close now means that it has read them
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
            while self.state is UpstreamState.OPEN:
                await self._change()

    # For the gateway's own requests.

    async def send(
        self, messages: Sequence[Struct], version: int, client_id: str | None
    ) -> Sequence[ExpectedAnswer]:
        """Send requests of one api at once, as the client, while the client's request is being
        answered. The broker answers them in this order.

        Raises BrokerLost if the connection ends first, so that it is unknown whether the broker
        acts; UpstreamAway if the connection had ended already. Raises ValueError for a version that
        the broker does not support. The connection stays usable if the caller is cancelled.
        """
        key = messages[0].SCHEMA.api_key
        assert key is not None
        low, high = self.versions.get(key, (0, -1))
        if not low <= version <= high:
            raise ValueError(f"the upstream does not speak {key.name} version {version}")
        bodies = [encode(message, version) for message in messages]
        asking = self._asking = self._asking or trio.Lock()
        try:
            asking.acquire_nowait()  # `acquire` switches tasks even if the lock is free
        except trio.WouldBlock:
            await asking.acquire()
        try:
            await self.room()
            if self.state is not UpstreamState.OPEN:
                raise UpstreamAway
            sent = [ExpectedAnswer(self._take_id(), key, version) for _ in bodies]
            self._expected += sent
            self._asked += len(sent)
            await self._send_whole(
                b"".join(
                    [
                        _request(expected.upstream_correlation_id, key, version, client_id, body)
                        for expected, body in zip(sent, bodies, strict=True)
                    ]
                )
            )
        finally:
            asking.release()
            if not asking.locked():
                self._asking = None
        return sent

    # For the owner of the connection.

    async def pump(self, client: Sink) -> None:
        """Send answers to `client`, in order, until either side ends.

        Answers to a client that has gone are dropped, because its last requests may need none: they
        still reach the broker. Raises BrokerLost if the broker closed, BadAnswer if it sent
        an invalid frame. Tasks that wait for an answer get None. Returns only after `go_idle`.
        """
        try:
            with blaming_broker():
                try:
                    goes_idle = await self._pump_to(client)
                except OSError:
                    goes_idle = await self._pump_to(_NULL_SINK)
        except BaseException:
            self._end()
            raise
        if not goes_idle:
            self._end()
            raise BrokerLost

    def silence(self) -> None:
        """Drop all answers from now on."""
        self._client = _NULL_SINK

    @property
    def is_parked(self) -> bool:
        """Whether `pump` has nothing to do."""
        return self.state is UpstreamState.OPEN and self._source.is_parked

    def go_idle(self) -> None:
        """Let `pump`, which has nothing to do, return."""
        self._source.go_idle()

    def sleep(self, client: Sink, on_work: OnWork) -> None:
        """Send answers to `client` without a task, until there is work for `pump`."""
        self._client = client
        self._source.sleep(self._relay_answers, on_work)

    def end_sleep(self) -> None:
        """From now on `pump` has to send them."""
        self._source.end_sleep()

    def give_up(self) -> None:
        """Give up on the broker: `pump` ends as if the broker had closed."""
        self._end()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. No task may be waiting on it."""
        self._end()
        self._source.close()
        close(self.sock)
        self._move(UpstreamState.CLOSED)

    async def _pump_to(self, sink: Sink) -> bool:
        """Send answers to `sink` until the broker closes, or until `go_idle`. Returns whether the
        latter ended it. Raises OSError if the sink is gone."""
        source, self._client = self._source, sink
        source.raise_error()
        while self.state is UpstreamState.OPEN:
            if self._relay_answers():
                arrival = await source.arrivals(self._relay_answers)
                if arrival is not Arrival.WORK:
                    return arrival is Arrival.IDLE
            elif source.has_run or source.rest:
                await source.catch_up(self._client)
                self._record_sent()
            else:
                await self._take_answer(*source.unpack(_ANSWER_START))
        return False

    def _relay_answers(self) -> bool:
        """Deal with the answers that are here. False if one has to be awaited, or the client takes
        no more for now."""
        source = self._source
        while (start := source.next_start(_ANSWER_START)) is not None:
            size, upstream_id = start
            if not self._expected or size < _SHORTEST_ANSWER or self.state is not _OPEN:
                return False
            expected = self._expected[0]
            if expected == upstream_id:
                del self._expected[0]
                self._has_unsent = True
                source.relay(size)
            elif not self._deliver(expected, size, upstream_id):
                return False
        if (source.rest and source.rest_is_long) or not source.send_run(self._client):
            return False
        self._record_sent()
        return True

    def _deliver(
        self, expected: int | _Changed | ExpectedAnswer | Inspected, size: int, upstream_id: int
    ) -> bool:
        """Deal with an answer that does not pass unchanged. One for the gateway must be here
        completely."""
        source = self._source
        if isinstance(expected, int) or expected.upstream_correlation_id != upstream_id:
            return False
        if isinstance(expected, _Changed):
            if expected.take is not None:
                return False
            del self._expected[0]
            self._relay_as(expected.client_correlation_id, size)
            return True
        is_here = source.ready(SIZE.size + size)
        if not is_here or source.has_run or size > self._limits.max_held_answer_bytes:
            return False
        del self._expected[0]
        self._asked -= 1
        if isinstance(expected, ExpectedAnswer):
            expected.arrive(source.take_out(size))
        elif expected.arrive(bytes(source.head()[SIZE.size : SIZE.size + size])):
            self._relay_as(expected.client_correlation_id, size)
        else:
            source.take_out(size)
        return True

    def _relay_as(self, client_correlation_id: int, size: int) -> None:
        self._has_unsent = True
        self._source.patch(CORRELATION_ID_IN_ANSWER, client_correlation_id)
        self._source.relay(size)

    async def _take_answer(self, size: int, upstream_id: int) -> None:
        """Take out an answer that is not simply relayed."""
        if size < _SHORTEST_ANSWER:
            raise BadAnswer(f"the broker sent a frame of {size} bytes")
        if upstream_id < 0:
            await self._source.drop(size)
            return
        expected = self._expected[0] if self._expected else None
        if isinstance(expected, int | None) or expected.upstream_correlation_id != upstream_id:
            raise BadAnswer(f"the broker sent answer {upstream_id} out of turn")
        del self._expected[0]
        if isinstance(expected, _Changed):
            self._has_unsent = True
        else:
            self._asked -= 1
        frame = room = None
        is_for_client = False
        try:
            room = await self._find_room(size)
            frame = await self._source.hold(size)
            if isinstance(expected, _Changed):
                await send_all(self._client, await _change(expected, frame))
        finally:
            # The requester keeps the room until the answer is decoded.
            if room is not None and (frame is None or not isinstance(expected, ExpectedAnswer)):
                room.free()
            if isinstance(expected, ExpectedAnswer):
                expected.arrive(frame, room)
            elif isinstance(expected, Inspected):
                is_for_client = expected.arrive(frame)
        if isinstance(expected, Inspected) and is_for_client:
            start = SIZE.pack(size) + SIZE.pack(expected.client_correlation_id)
            self._has_unsent = True
            await send_all(self._client, start + frame[SIZE.size :])
        if is_for_client or isinstance(expected, _Changed):
            self._record_sent()

    async def _find_room(self, size: int) -> HeldAnswer | None:
        """Wait until an answer may be held; a short one always may. Raises BadAnswer,
        TooMuchHeld."""
        if size > self._limits.max_held_answer_bytes:
            raise BadAnswer(
                f"the broker sent an answer of {size} bytes, above the limit for its api"
            )
        if size < COUNTED_FROM_BYTES:
            return None
        return await self._answers.take(self._slot.owner, size)

    def _record_sent(self) -> None:
        """The client has all answers that were taken, except for the rest of the last."""
        self._has_unsent = self._source.rest > 0
        if self._changed is not None:
            self._report_change(self._changed)

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = trio.lowlevel.ParkingLot()
        await self._changed.park()

    def _report_change(self, waiting: trio.lowlevel.ParkingLot) -> None:
        self._changed = None
        waiting.unpark_all()

    async def _send_whole(self, frame: bytes | bytearray | memoryview) -> None:
        try:
            await send_all(self.sock, frame)
        except BaseException as error:
            self.give_up()  # a partial request may be out, and the broker would misread the next
            if isinstance(error, (OSError, trio.ClosedResourceError)):
                raise BrokerLost from None
            raise

    def _take_id(self) -> int:
        taken = self._next_id
        self._next_id = taken + 1 if taken < _CORRELATION_ID_MAX else 0
        return taken

    def _end(self) -> None:
        if self.state is not UpstreamState.OPEN:
            return
        owes = not self.is_idle or self._last_unanswered_id < 0
        self._move(UpstreamState.FAILED if owes else UpstreamState.ENDED)
        lost, self._expected = self._expected, []
        self._asked, self._has_unsent = 0, False
        for expected in lost:
            if isinstance(expected, ExpectedAnswer | Inspected):
                expected.arrive(None)
        if self._changed is not None:
            self._report_change(self._changed)

    def _move(self, state: UpstreamState) -> None:
        self.state = check_move(UPSTREAM_MOVES, self.state, state)


def _request(
    correlation_id: int, key: ApiKey, version: int, client_id: str | None, body: bytes
) -> bytes:
    header = RequestHeader(
        api_key=key, api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    start = encode_request_header(header)
    return SIZE.pack(len(start) + len(body)) + start + body


async def _change(expected: _Changed, frame: bytes) -> bytes:
    """The answer as the client gets it. Raises BadAnswer if that cannot be made, because an OSError
    would count as the end of the client."""
    assert expected.take is not None
    try:
        return await expected.take(frame)
    except OSError as error:
        raise BadAnswer(f"an answer could not be changed: {error}") from None
