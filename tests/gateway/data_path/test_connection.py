"""One client connection, in front of a fake broker, until its end."""

import contextvars
import select
import socket
import struct
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from typing import cast

import pytest
import structlog
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.data_path import brokers, stream
from gateway.data_path.brokers import BrokerRoute, Brokers
from gateway.data_path.config import Limits
from gateway.data_path.connected_clients import ConnectedClients
from gateway.data_path.connection import ClientConnection
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.connection_tasks import ConnectionTasks
from gateway.data_path.errors import BrokerLost
from gateway.data_path.grants import Grants
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.data_path.held_requests import HeldRequests
from gateway.data_path.listeners import Listeners
from gateway.quotas.quota_key import QuotaKey
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.client_connection import (
    HEARTBEAT,
    Ground,
    Parked,
    answer_after,
    go_idle_soon,
    ground,
)
from tests.support.fake_broker import (
    answer_bytes,
)
from tests.support.garbage import count, freed_at_once
from tests.support.until import until
from tests.support.wire import Wire, open_wire, produce_body, request_frame

BAD_FRAMES = {
    "negative size": struct.pack(">ihhi", -5, 1, 4, 1),
    "size below the header": struct.pack(">ihhi", 7, 1, 4, 1),
    "size above the limit": struct.pack(">ihhi", 2**31 - 1, 1, 4, 1),
    "no client id": struct.pack(">ihhi", 8, 12, 4, 1),
    "client id longer than the frame": struct.pack(">ihhih", 10, 12, 4, 1, 500),
    "group request of garbage": request_frame(ApiKey.HEARTBEAT, 4, 1, b"\xff" * 50),
    "produce without acks": request_frame(ApiKey.PRODUCE, 9, 1, b""),
    "produce with a negative string": struct.pack(">ihhih", 40, 0, 8, 1, -7) + b"x" * 40,
    "api versions of garbage": request_frame(ApiKey.API_VERSIONS, 3, 1, b"\xff" * 50),
    "held request above the limit": struct.pack(">ihhi", 50_000_000, 12, 4, 1),
}


@pytest.fixture(autouse=True, params=["awake", "sleepy"])
def sleepiness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule holds whether a connection keeps its tasks or not."""
    if request.param == "sleepy":
        monkeypatch.setattr(ConnectionTasks, "record_rest", go_idle_soon)


@pytest.mark.parametrize("name", BAD_FRAMES)
async def test_a_malformed_frame_closes_its_connection_with_one_line(name: str) -> None:
    """The line is a warning without a traceback, and no other connection is affected."""
    async with ground() as on, open_wire(on.gateway.address) as other:
        await other.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await other.frame()
        with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
            await on.client.send(BAD_FRAMES[name])
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["bad_frame_received"]
        assert lines[0]["log_level"] == "warning"
        assert "exc_info" not in lines[0]
        assert lines[0]["connection_id"]
        await other.send(request_frame(ApiKey.FETCH, 4, 2, b""))
        await other.frame()


async def test_a_connection_that_has_ended_needs_no_garbage_collection() -> None:
    """Garbage would keep buffers and permissions for hundreds of thousands of requests."""
    with freed_at_once(ClientConnection):
        async with ground() as on:
            async with open_wire(on.gateway.address) as wire:
                await wire.send(request_frame(ApiKey.FETCH, 4, 1, b""))
                await wire.frame()
            async with open_wire(on.gateway.address) as wire:
                await wire.send(request_frame(ApiKey.FETCH, 4, 1, b""))
                await wire.frame()
                await wire.send(BAD_FRAMES["negative size"])
                assert await wire.at_end()
            await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            await on.client.frame()
            with trio.fail_after(5):
                await until(lambda: count(ClientConnection) == 1)


async def test_no_buffer_is_lent_while_brokers_are_being_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes 128 KiB, and clients come back together after an outage."""
    made: list[memoryview] = []
    new_buffer = stream.new_buffer

    def new_buffer_counted() -> memoryview:
        made.append(new_buffer())
        return made[-1]

    monkeypatch.setattr(stream, "new_buffer", new_buffer_counted)
    monkeypatch.setattr(brokers, "VERSIONS_FRESH_S", -1.0)
    asked: list[RequestHeader] = []
    go_on = trio.Event()

    async def answer_later(wire: Wire, header: RequestHeader, body: bytes) -> None:
        asked.append(header)
        await go_on.wait()
        await on.broker.answer_versions(wire, header, body)

    async with ground() as on, AsyncExitStack() as stack:
        on.broker.handlers[ApiKey.API_VERSIONS] = answer_later
        clients = [await stack.enter_async_context(open_wire(on.gateway.address)) for _ in range(9)]
        for client in clients:
            await client.send(request_frame(ApiKey.FETCH, 4, 1, b"abc"))
        await until(lambda: asked)
        await trio.testing.wait_all_tasks_blocked(0.001)
        assert len(made) == 1, "one client after another has borrowed it"
        assert len(asked) == 1, "the others wait for what the first one learns"
        go_on.set()
        for client in clients:
            assert struct.unpack(">ii", await client.frame()) == (1, 3)


