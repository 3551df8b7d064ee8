"""Connections to coordinators are few, and no request waits behind a join."""

import struct

import pytest
import trio
from trio.testing import MockClock

from gateway.cluster import coordinator_connections as module
from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.cluster import Cluster
from gateway.cluster.coordinator_connections import CoordinatorConnections
from gateway.cluster.errors import UpstreamError
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tests.support.fake_broker import KAFKA_3, FakeBroker, answer, running_fake_broker
from tests.support.until import until
from tests.support.wire import Wire

LEAVE = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
JOIN = JoinGroupRequest(
    group_id="g", session_timeout_ms=1, member_id="", protocol_type="t", protocols=()
)


class Parking(FakeBroker):
    """Joins wait at the gate."""

    def park_at(self, gate: trio.Event) -> None:
        """Park requests from now on."""

        async def join(wire: Wire, header: RequestHeader, body: bytes) -> None:
            await gate.wait()
            await answer(wire, header, JoinGroupResponse(member_id="m"))

        async def beat(wire: Wire, header: RequestHeader, body: bytes) -> None:
            await answer(wire, header, HeartbeatResponse())

        self.handlers = {ApiKey.JOIN_GROUP: join, ApiKey.HEARTBEAT: beat}


def joins_at(broker: FakeBroker) -> int:
    """The number of joins that have arrived."""
    return sum(header.api_key == ApiKey.JOIN_GROUP for header in broker.seen)


