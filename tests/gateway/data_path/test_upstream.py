"""The broker behind a client connection: down, hanging, and back."""

import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import not_

import pytest
import trio

from gateway.data_path import brokers
from gateway.data_path import upstream as upstream_module
from gateway.data_path.config import Limits
from gateway.data_path.errors import BrokerLost, UpstreamAway
from gateway.data_path.group_apis import GroupApis, GroupRequest
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.metadata import MetadataRequest, MetadataResponse
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tests.gateway.data_path.running_data_path import RunningGateway, running_gateway
from tests.support.fake_broker import (
    FakeBroker,
    answer,
    answer_size,
    run_until_cancelled,
    running_fake_broker,
)
from tests.support.until import until_answered
from tests.support.wire import Wire, open_wire, produce_body, request_frame

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
COMMIT = OffsetCommitRequest(group_id="g", topics=())
VERSIONS = ApiVersionsRequest(client_software_name="lib", client_software_version="1")
LOST, AWAY = 1, 2
FETCH = request_frame(ApiKey.FETCH, 4, 1, b"")
FETCH_OF_ONE = FetchRequest(
    max_wait_ms=0,
    min_bytes=0,
    topics=(
        FetchTopic(
            topic="t",
            partitions=(FetchPartition(partition=3, fetch_offset=0, partition_max_bytes=1),),
        ),
    ),
)


class AnswersAlone(GroupApis):
    """Group APIs that answer heartbeats, and forward everything else to the broker."""

    async def answer(self, request: GroupRequest) -> Struct:
        """The answer if the broker gives none."""
        if isinstance(request.message, OffsetCommitRequest):
            with contextlib.suppress(BrokerLost):
                answered: Struct = await request.upstream.ask(request.message, 8)
                return answered
            return OffsetCommitResponse(topics=())
        try:
            await request.upstream.ask(HEARTBEAT, 4)
        except UpstreamAway:
            return HeartbeatResponse(error_code=AWAY)
        except BrokerLost:
            return HeartbeatResponse(error_code=LOST)
        return HeartbeatResponse()