async def test_fragmented_frames_are_reassembled() -> None:
    """The broker receives whole requests in order, in whatever pieces the bytes arrive."""
    frames = [
        request_frame(ApiKey.FETCH, 4, 1, b"abc"),
        request_frame(ApiKey.PRODUCE, 9, 2, produce_body(9, -1, b"abc")),
        request_frame(ApiKey.PRODUCE, 3, 3, produce_body(3, 0, b"abc")),
        request_frame(ApiKey.METADATA, 9, 4, encode(MetadataRequest(topics=()), 9)),
        request_frame(ApiKey.FETCH, 4, 5, b""),
    ]
    whole = b"".join(frames)
    async with ground() as on:
        for cut in range(1, len(whole)):
            await on.client.send(whole[:cut])
            await trio.testing.wait_all_tasks_blocked(0.0005)
            await on.client.send(whole[cut:])
            answered = [struct.unpack_from(">i", await on.client.frame())[0] for _ in range(4)]
            assert answered == [1, 2, 4, 5], cut


async def test_a_connection_cut_within_a_frame_is_closed_upstream() -> None:
    """The broker sees half a request, and the gateway keeps nothing of it."""
    whole = request_frame(ApiKey.PRODUCE, 9, 2, produce_body(9, -1, b"abc" * 1000))
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await on.client.frame()
        watched = on.broker.connections
        for cut in (1, 3, 5, 11, 13, 20, 24, 100, len(whole) - 1):
            async with open_wire(on.gateway.address) as client:
                await client.send(whole[:cut])
        await on.broker.down_to(watched)