async def test_heartbeats_share_one_connection_and_pass_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Joins have connections of their own, which close when none is waiting."""
    monkeypatch.setattr(module, "JOINS_AT_ONCE_MAX", 3)
    gate, broker = trio.Event(), Parking()
    broker.park_at(gate)
    with trio.fail_after(10):
        async with running_fake_broker(broker), trio.open_nursery() as nursery:
            cluster = Cluster([broker.address])
            await nursery.start(cluster.run)
            connections = CoordinatorConnections(cluster)
            await broker.down_to(0)  # the one that found the cluster
            async with trio.open_nursery() as asking:
                for _ in range(7):
                    asking.start_soon(connections.ask, 1, JOIN)
                async with trio.open_nursery() as beating:
                    for _ in range(50):
                        beating.start_soon(connections.ask, 1, BEAT)
                await until(lambda: joins_at(broker) >= 3)
                assert broker.connections == 1 + 3
                gate.set()
            await broker.down_to(1)
            assert joins_at(broker) == 7
            connections.close()
            await broker.down_to(0)
            nursery.cancel_scope.cancel()


async def test_a_lost_connection_is_reopened() -> None:
    """Waiting requests fail."""
    broker = Parking()
    broker.park_at(trio.Event())

    async def hang_up(wire: Wire, header: RequestHeader, body: bytes) -> None:
        raise EOFError

    with trio.fail_after(10):
        async with running_fake_broker(broker), trio.open_nursery() as nursery:
            cluster = Cluster([broker.address])
            await nursery.start(cluster.run)
            connections = CoordinatorConnections(cluster)
            answers, broker.handlers = broker.handlers, {ApiKey.HEARTBEAT: hang_up}
            with pytest.raises(UpstreamError):
                await connections.ask(1, BEAT)
            broker.handlers = answers
            assert (await connections.ask(1, BEAT)).error_code == 0
            with pytest.raises(UpstreamError, match="broker 7"):
                await connections.ask(7, BEAT)
            connections.close()
            nursery.cancel_scope.cancel()


async def test_a_hanging_broker_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker may hang before or after the connection opens. All waiting requests fail."""
    monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 0.1)
    broker = Parking()
    broker.park_at(trio.Event())

    async def hang(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await trio.sleep_forever()

    errors = []
    with trio.fail_after(10):
        async with running_fake_broker(broker), trio.open_nursery() as nursery:
            cluster = Cluster([broker.address])
            await nursery.start(cluster.run)
            connections = CoordinatorConnections(cluster)

            async def ask() -> None:
                with pytest.raises(UpstreamError) as caught:
                    await connections.ask(1, BEAT)
                errors.append(str(caught.value))

            for api in (ApiKey.HEARTBEAT, ApiKey.API_VERSIONS):
                broker.handlers = {api: hang}
                async with trio.open_nursery() as asking:
                    for _ in range(3):
                        asking.start_soon(ask)
            nursery.cancel_scope.cancel()
    assert len(errors) == 6
    assert any("broker 1 did not answer in" in error for error in errors[:3])
    assert all("broker 1 did not answer in" in error for error in errors[3:])


async def test_requests_are_pipelined() -> None:
    """A slow line could not carry a thousand heartbeats one by one."""
    arrived, broker = trio.Event(), FakeBroker()
    seen = []

    async def wait_for_more(wire: Wire, header: RequestHeader, body: bytes) -> None:
        seen.append(header.correlation_id)
        if len(seen) == 1:
            # The second request arrives before the first is answered.
            (size,) = struct.unpack(">i", await wire.receive(4))
            following = await wire.receive(size)
            arrived.set()
            await answer(wire, header, HeartbeatResponse())
            (second,) = struct.unpack(">i", following[4:8])
            await answer(
                wire,
                RequestHeader(
                    api_key=header.api_key,
                    api_version=header.api_version,
                    correlation_id=second,
                    client_id=None,
                ),
                HeartbeatResponse(),
            )

    broker.handlers = {ApiKey.HEARTBEAT: wait_for_more}
    with trio.fail_after(10):
        async with running_fake_broker(broker), trio.open_nursery() as nursery:
            cluster = Cluster([broker.address])
            await nursery.start(cluster.run)
            connections = CoordinatorConnections(cluster)
            async with trio.open_nursery() as asking:
                for _ in range(2):
                    asking.start_soon(connections.ask, 1, BEAT)
            assert arrived.is_set()
            connections.close()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("highest", [0, 2, 3, 5])
async def test_a_leave_has_the_shape_that_the_broker_knows(highest: int) -> None:
    """Before v3 it names its member otherwise."""
    left: list[LeaveGroupRequest] = []

    async def leave(wire: Wire, header: RequestHeader, body: bytes) -> None:
        left.append(decode(LeaveGroupRequest, body, header.api_version))
        await answer(wire, header, LeaveGroupResponse())

    broker = FakeBroker(versions={**KAFKA_3, ApiKey.LEAVE_GROUP: (0, highest)})
    broker.handlers = {ApiKey.LEAVE_GROUP: leave}
    with trio.fail_after(10):
        async with running_fake_broker(broker), trio.open_nursery() as nursery:
            cluster = Cluster([broker.address])
            await nursery.start(cluster.run)
            connections = CoordinatorConnections(cluster)
            await connections.ask(1, LEAVE)
            connections.close()
            nursery.cancel_scope.cancel()
    old = LeaveGroupRequest(group_id="g", member_id="m")
    assert left == [LEAVE if highest >= 3 else old]


async def test_a_broker_without_an_api_answers_with_an_error() -> None:
    """A proxy may offer fewer apis than Kafka. The group then asks again later."""
    broker = FakeBroker()
    with trio.fail_after(10):
        async with running_fake_broker(broker), trio.open_nursery() as nursery:
            cluster = Cluster([broker.address])
            await nursery.start(cluster.run)
            connections = CoordinatorConnections(cluster)
            with pytest.raises(UpstreamError, match="no version of LEAVE_GROUP"):
                await connections.ask(1, LEAVE)
            connections.close()
            nursery.cancel_scope.cancel()


async def test_all_requests_to_a_missing_broker_fail_at_once(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """One after the other, a thousand requests would each wait for a timeout of nine seconds."""
    tries = 0

    async def open_(host: str, port: int, access: Access) -> BrokerConnection:
        nonlocal tries
        tries += 1
        await trio.sleep(9)
        raise UpstreamError("nobody answers")

    async def ask() -> None:
        with pytest.raises(UpstreamError, match="nobody answers"):
            await connections.ask(1, BEAT)

    monkeypatch.setattr(BrokerConnection, "open", open_)
    cluster = Cluster([])
    cluster.brokers = {1: ("away", 9092)}
    connections = CoordinatorConnections(cluster)
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for _ in range(1_000):
                nursery.start_soon(ask)
    assert (tries, trio.current_time()) == (2, 18)
