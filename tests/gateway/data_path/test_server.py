"""Draining, and the limits for clients."""

import struct
from contextvars import ContextVar

import pytest
import structlog
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.cluster.cluster import Cluster
from gateway.data_path.config import DataPathConfig, Limits
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.data_path.server import serve
from gateway.data_path.upstream import Upstream
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.gateway.data_path.client_connection import AnswersLater
from tests.gateway.data_path.forward_everything import ForwardEverything
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.fake_broker import FakeBroker, answer_bytes, answer_size, running_fake_broker
from tests.support.until import until
from tests.support.wire import Wire, open_wire, produce_body, request_frame

FETCH = request_frame(ApiKey.FETCH, 4, 1, b"")
HEARTBEAT = request_frame(
    ApiKey.HEARTBEAT,
    4,
    1,
    encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
)
IDLE_S = 0.2
QUIET_S = 0.01


@pytest.fixture
def socket_clock(autojump_clock: MockClock) -> MockClock:
    """A clock that jumps only once the sockets have been quiet."""
    autojump_clock.autojump_threshold = QUIET_S
    return autojump_clock


class LateBroker:
    """A broker that answers Fetch when the test allows it."""

    def __init__(self) -> None:
        self.asked = trio.Event()
        self.release = trio.Event()
        self.broker = FakeBroker(handlers={ApiKey.FETCH: self._fetch})

    async def _fetch(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        self.asked.set()
        await self.release.wait()
        await answer_bytes(wire, header, b"")


class LateGroups(GroupApis):
    """Group APIs that answer a heartbeat when the test allows it."""

    def __init__(self) -> None:
        self.asked = trio.Event()
        self.release = trio.Event()

    async def answer(self, request: GroupRequest) -> Struct:
        self.asked.set()
        await self.release.wait()
        return HeartbeatResponse()


async def _serve(
    nursery: trio.Nursery,
    broker: FakeBroker,
    stop: trio.Event,
    limits: Limits,
    groups: GroupApis | None = None,
) -> tuple[tuple[str, int], trio.Event]:
    """The gateway's address, and an event for its end."""
    cluster = Cluster([broker.address])
    await nursery.start(cluster.run)
    ended = trio.Event()

    async def run(task_status: trio.TaskStatus[tuple[str, int]]) -> None:
        config = DataPathConfig(listen_port=0, advertised_host="127.0.0.1", limits=limits)
        await serve(
            config, groups or ForwardEverything(), cluster, stop=stop, task_status=task_status
        )
        ended.set()

    return await nursery.start(run), ended


async def test_a_drain_answers_requests_in_flight_and_closes_the_rest() -> None:
    """No new connections are accepted. Idle ones close immediately, and others after their last
    answer."""
    late = LateBroker()
    async with running_fake_broker(late.broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        address, ended = await _serve(nursery, late.broker, stop, Limits())
        async with (
            open_wire(address) as idle,
            open_wire(address) as busy,
            open_wire(address) as cut,
        ):
            await cut.send(FETCH[:9])
            await busy.send(FETCH + request_frame(ApiKey.FETCH, 4, 2, b""))
            await late.asked.wait()
            stop.set()
            assert await idle.at_end()
            try:
                async with open_wire(address):
                    raise AssertionError("a new connection was accepted")
            except OSError:
                pass
            assert not ended.is_set()
            late.release.set()
            assert struct.unpack(">i", await busy.frame()) == (1,)
            assert struct.unpack(">i", await busy.frame()) == (2,)
            assert await busy.at_end()
        with trio.fail_after(5):
            await ended.wait()
        nursery.cancel_scope.cancel()


async def test_a_partial_request_does_not_delay_a_drain() -> None:
    """A partial request is not dropped immediately either, because the rest may be on its way."""
    broker = FakeBroker(handlers={ApiKey.FETCH: answer_size})
    async with running_fake_broker(broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        limits = Limits(drain_timeout_s=60, linger_timeout_s=0.3)
        address, ended = await _serve(nursery, broker, stop, limits)
        async with open_wire(address) as cut, open_wire(address) as late:
            for client in (cut, late):
                await client.send(FETCH + FETCH[:9])
                await client.frame()
            stop.set()
            await trio.testing.wait_all_tasks_blocked(QUIET_S)
            with trio.fail_after(5):
                await late.send(FETCH[9:])
                await late.frame()
                assert await late.at_end()
                assert await cut.at_end()
        with trio.fail_after(5):
            await ended.wait()
        nursery.cancel_scope.cancel()


async def test_a_drain_does_not_wait_for_the_answer_to_a_partial_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker has the beginning of the request, so no answer will come."""
    waits: list[Upstream] = []

    async def idle(upstream: Upstream) -> None:
        waits.append(upstream)

    monkeypatch.setattr(Upstream, "idle", idle)
    broker = FakeBroker()
    async with running_fake_broker(broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        limits = Limits(drain_timeout_s=60, linger_timeout_s=0.1)
        address, ended = await _serve(nursery, broker, stop, limits)
        seen = len(broker.seen)
        async with open_wire(address) as cut:
            await cut.send(FETCH[:-1])
            await until(lambda: len(broker.seen) > seen)  # its versions, before any request
            await trio.testing.wait_all_tasks_blocked(QUIET_S)
            stop.set()
            assert await cut.at_end()
        await ended.wait()
        nursery.cancel_scope.cancel()
    assert not waits


async def test_a_partial_request_does_not_delay_a_drain_behind_a_slow_broker(
    socket_clock: MockClock,
) -> None:
    """Its time may run out while the gateway still waits for the broker."""
    broker = FakeBroker()
    is_slow, asked, release = False, trio.Event(), trio.Event()

    async def slow(wire: Wire, header: RequestHeader, body: bytes) -> None:
        if is_slow:
            asked.set()
            await release.wait()
        await broker.answer_versions(wire, header, body)

    broker.handlers[ApiKey.API_VERSIONS] = slow
    async with running_fake_broker(broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        limits = Limits(drain_timeout_s=60)
        address, ended = await _serve(nursery, broker, stop, limits)
        is_slow = True
        async with open_wire(address) as cut:
            await cut.send(FETCH[:-1])
            await asked.wait()
            stop.set()
            await trio.sleep(2 * limits.linger_timeout_s)
            release.set()
            with trio.fail_after(5):
                assert await cut.at_end()
        with trio.fail_after(5):
            await ended.wait()
        nursery.cancel_scope.cancel()


async def test_a_drain_leaves_requests_behind_the_present_one_unread() -> None:
    """Their client sends them again elsewhere."""
    groups, broker = LateGroups(), FakeBroker()
    async with running_fake_broker(broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        address, _ended = await _serve(nursery, broker, stop, Limits(), groups)
        async with open_wire(address) as client:
            await client.send(HEARTBEAT + HEARTBEAT)
            await groups.asked.wait()
            stop.set()
            await trio.testing.wait_all_tasks_blocked(QUIET_S)
            groups.release.set()
            with trio.fail_after(5):
                await client.frame()
                assert await client.at_end()
        nursery.cancel_scope.cancel()


async def test_a_drain_waits_for_an_answer_that_takes_no_task() -> None:
    """An answer without a task is in flight like any other."""
    groups, broker = AnswersLater(), FakeBroker()
    async with running_fake_broker(broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        address, _ended = await _serve(nursery, broker, stop, Limits(), groups)
        async with open_wire(address) as client:
            await client.send(HEARTBEAT)
            await client.frame()
            await client.send(HEARTBEAT)
            later = await groups.wait_for_requests(1)
            stop.set()
            await trio.testing.wait_all_tasks_blocked(QUIET_S)
            assert later.changed is not None
            later.answer = HeartbeatResponse()
            later.changed()
            with trio.fail_after(5):
                await client.frame()
                assert await client.at_end()
            assert not later.is_abandoned
        nursery.cancel_scope.cancel()


async def test_a_drain_may_begin_while_the_broker_takes_no_more_requests() -> None:
    """The request that is under way arrives whole and is answered. The connection then waits for
    none of those behind it."""
    late = LateBroker()
    late.broker.handlers[ApiKey.PRODUCE] = answer_size
    produce = request_frame(ApiKey.PRODUCE, 8, 2, produce_body(8, -1, bytes(50_000)))
    sent = 0
    async with running_fake_broker(late.broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        limits = Limits(linger_timeout_s=0.5)
        address, ended = await _serve(nursery, late.broker, stop, limits)

        async def flood(client: Wire) -> None:
            nonlocal sent
            try:
                while True:
                    await client.send(produce)
                    sent += 1
            except trio.BrokenResourceError:
                pass  # the drain has ended

        with capture_logs() as lines:
            async with open_wire(address) as client:
                await client.send(FETCH)
                await late.asked.wait()
                nursery.start_soon(flood, client)
                before = -1
                while before != sent:
                    before = sent
                    await trio.testing.wait_all_tasks_blocked(0.1)
                stop.set()
                await trio.testing.wait_all_tasks_blocked(QUIET_S)
                late.release.set()
                assert struct.unpack(">i", await client.frame()) == (1,)
                assert struct.unpack_from(">i", await client.frame()) == (2,)
                with trio.fail_after(5):
                    while not await _has_ended(client):
                        pass
                    await ended.wait()
        events = {line["event"] for line in lines}
        assert not events & {"connection_failed", "bad_frame_received"}
        nursery.cancel_scope.cancel()


async def _has_ended(client: Wire) -> bool:
    try:
        await client.frame()
    except (EOFError, trio.BrokenResourceError):
        return True
    return False


@pytest.mark.parametrize("behind_another", [False, True])
async def test_the_time_of_a_request_begins_with_its_first_byte(
    socket_clock: MockClock, behind_another: bool
) -> None:
    """If the answer before it leaves later, the time begins then."""
    groups, broker = LateGroups(), FakeBroker(handlers={ApiKey.FETCH: answer_size})
    limits = Limits(idle_timeout_s=IDLE_S, half_sent_timeout_s=IDLE_S)
    async with (
        running_fake_broker(broker),
        running_gateway([broker.address], group_apis=groups, limits=limits) as gateway,
        open_wire(gateway.address) as client,
    ):
        await client.send(HEARTBEAT + (FETCH[:9] if behind_another else b""))
        if not behind_another:
            groups.release.set()
            await client.frame()
        await trio.sleep(0.7 * IDLE_S)
        if behind_another:
            groups.release.set()
            await client.frame()
        else:
            await client.send(FETCH[:9])
        await trio.sleep(0.7 * IDLE_S)
        await client.send(FETCH[9:])
        await client.frame()


async def test_an_idle_client_is_closed(socket_clock: MockClock) -> None:
    """A broker does the same. A client that waits for an answer is not idle."""
    late, limits = LateBroker(), Limits(idle_timeout_s=IDLE_S, linger_timeout_s=0.1 * IDLE_S)
    async with running_fake_broker(late.broker):
        async with running_gateway([late.broker.address], limits=limits) as gateway:
            address = gateway.address
            async with open_wire(address) as silent, open_wire(address) as waits:
                await waits.send(FETCH)
                assert await silent.at_end()
                await trio.sleep(1.5 * IDLE_S)
                late.release.set()
                await waits.frame()
                assert await waits.at_end()


async def test_a_partial_request_times_out(
    socket_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for a missing start or end, even if the frame passes inside the kernel. Nothing
    waits for an answer, because the broker has no complete request either."""
    waits: list[Upstream] = []

    async def idle(upstream: Upstream) -> None:
        waits.append(upstream)

    monkeypatch.setattr(Upstream, "idle", idle)
    broker = FakeBroker(handlers={ApiKey.PRODUCE: answer_size})
    limits = Limits(half_sent_timeout_s=IDLE_S)
    whole = request_frame(ApiKey.PRODUCE, 8, 1, produce_body(8, -1, bytes(1_000_000)))
    async with running_fake_broker(broker):
        async with running_gateway([broker.address], limits=limits) as gateway:
            with capture_logs() as lines:
                for part in (whole[:3], whole[:200], whole[:-1]):
                    async with open_wire(gateway.address) as client:
                        await client.send(part)
                        assert await client.at_end()
            events = [line["event"] for line in lines if line["log_level"] == "warning"]
            assert events == ["half_sent_request"] * 3
            assert not waits
            async with open_wire(gateway.address) as quiet:
                await trio.sleep(2 * IDLE_S)
                await quiet.send(whole)
                await quiet.frame()


async def test_a_client_that_reads_nothing_is_closed() -> None:
    """Pending answers do not keep it. A client that reads slowly is kept."""
    broker = FakeBroker(handlers={ApiKey.FETCH: _flood})
    limits = Limits(idle_timeout_s=5 * IDLE_S)
    async with running_fake_broker(broker):
        async with running_gateway([broker.address], limits=limits) as gateway:
            async with open_wire(gateway.address) as client:
                await client.send(FETCH)
                await broker.down_to(0)


async def _flood(wire: Wire, header: RequestHeader, body: bytes) -> None:
    await wire.send(struct.pack(">ii", 4 + (64 << 20), header.correlation_id))
    await wire.send(bytes(64 << 20))


async def test_the_connections_of_one_address_are_limited() -> None:
    """Other addresses are served."""
    broker = FakeBroker()
    limits = Limits(max_connections_per_address=1)
    async with running_fake_broker(broker):
        async with running_gateway([broker.address], limits=limits) as gateway:
            versions = request_frame(ApiKey.API_VERSIONS, 0, 1, b"")
            async with open_wire(gateway.address) as first:
                await first.send(versions)
                await first.frame()
                with capture_logs() as lines:
                    for _ in range(3):
                        async with open_wire(gateway.address) as second:
                            assert await second.at_end()
                assert {line["event"] for line in lines} == {"connection_refused"}
                assert lines[0]["reason"] == "1 clients of the address 127.0.0.1 are connected"
                other = await trio.open_tcp_stream(*gateway.address, local_address="127.0.0.2")
                async with other:
                    await Wire(other).send(versions)
                    await Wire(other).frame()
            await until(lambda: not broker.connections)
            async with open_wire(gateway.address) as again:
                await again.send(versions)
                await again.frame()


async def test_a_drain_is_limited() -> None:
    """An answer that does not come in time is abandoned, and logged."""
    late = LateBroker()
    async with running_fake_broker(late.broker), trio.open_nursery() as nursery:
        stop = trio.Event()
        limits = Limits(drain_timeout_s=0.1)
        address, ended = await _serve(nursery, late.broker, stop, limits)
        async with open_wire(address) as busy:
            await busy.send(FETCH)
            await late.asked.wait()
            with capture_logs() as lines:
                stop.set()
                assert await busy.at_end()
                with trio.fail_after(5):
                    await ended.wait()
        assert [line["event"] for line in lines] == ["drain_started", "drain_finished"]
        assert lines[1]["in_time"] is False
        nursery.cancel_scope.cancel()


async def test_a_connection_beyond_the_limit_is_closed_with_one_line() -> None:
    """A connection that ends makes room for another."""
    broker = FakeBroker()
    async with running_fake_broker(broker):
        async with running_gateway(
            [broker.address], limits=Limits(max_connections=2, max_connections_per_address=2)
        ) as gateway:
            async with open_wire(gateway.address) as first, open_wire(gateway.address) as second:
                versions = request_frame(ApiKey.API_VERSIONS, 0, 1, b"")
                for client in (first, second):
                    await client.send(versions)
                    await client.frame()
                with capture_logs() as lines:
                    async with open_wire(gateway.address) as third:
                        assert await third.at_end()
                assert [line["event"] for line in lines] == ["connection_refused"]
            await trio.testing.wait_all_tasks_blocked(0.01)
            async with open_wire(gateway.address) as fourth:
                await fourth.send(versions)
                await fourth.frame()


async def test_log_lines_name_their_connection() -> None:
    """The context is bound once per connection, and its tasks inherit it."""
    broker = FakeBroker()
    async with running_fake_broker(broker), running_gateway([broker.address]) as gateway:
        seen = []
        unknown = request_frame(ApiKey.VOTE, 0, 1, b"")
        for bad in (struct.pack(">i", -1) + b"x" * 8, unknown):
            with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
                async with open_wire(gateway.address) as client:
                    await client.send(bad)
                    assert await client.at_end()
            seen += [line["connection_id"] for line in lines]
        assert len(set(seen)) == 2


async def test_a_slow_client_delays_only_its_own_upstream_connection() -> None:
    """The gateway buffers a limited amount for it, and others continue."""
    chunk = bytes(1_000_000)
    sent = 0

    async def flood(wire: Wire, header: RequestHeader, body: bytes) -> None:
        nonlocal sent
        await wire.send(struct.pack(">ii", 4 + 500 * len(chunk), header.correlation_id))
        for _ in range(500):
            await wire.send(chunk)
            sent += len(chunk)

    broker = FakeBroker(handlers={ApiKey.FETCH: flood})
    async with running_fake_broker(broker), running_gateway([broker.address]) as gateway:
        async with open_wire(gateway.address) as slow, open_wire(gateway.address) as other:
            await slow.send(FETCH)
            before = -1
            while before != sent:
                before = sent
                await trio.testing.wait_all_tasks_blocked(0.1)
            assert sent < 50_000_000
            for _ in range(100):
                await other.send(request_frame(ApiKey.API_VERSIONS, 0, 1, b""))
                await other.frame()
            read = 0
            while read < 8 + 500 * len(chunk):
                read += len(await slow.stream.receive_some())
            assert read == 8 + 500 * len(chunk)


SERVED_IN: ContextVar[str] = ContextVar("SERVED_IN", default="elsewhere")


async def test_the_tasks_of_connections_inherit_the_context_of_the_gateway() -> None:
    """This holds whichever task has begun them: the poller's task wakes a connection that
    sleeps."""
    served_in: list[str] = []

    class Groups(GroupApis):
        async def answer(self, request: GroupRequest) -> Struct:
            served_in.append(SERVED_IN.get())
            return HeartbeatResponse()

    SERVED_IN.set("the gateway")
    async with running_fake_broker(FakeBroker()) as broker:
        async with running_gateway([broker.address], group_apis=Groups()) as gateway:
            SERVED_IN.set("the client")
            async with open_wire(gateway.address) as client:
                await client.send(HEARTBEAT)
                await client.frame()
    assert served_in == ["the gateway"]