async def answers(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """Answer a heartbeat with success."""
    await answer(wire, header, HeartbeatResponse())


@dataclass(frozen=True, slots=True)
class Ground:
    """A broker, a gateway in front of it, and a client that connected before the outage."""

    broker: FakeBroker
    gateway: RunningGateway
    client: Wire

    async def beat(self) -> int:
        """The error code of a heartbeat that needs the broker."""
        answered: HeartbeatResponse = await self.client.ask(HEARTBEAT, 4)
        return answered.error_code

    async def back(self) -> None:
        """Wait until the broker receives requests again."""
        await until_answered(self.beat, not_)


@asynccontextmanager
async def ground(
    monkeypatch: pytest.MonkeyPatch, limits: Limits | None = None
) -> AsyncIterator[Ground]:
    """Stop the broker. `running_fake_broker` restarts it at the same address."""
    monkeypatch.setattr(upstream_module, "PATIENCE_S", 0.05)
    broker = FakeBroker(handlers={ApiKey.HEARTBEAT: answers, ApiKey.FETCH: answer_size})
    async with trio.open_nursery() as nursery:
        first_run: trio.CancelScope = await nursery.start(run_until_cancelled, broker)
        async with (
            running_gateway([broker.address], group_apis=AnswersAlone(), limits=limits) as gateway,
            open_wire(gateway.address) as client,
        ):
            on = Ground(broker, gateway, client)
            assert await on.beat() == 0
            first_run.cancel()
            await broker.down_to(0)
            await until_answered(on.beat, AWAY.__eq__)  # the gateway has noticed, too
            yield on
        nursery.cancel_scope.cancel()


async def test_a_client_survives_a_broker_that_owes_it_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its heartbeats need no broker. Once the broker is back, the gateway uses a new connection."""
    async with ground(monkeypatch) as on:
        for _ in range(3):
            assert await on.beat() == AWAY
        async with running_fake_broker(on.broker):
            await on.back()


async def test_what_a_broker_has_sent_counts_on_after_it_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A counter of bytes never falls."""
    async with ground(monkeypatch) as on:
        before = on.gateway.limiter.traffic.totals()[1]
        assert before > 0
        async with running_fake_broker(on.broker):
            await on.back()
            assert on.gateway.limiter.traffic.totals()[1] > before


async def test_a_new_client_gets_the_brokers_earlier_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new client can send heartbeats. Its Fetch learns that the broker leads nothing, and
    requests that only the broker can answer close the connection. Both are delayed, so that the
    client does not retry immediately."""
    async with ground(monkeypatch) as on, open_wire(on.gateway.address) as other:
        offered = await other.ask(VERSIONS, 3)
        assert {api.api_key for api in offered.api_keys} > {ApiKey.FETCH, ApiKey.HEARTBEAT}
        assert (await other.ask(HEARTBEAT, 4)).error_code == AWAY
        started_s = trio.current_time()
        fetched: FetchResponse = await other.ask(FETCH_OF_ONE, 12)
        (partition,) = fetched.responses[0].partitions
        assert (partition.partition_index, partition.error_code) == (
            3,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
        assert trio.current_time() - started_s >= upstream_module.PATIENCE_S
        started_s = trio.current_time()
        await other.send(request_frame(ApiKey.LIST_OFFSETS, 4, 2, b"any"))
        assert await other.at_end()
        assert trio.current_time() - started_s >= upstream_module.PATIENCE_S


async def test_a_broker_that_returns_with_other_versions_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client must request the versions again."""
    async with ground(monkeypatch) as on:
        on.broker.versions = {**on.broker.versions, ApiKey.FETCH: (4, 5)}
        async with running_fake_broker(on.broker):
            with pytest.raises(EOFError):
                await on.back()


async def test_the_close_tells_a_client_that_a_request_without_an_answer_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker has no other way to report a failure with acks=0."""

    async def close(wire: Wire, header: RequestHeader, body: bytes) -> None:
        raise EOFError

    async with ground(monkeypatch) as on:
        on.broker.handlers[ApiKey.PRODUCE] = close
        async with running_fake_broker(on.broker), open_wire(on.gateway.address) as producer:
            await on.back()
            await producer.send(request_frame(ApiKey.PRODUCE, 3, 1, produce_body(3, acks=0)))
            assert await producer.at_end()


async def test_a_slow_broker_delays_no_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next heartbeat waits behind a commit. Other connections are not affected, because the
    broker is only slow."""
    hangs = trio.Event()

    async def hang(wire: Wire, header: RequestHeader, body: bytes) -> None:
        hangs.set()
        await trio.sleep_forever()

    async with ground(monkeypatch, Limits(broker_timeout_s=0.2)) as on:
        on.broker.handlers[ApiKey.OFFSET_COMMIT] = hang
        async with running_fake_broker(on.broker):
            await on.back()
            with trio.fail_after(10):
                assert await on.client.ask(COMMIT, 8) == OffsetCommitResponse(topics=())
            assert hangs.is_set()
            assert await on.beat() == 0


async def test_pending_answers_end_the_connection_with_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client cannot know whether the request was served."""
    asked = trio.Event()

    async def half(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await wire.send(struct.pack(">i", 100))
        asked.set()
        raise EOFError

    async with ground(monkeypatch) as on:
        on.broker.handlers[ApiKey.FETCH] = half
        async with running_fake_broker(on.broker):
            await on.back()
            await on.client.send(FETCH)
            await asked.wait()
            with contextlib.suppress(EOFError):
                await on.client.frame()
            assert await on.client.at_end()


# -- the first connection, and later ones ----------------------------------------------------------


@asynccontextmanager
async def beside_a_first_client() -> AsyncIterator[tuple[FakeBroker, tuple[str, int]]]:
    """A broker whose versions a first client has learned, and the port that represents it."""
    broker = FakeBroker(handlers={ApiKey.FETCH: answer_size})
    async with (
        running_fake_broker(broker),
        running_gateway([broker.address], group_apis=AnswersAtOnce()) as gateway,
        open_wire(gateway.address) as client,
    ):
        listed: MetadataResponse = await client.ask(MetadataRequest(topics=()), 9)
        address = (listed.brokers[0].host, listed.brokers[0].port)
        async with open_wire(address) as first:
            await first.ask(VERSIONS, 3)
            yield broker, address


class AnswersAtOnce(GroupApis):
    """Group APIs that need no broker."""

    async def answer(self, request: GroupRequest) -> Struct:
        """A heartbeat's success."""
        return HeartbeatResponse()


async def test_a_member_at_rest_needs_no_connection_to_the_broker() -> None:
    """A herd of members that comes back costs the cluster nothing."""
    async with beside_a_first_client() as (broker, address), open_wire(address) as member:
        before = broker.connections
        offered = await member.ask(VERSIONS, 3)
        assert {api.api_key for api in offered.api_keys} > {ApiKey.FETCH, ApiKey.HEARTBEAT}
        assert not (await member.ask(HEARTBEAT, 4)).error_code
        assert broker.connections == before
        await member.send(FETCH)
        await member.frame()
        assert broker.connections == before + 1


async def test_the_broker_learns_the_software_of_a_client_that_asks_it_something() -> None:
    """The broker learns it although the connection is opened after the client has introduced
    itself."""
    async with beside_a_first_client() as (broker, address), open_wire(address) as client:
        await client.ask(
            ApiVersionsRequest(client_software_name="x", client_software_version="2"), 3
        )
        assert ("x", "2") not in broker.software
        await client.send(FETCH)
        await client.frame()
        assert ("x", "2") in broker.software


async def test_a_broker_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its features may have changed without a restart."""
    async with beside_a_first_client() as (broker, address), open_wire(address) as client:
        monkeypatch.setattr(brokers, "VERSIONS_FRESH_S", -1.0)
        before = broker.connections
        await client.ask(VERSIONS, 3)
        assert broker.connections == before + 1


async def test_versions_of_an_upgraded_broker_are_learned_from_the_first_connection() -> None:
    """The client that was offered the old ones has to ask again."""
    async with beside_a_first_client() as (broker, address):
        broker.versions = {**broker.versions, ApiKey.FETCH: (4, 5)}
        async with open_wire(address) as client:
            await client.ask(VERSIONS, 3)
            await client.send(FETCH)
            assert await client.at_end()
        async with open_wire(address) as client:
            offered = await client.ask(VERSIONS, 3)
            (fetch,) = (api for api in offered.api_keys if api.api_key == ApiKey.FETCH)
            assert fetch.max_version == 5