async def test_the_end_of_the_upstream_ends_the_client_connection() -> None:
    """This holds within an answer as well: the client sees a torn frame, never a wrong one."""

    async def answer_half(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.send(struct.pack(">ii", 1000, header.correlation_id) + b"x" * 100)
        await wire.stream.aclose()

    async with ground() as on:
        on.broker.handlers[ApiKey.FETCH] = answer_half
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        assert len(await on.client.receive(108)) == 108
        assert await on.client.at_end()


async def test_the_end_of_a_client_ends_its_upstream_connection() -> None:
    """Each client connection has one upstream connection."""
    async with ground() as on:
        before = on.broker.connections
        async with open_wire(on.gateway.address) as client:
            await client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            await client.frame()
            assert on.broker.connections == before + 1
        await on.broker.down_to(before)


async def test_requests_of_a_client_that_has_gone_reach_the_broker() -> None:
    """A producer without acknowledgements has sent its last records when it disappears, whatever
    other answer it does not wait for."""
    asked, release = trio.Event(), trio.Event()
    produced: list[int] = []

    async def fetch(wire: Wire, header: RequestHeader, body: bytes) -> None:
        asked.set()
        await release.wait()
        await answer_bytes(wire, header, b"")

    async def produce(wire: Wire, header: RequestHeader, body: bytes) -> None:
        produced.append(header.correlation_id)

    async with ground(limits=Limits(max_pipelined=1)) as on:
        on.broker.handlers |= {ApiKey.FETCH: fetch, ApiKey.PRODUCE: produce}
        async with open_wire(on.gateway.address) as client:
            await client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            for _ in range(3):
                await client.send(request_frame(ApiKey.PRODUCE, 3, 2, produce_body(3, 0, b"abc")))
            await asked.wait()
            linger = struct.pack("ii", 1, 0)  # the close resets the connection
            client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        release.set()
        await until(lambda: len(produced) == 3)


async def test_a_broker_that_answers_produce_without_acks_gets_all_of_them() -> None:
    """librdkafka's mock cluster does. An answer to a closed connection would reset it, so the
    gateway keeps its connection until the broker has read everything."""
    release = trio.Event()
    produced: list[int] = []

    async def produce(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await release.wait()
        produced.append(header.correlation_id)
        await answer_bytes(wire, header, b"")

    async with ground() as on:
        on.broker.handlers[ApiKey.PRODUCE] = produce
        async with open_wire(on.gateway.address) as client:
            for _ in range(3):
                await client.send(request_frame(ApiKey.PRODUCE, 3, 2, produce_body(3, 0, b"abc")))
        await trio.testing.wait_all_tasks_blocked(0.05)
        release.set()
        await until(lambda: len(produced) == 3)


async def test_a_half_closed_client_gets_its_answers() -> None:
    """The client gets the answers that the broker owes; then the connection is closed."""
    asked, release = trio.Event(), trio.Event()

    async def produce(wire: Wire, header: RequestHeader, body: bytes) -> None:
        asked.set()
        await release.wait()
        await answer_bytes(wire, header, b"")

    async with ground() as on:
        on.broker.handlers[ApiKey.PRODUCE] = produce
        produced = request_frame(ApiKey.PRODUCE, 3, 1, produce_body(3, -1))
        await on.client.send(produced + request_frame(ApiKey.FETCH, 4, 2, b""))
        await asked.wait()
        await on.client.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked(0.01)
        release.set()
        for correlation_id in (1, 2):
            assert struct.unpack_from(">i", await on.client.frame()) == (correlation_id,)
        assert await on.client.at_end()


async def test_the_number_of_pipelined_requests_is_limited() -> None:
    """The client's socket holds back further requests until the upstream has answered."""
    taken: list[tuple[Wire, RequestHeader]] = []

    async def take(wire: Wire, header: RequestHeader, body: bytes) -> None:
        taken.append((wire, header))

    async def until_taken(number: int) -> None:
        await until(lambda: len(taken) == number)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(taken) == number

    async with ground(limits=Limits(max_pipelined=3)) as on:
        on.broker.handlers[ApiKey.FETCH] = take
        frames = [request_frame(ApiKey.FETCH, 4, place, b"") for place in range(20)]
        await on.client.send(b"".join(frames))
        for place in range(20):
            await until_taken(min(place + 3, 20))
            await answer_bytes(*taken[place], b"")
            assert struct.unpack_from(">i", await on.client.frame()) == (place,)


async def test_an_answer_out_of_order_ends_the_connection() -> None:
    """No answer may be mistaken for that of another request."""

    async def answer_wrongly(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.send(struct.pack(">ii", 4, header.correlation_id + 1))

    async with ground() as on:
        on.broker.handlers[ApiKey.FETCH] = answer_wrongly
        with capture_logs() as lines:
            await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["bad_answer_received"]


async def test_no_answer_of_the_gateway_follows_one_that_the_broker_has_lost() -> None:
    """The client would take it for the lost one. Trio's order of tasks is random, so many try."""

    class AfterTheBroker(GroupApis):
        async def answer(self, request: GroupRequest) -> Struct:
            with suppress(BrokerLost):
                await request.upstream.ask(HEARTBEAT, 4)
            return HeartbeatResponse()

    async def never_answer(wire: Wire, header: RequestHeader, body: bytes) -> None:
        pass

    async def hang_up(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.stream.aclose()

    async with ground(group_apis=AfterTheBroker()) as on:
        on.broker.handlers |= {ApiKey.FETCH: never_answer, ApiKey.HEARTBEAT: hang_up}
        for _ in range(20):
            async with open_wire(on.gateway.address) as client:
                await client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
                await client.send(request_frame(ApiKey.HEARTBEAT, 4, 2, encode(HEARTBEAT, 4)))
                assert await client.at_end()


async def test_an_answer_beyond_the_limit_ends_the_connection() -> None:
    """The gateway allocates nothing of its size."""

    async def answer_long(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.send(struct.pack(">ii", 2**31 - 1, header.correlation_id))

    async with ground() as on:
        on.broker.handlers[ApiKey.METADATA] = answer_long
        with capture_logs() as lines:
            await on.client.send(
                request_frame(ApiKey.METADATA, 9, 1, encode(MetadataRequest(topics=()), 9))
            )
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["bad_answer_received"]


async def test_a_bug_in_the_group_code_ends_only_one_connection() -> None:
    """The error is logged with its traceback, and the gateway continues."""

    class Broken(GroupApis):
        async def answer(self, request: GroupRequest) -> Struct:
            raise RuntimeError("a bug")

    async with ground(group_apis=Broken()) as on:
        with capture_logs() as lines:
            await on.client.send(request_frame(ApiKey.HEARTBEAT, 4, 1, encode(HEARTBEAT, 4)))
            assert await on.client.at_end()
        assert [(line["event"], line["log_level"]) for line in lines] == [
            ("connection_failed", "error")
        ]
        async with open_wire(on.gateway.address) as other:
            await other.send(request_frame(ApiKey.FETCH, 4, 1, b""))
            await other.frame()


async def test_an_idle_connection_has_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relaying needs no task either. A request that takes time starts one."""
    monkeypatch.setattr(ConnectionTasks, "record_rest", go_idle_soon)
    async with ground() as on:
        (connection,) = cast("Collection[ClientConnection]", on.gateway.limiter.traffic.open)
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await on.client.frame()
        await until(lambda: connection.is_asleep)
        for place in range(3):
            await on.client.send(request_frame(ApiKey.FETCH, 4, place, b""))
            await on.client.frame()
            assert connection.is_asleep
        for place in range(3):
            asking = encode(MetadataRequest(topics=()), 9)
            await on.client.send(request_frame(ApiKey.METADATA, 9, place, asking))
            await on.client.frame()
            await until(lambda: connection.is_asleep)


async def test_a_long_answer_wakes_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task splices the long answer. A short one behind it is sent in its turn."""
    monkeypatch.setattr(ConnectionTasks, "record_rest", go_idle_soon)

    async def answer(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await answer_bytes(wire, header, bytes(300_000 if header.correlation_id % 2 else 10))

    async with ground() as on:
        on.broker.handlers[ApiKey.FETCH] = answer
        for place in range(10):
            await on.client.send(request_frame(ApiKey.FETCH, 4, place, b""))
        for place in range(10):
            assert struct.unpack_from(">i", await on.client.frame()) == (place,)


@pytest.mark.parametrize("sent", [b"", request_frame(ApiKey.FETCH, 4, 2, b"")[:10]])
async def test_a_drain_ends_connections_without_tasks(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """This holds with and without a part of a request."""
    monkeypatch.setattr(ConnectionTasks, "record_rest", go_idle_soon)
    async with ground(limits=Limits(linger_timeout_s=0.1)) as on:
        (connection,) = cast("Collection[ClientConnection]", on.gateway.limiter.traffic.open)
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await on.client.frame()
        await until(lambda: connection.is_asleep)
        await on.client.send(sent)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert connection.is_asleep
        on.gateway.stop.set()
        with trio.fail_after(5):
            assert await on.client.at_end()


async def test_a_client_that_leaves_as_its_connection_goes_idle_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted off twice, it would leave room for one connection too many for ever."""
    real, hung_up = ClientConnection.sleep, trio.Event()
    async with ground() as on:
        async with open_wire(on.gateway.address) as client:

            def sleep(connection: ClientConnection) -> None:
                if not hung_up.is_set():
                    hung_up.set()
                    assert isinstance(client.stream, trio.SocketStream)
                    client.stream.socket.shutdown(socket.SHUT_RDWR)
                    connection._source._on_ready(select.EPOLLRDHUP)  # as the poller's turn does
                real(connection)

            await client.send(request_frame(ApiKey.API_VERSIONS, 0, 1, b""))
            await client.frame()
            monkeypatch.setattr(ClientConnection, "sleep", sleep)
            monkeypatch.setattr(ConnectionTasks, "record_rest", go_idle_soon)
            await client.send(request_frame(ApiKey.API_VERSIONS, 0, 2, b""))
            await hung_up.wait()
        await until(lambda: on.gateway.limiter.count == 1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert on.gateway.limiter.count == 1


async def test_an_answer_that_cannot_be_changed_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left out, it would have the client take the next answer for it."""

    async def learn(_listeners: Listeners, _brokers: object) -> None:
        raise socket.gaierror("the host cannot be resolved")

    async with ground() as on:
        monkeypatch.setattr(Listeners, "learn", learn)
        metadata = encode(MetadataRequest(topics=()), 9)
        await on.client.send(request_frame(ApiKey.METADATA, 9, 1, metadata))
        with trio.fail_after(5):
            assert await on.client.at_end()


async def test_a_drain_as_a_connection_goes_idle_leaves_the_owed_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both tasks end, so others have to wait for the answer."""
    answered, real = trio.Event(), ClientConnection.go_idle

    def go_idle(connection: ClientConnection) -> bool:
        is_idle = real(connection)
        if is_idle:
            connection.drain()
        return is_idle

    async with ground() as on:
        on.broker.handlers[ApiKey.FETCH] = answer_after(answered)
        (connection,) = cast("Collection[ClientConnection]", on.gateway.limiter.traffic.open)
        await on.client.send(request_frame(ApiKey.FETCH, 4, 1, b""))
        await trio.testing.wait_all_tasks_blocked(0.01)
        if not connection.is_asleep:
            assert go_idle(connection)
        else:
            connection.drain()
        await trio.testing.wait_all_tasks_blocked(0.01)
        answered.set()
        with trio.fail_after(2):
            await on.client.frame()
            assert await on.client.at_end()


async def test_a_drain_may_come_after_a_connection_has_ended(nursery: trio.Nursery) -> None:
    """Until its owner has noticed, the connection is drained like others."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    async with ground() as on:
        connection = connection_at(on, ours, ConnectionLimiter(Limits()), nursery)
        theirs.send(BAD_FRAMES["negative size"])
        await connection.serve()
        connection.drain()
    theirs.close()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("by_client", [True, False])
async def test_only_a_close_by_the_client_counts_as_one(
    nursery: trio.Nursery, *, by_client: bool
) -> None:
    """DEV D82: the client of a connection that the gateway ends may live on."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connected_clients = ConnectedClients()
    limiter = ConnectionLimiter(Limits(), connected_clients)
    async with ground() as on:
        connection = connection_at(on, ours, limiter, nursery)
        nursery.start_soon(connection._shared.resources.poller.run)
        connection.slot.introduce("consumer-1", 1)
        connected_clients.spoke(("orders", "m1"), 1)
        nursery.start_soon(connection.serve)
        await trio.testing.wait_all_tasks_blocked(0.01)
        if by_client:
            theirs.close()
        else:
            connection.drain()
        with trio.fail_after(5):
            await until(lambda: ours.fileno() < 0)
        assert connected_clients.find_gone("orders", QuotaKey("h")) == (
            {"m1"} if by_client else set()
        )
    theirs.close()
    nursery.cancel_scope.cancel()


def connection_at(
    on: Ground, sock: socket.socket, limiter: ConnectionLimiter, nursery: trio.Nursery
) -> ClientConnection:
    """A connection to the broker, from the host h."""
    return ClientConnection(
        sock,
        client_host="h",
        route=BrokerRoute(Brokers(lambda: {1: on.broker.address}, nursery), None),
        slot=limiter.take("h", has_handshake=False),
        context=ConnectionContext(
            limits=Limits(),
            group_apis=Parked(),
            rewrite=echo,
            topic_names=on.gateway.cluster.names_of,
            cluster_id=lambda: on.gateway.cluster.cluster_id,
            recall_metadata=on.gateway.cluster.recall,
            anonymous_grants=Grants(Limits()),
            held=HeldRequests(Limits()),
        ),
        log_context=contextvars.Context(),
        tasks=ConnectionTasks(nursery, lambda _: None),
    )


async def echo(answer: Struct) -> Struct:
    """No address needs to be replaced."""
    return answer
